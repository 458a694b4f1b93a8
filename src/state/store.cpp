#include "state/store.hpp"

#include "base/frame.hpp"
#include "base/offload.hpp"

#include <algorithm>
#include <utility>

namespace collab::state {

using wire::Kind;

namespace {

net::Method index_method() {
  net::Method method;
  method.name = wire::kIndexMethod;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = frame::kFrameBytesMax;
  method.requests_per_s = 100;  // whoever catches up asks for one result after the other, and epochs may be of a blink
  method.requests_burst = 100;
  method.idempotent = true;
  return method;
}

net::Method chunk_method() {
  net::Method method;
  method.name = wire::kChunkMethod;
  method.traffic = net::TrafficClass::bulk;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = kChunkBytes + 1024;
  method.requests_per_s = 4000;  // 1 GB/s: what bounds a download is the line, and the chunks in flight
  method.requests_burst = 4000;
  method.idempotent = true;
  return method;
}

/// What somebody who takes part misses, not what a joiner fetches.
bool is_result(Kind kind) {
  return kind == Kind::result || kind == Kind::first_group;
}

constexpr std::size_t kSharersKept = 64;  // of one snapshot
constexpr std::size_t kSharedMax = 4;     // snapshots of which sharers are known

net::Method have_method() {
  net::Method method;
  method.name = wire::kHaveMethod;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = kIndexedBytesMax / kChunkBytes / 8 + 1024;
  method.requests_per_s = 100;
  method.requests_burst = 100;
  method.idempotent = true;
  return method;
}

net::Method pass_method() {
  net::Method method;
  method.name = wire::kPassMethod;
  method.traffic = net::TrafficClass::bulk;
  method.request_bytes_max = 2048;
  method.answer_bytes_max = frame::kFrameBytesMax;
  method.requests_per_s = 400;
  method.requests_burst = 400;
  method.idempotent = true;
  return method;
}

}  // namespace

Store::Store(net::Endpoint& net, Clock& clock, asio::any_io_executor loop, asio::any_io_executor workers, Log& log,
             Source source, StoreOptions options)
    : clock_(clock),
      pass_on_(net, clock, options.pass_on),
      workers_(std::move(workers)),
      log_(log),
      source_(std::move(source)),
      options_(options),
      results_(options.result_bytes_max),
      changed_(std::move(loop)) {
  net.handle(index_method(), [this](PeerId from, Frame request, TimePoint deadline) {
    return give_index(from, std::move(request), deadline);
  });
  net.handle(chunk_method(),
             [this](PeerId from, Frame request, TimePoint) { return give_chunk(from, std::move(request)); });
  net.handle(have_method(), [this](PeerId from, Frame request, TimePoint deadline) {
    return give_have(from, std::move(request), deadline);
  });
  net.handle(pass_method(), [this](PeerId from, Frame request, TimePoint deadline) {
    return pass_on_.pass(from, std::move(request), deadline);
  });
}

// ---- what the owner tells ----

void Store::advance(std::uint64_t epoch) {
  epoch_ = epoch;
  if (first_group_ && first_group_->key.epoch < epoch_) {
    first_group_.reset();
    forget_offers([](const Key& key) { return key.kind == Kind::first_group; });
  }
  changed_.notify();
}

void Store::keep_result(std::uint64_t epoch, KeptResult result) {
  results_.keep(epoch, std::move(result), clock_.now());
  forget_offers([&](const Key& key) {
    return key.kind == Kind::result && (key.epoch == epoch || results_.find(key.epoch) == nullptr);
  });
  changed_.notify();
}

void Store::keep_first_group(std::uint64_t epoch, const Digest& topic, KeptResult result) {
  if (epoch < epoch_) return;
  first_group_ = FirstGroup{{Kind::first_group, epoch, topic}, std::move(result)};
  forget_offers([](const Key& key) { return key.kind == Kind::first_group; });
  changed_.notify();
}

void Store::forget_offers(const std::function<bool(const Key&)>& which) {
  std::erase_if(kept_, [&](const auto& entry) {
    const bool goes = which(entry.first);
    if (goes) by_root_.erase(entry.second.offer->root);
    return goes;
  });
}

Task<Result<>> Store::add_file(Digest name, std::filesystem::path file) {
  const auto files =
      std::count_if(kept_.begin(), kept_.end(), [](const auto& entry) { return entry.first.kind == Kind::file; });
  if (static_cast<std::size_t>(files) >= options_.files_max) co_return Errc::busy;
  const auto work = [file = std::move(file)] { return offer_file(file); };
  auto offer = co_await offload(workers_, work);
  const Key key{Kind::file, 0, name};
  by_root_[offer->root] = key;
  kept_[key] = Kept{std::move(offer), clock_.now()};
  co_return Result<>();
}

std::size_t Store::snapshots_kept() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(kept_.begin(), kept_.end(), [](const auto& entry) { return entry.first.kind == Kind::snapshot; }));
}

// ---- what it fetches itself ----

void Store::share(Offer offer) {
  fetched_ = std::move(offer);
  fetched_used_ = clock_.now();
  changed_.notify();
}

void Store::share_chunk(const Digest& root, std::size_t chunk) {
  if (!fetched_ || fetched_->root != root) return;
  fetched_->here[chunk] = true;
  fetched_used_ = clock_.now();
  changed_.notify();
}

void Store::share_no_more(const Digest& root) {
  if (fetched_ && fetched_->root == root) fetched_.reset();
}

void Store::note_sharer(const Digest& root, const PeerId& peer) {
  const TimePoint now = clock_.now();
  if (!sharers_.contains(root) && sharers_.size() >= kSharedMax) {
    const auto newest = [](const auto& of) {
      TimePoint at{};
      for (const auto& [id, asked] : of.second) at = std::max(at, asked);
      return at;
    };
    sharers_.erase(std::min_element(sharers_.begin(), sharers_.end(),
                                    [&](const auto& a, const auto& b) { return newest(a) < newest(b); }));
  }
  auto& known = sharers_[root];
  std::erase_if(known, [&](const auto& one) { return now - one.second > options_.lease; });
  if (known.size() < kSharersKept || known.contains(peer)) known[peer] = now;
}

bool Store::somebody_joins() const {
  const TimePoint now = clock_.now();
  const auto joins = [&](const auto& entry) {
    const auto& [peer, place] = entry;
    const bool is_served = !place.sending.expired() || now - place.asked <= options_.join_time;
    return is_served &&
           std::any_of(sharers_.begin(), sharers_.end(), [&peer](const auto& of) { return of.second.contains(peer); });
  };
  return std::any_of(downloads_.begin(), downloads_.end(), joins);
}

std::vector<PeerId> Store::sharers(const Digest& root) const {
  std::vector<PeerId> peers;
  const auto found = sharers_.find(root);
  if (found == sharers_.end()) return peers;
  for (const auto& [peer, asked] : found->second)
    if (clock_.now() - asked <= options_.lease) peers.push_back(peer);
  return peers;
}

/// Those behind the asker in the order of ids, so that each hears of others.
std::vector<PeerId> Store::sharers_but(const Digest& root, const PeerId& asker) const {
  std::vector<PeerId> peers = sharers(root);
  std::erase(peers, asker);
  const auto behind = std::upper_bound(peers.begin(), peers.end(), asker);
  std::rotate(peers.begin(), behind, peers.end());
  if (peers.size() > wire::kSharersMax) peers.resize(wire::kSharersMax);
  return peers;
}

// ---- what others ask ----

Task<net::Answer> Store::give_index(PeerId from, Frame request, TimePoint deadline) {
  const auto message = frame::decode<wire::Message>(*request);
  const auto* asked = message ? std::get_if<wire::AskIndex>(&message->header) : nullptr;
  if (asked == nullptr || asked->kind > static_cast<std::uint8_t>(Kind::first_group))
    co_return Refusal(Errc::bad_request);
  const wire::AskIndex ask = *asked;
  const auto kind = static_cast<Kind>(ask.kind);
  const bool named = kind == Kind::file || kind == Kind::first_group;
  const Key key{kind, kind == Kind::file ? 0 : ask.epoch, named ? ask.name : Digest()};
  const Duration patience = std::min<Duration>(std::chrono::milliseconds(ask.wait_ms), options_.wait_max);
  const auto offer = co_await wait_for(key, std::min(deadline, clock_.now() + patience), deadline);
  if (!offer) co_return offer.error();
  const auto sharers = sharers_but((*offer)->root, from);
  if (ask.shares && kind == Kind::snapshot) note_sharer((*offer)->root, from);
  co_return wire::show((*offer)->index, sharers);
}

/// The offer is good until the next suspension.
Task<boost::system::result<const Offer*, Refusal>> Store::wait_for(Key key, TimePoint until, TimePoint deadline) {
  std::shared_ptr<Wish> mine;
  for (;;) {
    if (const auto found = kept_.find(key); found != kept_.end()) {
      found->second.used = clock_.now();
      co_return found->second.offer.get();
    }
    if (mine && mine->refusal) co_return *mine->refusal;
    if (auto refused = cannot_have(key)) co_return *refused;
    const TimePoint last = is_ahead(key) ? until : deadline;
    if (clock_.now() >= last) co_return not_reached(key);
    if (!mine) mine = wish(key);
    if (!mine) co_return Refusal(Errc::busy, "too much is asked for", 1000);
    (void)co_await changed_.wait_until(clock_, last);  // what has happened is looked up above
  }
}

Task<net::Answer> Store::give_chunk(PeerId from, Frame request) {
  const auto message = frame::decode<wire::Message>(*request);
  const auto* ask = message ? std::get_if<wire::AskChunk>(&message->header) : nullptr;
  if (ask == nullptr) co_return Refusal(Errc::bad_request);
  const auto found = by_root_.find(ask->root);
  const bool own = found != by_root_.end();
  if (!own && (!fetched_ || fetched_->root != ask->root)) co_return Refusal(Errc::stale, "not kept any more", epoch_);
  const Kind kind = own ? found->second.kind : Kind::snapshot;
  const Offer& offer = own ? *kept_.at(found->second).offer : *fetched_;
  if (ask->chunk >= offer.index.chunks()) co_return Refusal(Errc::bad_request, "no such chunk");
  const auto pause_ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.busy_pause).count();
  if (!offer.has(ask->chunk)) co_return Refusal(Errc::busy, "not here yet", static_cast<std::uint64_t>(pause_ms));
  if (auto refused = take_place(from, kind)) co_return *refused;
  (own ? kept_.at(found->second).used : fetched_used_) = clock_.now();
  const wire::Message answer(wire::Chunk{ask->chunk});
  co_return send_in_place(from, kind, frame::encode(answer, offer.chunk(offer.index.place(ask->chunk))));
}

Task<net::Answer> Store::give_have(PeerId from, Frame request, TimePoint deadline) {
  const auto message = frame::decode<wire::Message>(*request);
  const auto* asked = message ? std::get_if<wire::AskHave>(&message->header) : nullptr;
  if (asked == nullptr) co_return Refusal(Errc::bad_request);
  const wire::AskHave ask = *asked;
  const Duration patience = std::min<Duration>(std::chrono::milliseconds(ask.wait_ms), options_.wait_max);
  const TimePoint until = std::min(deadline, clock_.now() + patience);
  for (;;) {
    if (const auto found = by_root_.find(ask.root); found != by_root_.end())
      co_return wire::tell(std::vector<bool>(kept_.at(found->second).offer->index.chunks(), true));
    if (!fetched_ || fetched_->root != ask.root) co_return Refusal(Errc::stale, "not kept any more", epoch_);
    note_sharer(ask.root, from);
    const auto have = std::count(fetched_->here.begin(), fetched_->here.end(), true);
    if (static_cast<std::uint64_t>(have) > ask.known || clock_.now() >= until) co_return wire::tell(fetched_->here);
    (void)co_await changed_.wait_until(clock_, until);  // either way it is looked at again
  }
}

/// Whether `peer` is among those who are served; what it is told if not.
Store::Refused Store::take_place(const PeerId& peer, Kind kind) {
  Places& places = is_result(kind) ? catch_ups_ : downloads_;
  const std::size_t places_max = is_result(kind) ? options_.catch_ups_max : options_.downloads_max;
  const TimePoint now = clock_.now();
  std::erase_if(places, [&](const auto& place) {
    return place.second.sending.expired() && now - place.second.asked > options_.place_idle;
  });
  if (places.size() >= places_max && !places.contains(peer)) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.busy_pause).count();
    return Refusal(Errc::busy, "others are being served", static_cast<std::uint64_t>(ms));
  }
  places[peer].asked = now;
  return std::nullopt;
}

/// The place is held until the last copy of the frame is gone, which is when it has been sent.
Frame Store::send_in_place(const PeerId& peer, Kind kind, Frame frame) {
  Place& place = (is_result(kind) ? catch_ups_ : downloads_)[peer];
  std::shared_ptr<const void> sending = place.sending.lock();
  if (!sending) sending = std::make_shared<char>();
  place.sending = sending;
  const Buffer* bytes = frame.get();
  return Frame(bytes, [frame = std::move(frame), sending = std::move(sending)](const Buffer*) {});
}

Refusal Store::not_reached(const Key& key) const {
  return Refusal(Errc::late, is_result(key.kind) ? "no such round yet" : "not reached yet", epoch_);
}

/// Of a result or a first group: null when it is not here.
const KeptResult* Store::result(const Key& key) const {
  if (key.kind == Kind::result) return results_.find(key.epoch);
  return first_group_ && first_group_->key == key ? &first_group_->result : nullptr;
}

/// It may come yet.
bool Store::is_ahead(const Key& key) const {
  return is_result(key.kind) ? result(key) == nullptr : key.epoch > epoch_;
}

/// Why waiting for it is no use.
Store::Refused Store::cannot_have(const Key& key) const {
  const Refusal over(Errc::stale, "that epoch is over", epoch_);
  switch (key.kind) {
    case Kind::snapshot:
      if (key.epoch >= epoch_ || making_ == key) return std::nullopt;
      return over;
    case Kind::result:
    case Kind::first_group:
      if (result(key) != nullptr) return std::nullopt;
      if (key.kind == Kind::first_group && key.epoch > epoch_ + 1) return not_reached(key);
      return key.epoch < epoch_ ? std::optional(over) : std::nullopt;
    case Kind::file: break;
  }
  return Refusal(Errc::gone, "this peer does not have it");
}

/// One wish per thing, shared by all who wait for it. Null when too many are open.
std::shared_ptr<Store::Wish> Store::wish(const Key& key) {
  std::erase_if(wishes_, [](const auto& open) { return open.expired(); });
  for (const auto& open : wishes_) {
    if (auto same = open.lock(); same->key == key && !same->refusal) return same;
  }
  const bool names_any = key.kind == Kind::first_group;  // an honest peer asks for that of one group at a time
  const auto first_groups = std::count_if(wishes_.begin(), wishes_.end(),
                                          [](const auto& open) { return open.lock()->key.kind == Kind::first_group; });
  if (names_any && static_cast<std::size_t>(first_groups) >= options_.first_groups_max) return nullptr;
  if (wishes_.size() >= options_.wishes_max) return nullptr;
  auto made = std::make_shared<Wish>(Wish{key, std::nullopt});
  wishes_.push_back(made);
  changed_.notify();
  return made;
}

// ---- making what is asked for ----

Task<> Store::run() {
  for (;;) {
    const TimePoint next = tidy();
    if (auto ready = next_wish()) {
      co_await grant(std::move(ready));
    } else {
      (void)co_await changed_.wait_until(clock_, next);  // either way everything is looked at again
    }
  }
}

std::shared_ptr<Store::Wish> Store::next_wish() {
  for (const auto& open : wishes_) {
    auto one = open.lock();
    if (!one || one->refusal || kept_.contains(one->key)) continue;
    const bool ready = is_result(one->key.kind) ? result(one->key) != nullptr : one->key.epoch == epoch_;
    if (ready) return one;
  }
  return nullptr;
}

Task<> Store::grant(std::shared_ptr<Wish> wish) {
  struct Making {  // also when run() is cancelled meanwhile
    std::optional<Key>& key;
    ~Making() { key.reset(); }
  };
  const Making making{making_};
  const Key key = wish->key;
  making_ = key;
  auto made = co_await make(key);
  if (made && is_result(key.kind) && result(key) == nullptr) made = Refusal(Errc::stale, "", epoch_);
  if (made && (*made)->index.bytes() > kIndexedBytesMax) made = Refusal(Errc::gone, "larger than an index can name");
  if (made) {
    by_root_[(*made)->root] = key;
    kept_[key] = Kept{*made, clock_.now()};
    log_.debug("state.offered", {{"epoch", key.epoch}, {"bytes", (*made)->index.bytes()}});
  } else {
    wish->refusal = made.error();
  }
  changed_.notify();
}

Task<boost::system::result<std::shared_ptr<const Offer>, Refusal>> Store::make(Key key) {
  if (is_result(key.kind)) {
    const KeptResult* kept = result(key);
    if (kept == nullptr) co_return Refusal(Errc::stale, "that epoch is over", epoch_);
    const auto work = [epoch = key.epoch, encode = kept->encode] { return offer_result(epoch, encode()); };
    co_return co_await offload(workers_, work);
  }
  if (auto refused = make_room()) co_return *refused;
  auto snapshot = co_await source_(key.epoch);
  if (!snapshot) co_return Refusal(snapshot.error() == Errc::stale ? Errc::stale : Errc::gone, "", epoch_);
  const std::uint64_t taken = (*snapshot)->epoch;
  if (taken != key.epoch) co_return Refusal(Errc::stale, "that epoch is over", std::max(taken, epoch_));
  const auto work = [snapshot = std::move(*snapshot)] { return offer_snapshot(snapshot); };
  co_return co_await offload(workers_, work);
}

/// Lets the oldest snapshot go when there are as many as may be; `busy` while even that one is being fetched.
Store::Refused Store::make_room() {
  if (snapshots_kept() < options_.snapshots_max) return std::nullopt;
  auto oldest = kept_.end();
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;
  for (auto at = kept_.begin(); at != kept_.end(); ++at) {
    if (at->first.kind != Kind::snapshot) continue;
    bytes += at->second.offer->index.bytes();
    largest = std::max(largest, at->second.offer->index.bytes());
    if (oldest == kept_.end() || at->second.used < oldest->second.used) oldest = at;
  }
  if (bytes + largest < options_.snapshot_bytes_max) return std::nullopt;  // as large as they, the next one fits too
  if (clock_.now() - oldest->second.used < options_.idle) return Refusal(Errc::busy, "others are being served", 1000);
  by_root_.erase(oldest->second.offer->root);
  kept_.erase(oldest);
  return std::nullopt;
}

/// Drops snapshots whose lease is over, and what was fetched. Returns when there will be something to drop.
TimePoint Store::tidy() {
  TimePoint next = TimePoint::max();
  if (fetched_ && fetched_used_ + options_.lease <= clock_.now()) fetched_.reset();
  if (fetched_) next = fetched_used_ + options_.lease;
  for (auto at = kept_.begin(); at != kept_.end();) {
    const bool leased = at->first.kind == Kind::snapshot;
    const TimePoint end = at->second.used + options_.lease;
    if (leased && end <= clock_.now()) {
      by_root_.erase(at->second.offer->root);
      at = kept_.erase(at);
      continue;
    }
    if (leased) next = std::min(next, end);
    ++at;
  }
  return next;
}

}  // namespace collab::state
