#include "support/notice_board.hpp"

#include "directory/lease_record.hpp"

#include <algorithm>

namespace collab::test {

class NoticeBoard::Watch final : public directory::Watch {
 public:
  Watch(NoticeBoard& board, PeerId reader, std::string key) : board_(board), reader_(reader), key_(std::move(key)) {}

  const std::vector<directory::Record>& records() const override {
    records_.clear();
    const TimePoint now = board_.world_.clock().now();
    const auto cut = board_.cut_.find(reader_);
    for (const auto& [place, posts] : board_.posts_[key_]) {
      const Post* newest = nullptr;
      for (const Post& post : posts) {
        const bool hidden = cut != board_.cut_.end() && post.seen_from > cut->second;
        if (!hidden && post.seen_from <= now && post.expires > now) newest = &post;
      }
      if (newest != nullptr && !newest->record.value.empty()) records_.push_back(newest->record);
    }
    return records_;
  }

  void relax(Duration) override {}  // every reader sees every post
  Task<bool> changed_until(TimePoint deadline) override {
    if (deadline == TimePoint::max()) {
      co_await board_.changed_.wait();
      co_return true;
    }
    co_return co_await board_.changed_.wait_until(board_.world_.clock(), deadline);
  }

 private:
  NoticeBoard& board_;
  PeerId reader_;
  std::string key_;
  mutable std::vector<directory::Record> records_;
};

class NoticeBoard::View final : public directory::Directory {
 public:
  View(NoticeBoard& board, PeerId self) : board_(board), self_(self) {}

  void publish(std::string key, std::string subkey, Bytes value, Duration ttl) override {
    const TimePoint now = board_.world_.clock().now();
    Post post;
    post.record.key = key;
    post.record.owner = self_;
    post.record.subkey = subkey;
    post.record.sequence = ++board_.sequence_;
    post.record.value = std::move(value);
    post.seen_from = now + board_.delay_;
    post.expires = now + ttl;
    auto& posts = board_.posts_[key][{self_, subkey}];
    posts.push_back(std::move(post));
    if (posts.size() > 2 && board_.cut_.empty()) posts.erase(posts.begin());  // who is cut off still sees the older
    board_.tasks_.spawn("announce", board_.announce(now + board_.delay_));
  }
  void withdraw(const std::string& key, const std::string& subkey) override {
    publish(key, subkey, Bytes(), std::chrono::seconds(1));
  }
  Task<Result<>> claim(std::string key, std::string subkey, Bytes value, Duration ttl, TimePoint deadline) override {
    if (!connected()) co_return Errc::gone;
    if (board_.stalled_.contains(self_)) {
      co_await board_.world_.clock().sleep_until(deadline);
      co_return Errc::late;
    }
    const auto wanted = directory::decode_lease(value).value();
    for (const auto& [place, posts] : board_.posts_[key]) {
      const directory::Record& other = posts.back().record;
      const bool lives = posts.back().expires > board_.world_.clock().now() && !other.value.empty();
      if (other.owner != self_ && lives && directory::decode_lease(other.value).value().overlaps(wanted))
        co_return Errc::denied;
    }
    publish(std::move(key), std::move(subkey), std::move(value), ttl);
    co_return Result<>();
  }
  Task<Result<std::vector<directory::Record>>> get(std::string key, TimePoint) override {
    ++board_.asked_[{self_, key}];
    co_return NoticeBoard::Watch(board_, self_, std::move(key)).records();
  }
  std::unique_ptr<directory::Watch> watch(std::string key) override {
    return std::make_unique<NoticeBoard::Watch>(board_, self_, std::move(key));
  }
  bool connected() const override { return !board_.cut_.contains(self_); }
  TimePoint steady_since() const override {
    const auto back = board_.back_.find(self_);
    return !connected() ? TimePoint::max() : back == board_.back_.end() ? TimePoint::min() : back->second;
  }

 private:
  NoticeBoard& board_;
  PeerId self_;
};

NoticeBoard::NoticeBoard(sim::Simulation& world, Duration delay)
    : world_(world), delay_(delay), changed_(world.executor()), tasks_(world.executor(), rethrow) {}

NoticeBoard::~NoticeBoard() {
  const auto stop = [this]() -> Task<> { co_await tasks_.stop(); };
  world_.run(stop());
}

unsigned NoticeBoard::asked(const PeerId& peer, const std::string& key) const {
  const auto asked = asked_.find({peer, key});
  return asked == asked_.end() ? 0 : asked->second;
}

directory::Directory& NoticeBoard::view_of(const PeerId& peer) {
  auto& view = views_[peer];
  if (!view) view = std::make_unique<View>(*this, peer);
  return *view;
}

void NoticeBoard::cut_off(const PeerId& peer, bool cut) {
  if (cut) {
    cut_.emplace(peer, world_.clock().now());
  } else {
    cut_.erase(peer);
    back_[peer] = world_.clock().now();
    changed_.notify();
  }
}

Task<> NoticeBoard::announce(TimePoint when) {
  co_await world_.clock().sleep_until(when);
  changed_.notify();
}

}  // namespace collab::test
