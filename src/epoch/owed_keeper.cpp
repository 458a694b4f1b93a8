#include "epoch/owed_keeper.hpp"

#include "base/offload.hpp"

#include <cassert>
#include <utility>

namespace collab::epoch {

OwedKeeper::OwedKeeper(const asio::any_io_executor& loop, asio::any_io_executor workers, const CodecMap& codecs,
                       PeerId self)
    : workers_(std::move(workers)), self_(std::move(self)), feedback_(codecs), changed_(loop) {}

Task<> OwedKeeper::run() {
  for (;;) {
    while (!next_) {
      const bool woken = co_await changed_.wait();
      if (!woken) co_return;
    }
    settles_ = true;
    Settling settling = *std::exchange(next_, std::nullopt);
    const auto work = [&settling] {
      settling.run();
      return true;
    };
    (void)co_await offload(workers_, work);
    feedback_.settled(std::move(settling));
    settles_ = false;
    changed_.notify();
  }
}

Task<> OwedKeeper::all_settled() {
  while (next_ || settles_) {
    const bool woken = co_await changed_.wait();
    if (!woken) co_return;  // cancelled: the caller's next wait throws
  }
}

/// `pass`: returns true, to say something.
Task<> OwedKeeper::beside(std::function<bool()> pass) {
  auto settled = all_settled();
  co_await std::move(settled);
  (void)co_await offload(workers_, std::move(pass));  // what it throws passes through
}

Task<> OwedKeeper::add_to(std::span<float> mean, std::uint64_t weight, const matchmaking::Group& group,
                          EncodeOptions options) {
  return beside([this, mean, weight, &group, options] {
    feedback_.add_to(mean, weight, group, options);
    return true;
  });
}

Task<> OwedKeeper::restore(std::span<float> mean) {
  return beside([this, mean] {
    feedback_.restore(mean);
    return true;
  });
}

Task<> OwedKeeper::pay(std::span<float> mean, std::uint64_t weight) {
  return beside([this, mean, weight] {
    feedback_.pay(mean, weight);
    return true;
  });
}

void OwedKeeper::settle(std::shared_ptr<const averaging::CommittedRound> round) {
  begin(feedback_.settle(std::move(round), self_));
}

void OwedKeeper::missed(std::shared_ptr<const averaging::CommittedRound> round) {
  begin(feedback_.missed(std::move(round), self_));
}

void OwedKeeper::begin(std::optional<Settling> settling) {
  if (!settling) return;
  assert(!next_ && !settles_);  // it is of the last add_to(), which waited for those before
  next_ = std::move(settling);
  changed_.notify();
}

}  // namespace collab::epoch
