#include "state/fetch.hpp"

#include "base/duration.hpp"
#include "base/frame.hpp"
#include "base/offload.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace collab::state {
namespace {

constexpr Duration kMeetPeriod = std::chrono::milliseconds(100);
/// A donor's line broke: over another one, which takes until it may be dialled again, it answers at once, where the
/// rest may take long to be found dead.
constexpr std::array<Duration, 5> kAskAgain = {Duration::zero(), std::chrono::milliseconds(250),
                                               std::chrono::milliseconds(500), std::chrono::seconds(1),
                                               std::chrono::seconds(2)};

std::uint32_t milliseconds_of(Duration wait) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(wait).count());
}

}  // namespace

Fetch::Fetch(Context context, wire::AskIndex ask, Acceptable acceptable, OnProgress on_progress, FetchOptions options,
             Store* share_by)
    : context_(std::move(context)),
      ask_(ask),
      acceptable_(std::move(acceptable)),
      on_progress_(std::move(on_progress)),
      options_(options),
      share_by_(share_by) {
  ask_.shares = share_by_ != nullptr;
}

Task<boost::system::result<Index, Refusal>> Fetch::run(std::vector<PeerId> donors, Shelf& shelf, TimePoint deadline) {
  shelf_ = &shelf;
  deadline_ = deadline;
  changed_.emplace(co_await asio::this_coro::executor);
  choose_donors(std::move(donors));
  const auto on_failure = [this](std::string_view, std::exception_ptr failure) {
    if (!failure_) failure_ = std::move(failure);
    changed_->notify();
  };
  struct Shared {  // also when this is cancelled
    Fetch& fetch;
    ~Shared() {
      const bool whole = fetch.plan_ && fetch.plan_->complete();
      if (fetch.share_by_ != nullptr && fetch.index_ && !whole) fetch.share_by_->share_no_more(fetch.root_);
    }
  };
  const Shared shared{*this};
  const auto body = [this](TaskGroup& tasks) -> Task<> { co_await manage(tasks); };
  auto scope = task_scope(on_failure, body);
  co_await std::move(scope);
  if (failure_) std::rethrow_exception(failure_);
  if (failed_) co_return *failed_;
  co_return std::move(*index_);
}

void Fetch::choose_donors(std::vector<PeerId> donors) {
  std::sort(donors.begin(), donors.end());
  donors.erase(std::unique(donors.begin(), donors.end()), donors.end());
  std::erase(donors, context_.net.self());
  for (std::size_t left = donors.size(); left > 1; --left)
    std::swap(donors[left - 1], donors[context_.random.below(left)]);
  if (donors.size() > options_.candidates_max) donors.resize(options_.candidates_max);
  for (const PeerId& peer : donors) donors_.push_back(Donor{peer, {}, {}, {}, 0, false});
  first_sharer_ = next_sharer_ = donors_.size();
  const auto can_reach = [this](const Donor& donor) { return context_.net.can_reach(donor.peer); };
  if (std::none_of(donors_.begin(), donors_.end(), can_reach)) relays_ = context_.net.tensor_relays();
}

bool Fetch::can_ask(const PeerId& donor) const {
  return context_.net.can_reach(donor) || !relays_.empty();
}

/// Errors: the donor's; of who is asked by others also `gone` and `denied`.
Task<net::Answer> Fetch::ask(PeerId donor, std::string_view method, wire::Message message, TimePoint deadline) {
  Frame question = frame::encode(message);
  if (context_.net.can_reach(donor)) co_return co_await context_.net.call(donor, method, std::move(question), deadline);
  wire::Pass pass;
  pass.donor = donor.key;
  const Frame passed = frame::encode(wire::Message(pass), *question);
  net::Answer answer = Refusal(Errc::gone);
  for (std::size_t i = 0; i < relays_.size() && !answer; ++i) {
    answer = co_await context_.net.call(relays_[i], wire::kPassMethod, passed, deadline);
    const bool in_vain = !answer && (answer.error().code == Errc::gone || answer.error().code == Errc::denied ||
                                     answer.error().code == Errc::bad_request);
    if (!in_vain) break;
  }
  co_return answer;
}

/// Donors may be named too: who gives everything is not asked as a sharer.
void Fetch::know_sharers(const std::vector<PeerId>& peers) {
  if (share_by_ == nullptr) return;
  for (const PeerId& peer : peers) {
    const bool known = std::any_of(donors_.begin(), donors_.end(), [&](const Donor& one) { return one.peer == peer; });
    if (known || peer == context_.net.self() || donors_.size() >= first_sharer_ + options_.sharers_known_max) continue;
    donors_.push_back(Donor{peer, {}, {}, {}, 0, false});
  }
}

/// Sees to it that enough donors are asked, that an index is chosen, and that there is an end.
Task<> Fetch::manage(TaskGroup& tasks) {
  struct Ending {  // a donor's task that was woken before it is cancelled starts nothing more
    bool& ended;
    ~Ending() { ended = true; }
  };
  const Ending ending{ended_};
  for (;;) {
    start_donors(tasks);
    start_sharers(tasks);
    if (plan_ && plan_->complete()) co_return;
    if (failure_) co_return;
    give_up_silent();
    if (!somebody_left()) failed_ = why_nobody();
    if (context_.clock.now() >= deadline_) failed_ = Refusal(Errc::late);
    if (failed_) co_return;
    if (!index_) {
      if (const Donor* shown = choose_index()) {
        co_await open_shelf(*shown->index);
        if (share_by_ != nullptr) tasks.spawn("sharers", meet_sharers(tasks));
        continue;
      }
    }
    (void)co_await changed_->wait_until(context_.clock, look_again());  // either way everything is looked at again
  }
}

TimePoint Fetch::look_again() const {
  if (index_) return deadline_;
  if (first_shown_ != TimePoint::max()) return std::min(deadline_, first_shown_ + options_.grace);
  const bool refused = options_.refused_grace && first_refused_ != TimePoint::max();
  return refused ? std::min(deadline_, first_refused_ + *options_.refused_grace) : deadline_;
}

/// Those who answer have nothing, and the rest has had its time.
void Fetch::give_up_silent() {
  const bool waits = !options_.refused_grace || first_refused_ == TimePoint::max() || first_shown_ != TimePoint::max();
  if (waits || context_.clock.now() < first_refused_ + *options_.refused_grace) return;
  for (std::size_t donor = 0; donor < first_sharer_; ++donor) leave(donor, Refusal(Errc::gone, "it does not answer"));
}

/// Of donors_[first..last) those who have not left.
std::size_t Fetch::active(std::size_t first, std::size_t last) const noexcept {
  const auto begin = donors_.begin();
  return static_cast<std::size_t>(std::count_if(begin + static_cast<std::ptrdiff_t>(first),
                                                begin + static_cast<std::ptrdiff_t>(last),
                                                [](const Donor& donor) { return !donor.left; }));
}

/// Counted anew each time: who cannot be reached has left before `spawn` returns, when nobody waits for `changed_` yet.
void Fetch::start_donors(TaskGroup& tasks) {
  while (started_ < first_sharer_ && active(0, started_) < options_.donors_max)
    tasks.spawn("donor", talk(tasks, started_++));
}

void Fetch::start_sharers(TaskGroup& tasks) {
  if (!plan_) return;
  while (next_sharer_ < donors_.size() && active(first_sharer_, next_sharer_) < options_.sharers_max) {
    const std::size_t sharer = next_sharer_++;
    donors_[sharer].has.emplace(index_->chunks());
    if (context_.net.can_reach(donors_[sharer].peer)) {
      tasks.spawn("sharer", share_with(tasks, sharer));
    } else {
      donors_[sharer].left = Refusal(Errc::gone);
    }
  }
}

/// Sharers alone do, as long as one of them has what is wanted: else they would wait for each other.
bool Fetch::somebody_left() const noexcept {
  for (std::size_t i = 0; i < donors_.size(); ++i) {
    const Donor& donor = donors_[i];
    if (donor.left) continue;
    if (i < first_sharer_) return true;
    if (plan_ && i < next_sharer_ && plan_->lacks_any(*donor.has)) return true;
  }
  return false;
}

/// One who showed the index to take; null while it is too early to tell.
const Fetch::Donor* Fetch::choose_index() const {
  struct Votes {
    std::size_t count = 0;
    const Donor* first = nullptr;
  };
  std::map<Digest, Votes> shown;
  std::size_t silent = 0;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < started_; ++i) {
    const Donor& donor = donors_[i];
    if (donor.left) continue;
    ++asked;
    if (!donor.index) {
      ++silent;
      continue;
    }
    Votes& votes = shown[donor.root];
    ++votes.count;
    if (votes.first == nullptr) votes.first = &donor;
  }
  if (shown.empty()) return nullptr;
  const auto best = std::max_element(shown.begin(), shown.end(),  // the first of equals: the lower root
                                     [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
  const bool patience_over = context_.clock.now() >= first_shown_ + options_.grace;
  return silent == 0 || 2 * best->second.count > asked || patience_over ? best->second.first : nullptr;
}

std::vector<PeerId> Fetch::silent() const {
  std::vector<PeerId> silent;
  for (std::size_t i = 0; i < started_; ++i)
    if (!donors_[i].left && donors_[i].root == Digest{}) silent.push_back(donors_[i].peer);
  return silent;
}

Task<> Fetch::open_shelf(Index index) {
  index_ = std::move(index);
  root_ = index_->root();
  const auto work = [this] { return shelf_->open(*index_); };
  const std::vector<bool> here = co_await offload(context_.workers, work);
  if (share_by_ != nullptr) share_by_->share(shelf_->offer(*index_, here));
  progress_.bytes_total = index_->bytes();
  for (std::size_t chunk = 0; chunk < here.size(); ++chunk)
    if (here[chunk]) progress_.bytes += index_->place(chunk).bytes;
  began_ = context_.clock.now();
  plan_.emplace(here, share_by_ != nullptr ? &context_.random : nullptr);
  report();
  changed_->notify();
}

/// The way of one donor: its index, then as many chunks as it likes to give.
Task<> Fetch::talk(TaskGroup& tasks, std::size_t donor) {
  if (!can_ask(donors_[donor].peer)) {  // a circuit for words would lead there, with an index and no chunk
    leave(donor, Refusal(Errc::gone));
    co_return;
  }
  auto index = co_await ask_index(donors_[donor].peer);
  for (const Duration pause : kAskAgain) {
    if (index || index.error().code != Errc::gone || ended_) break;
    if (pause > Duration::zero()) {
      leave(donor, index.error());  // others stand in for it, or end this
      co_await context_.clock.sleep_until(context_.clock.now() + pause);
      if (ended_) co_return;
    }
    index = co_await ask_index(donors_[donor].peer);
  }
  if (!index) {
    leave(donor, index.error());
    co_return;
  }
  donors_[donor].left.reset();
  if (!acceptable_(*index)) {
    leave(donor, Refusal(Errc::bad_request, "shows another state"));
    co_return;
  }
  donors_[donor].root = index->root();
  donors_[donor].index = std::move(*index);
  first_shown_ = std::min(first_shown_, context_.clock.now());
  changed_->notify();
  while (!plan_) co_await changed_->wait();
  donors_[donor].index.reset();
  if (donors_[donor].root != root_) {
    leave(donor, Refusal(Errc::bad_request, "shows another state than most"));
    co_return;
  }
  if (ended_) co_return;
  for (std::size_t i = 1; i < options_.chunks_per_donor; ++i) tasks.spawn("donor", fetch_chunks(tasks, donor));
  co_await fetch_chunks(tasks, donor);
}

/// The way of one who fetches the same: it tells again and again what it has.
Task<> Fetch::share_with(TaskGroup& tasks, std::size_t donor) {
  const PeerId peer = donors_[donor].peer;
  bool fetches = false;
  while (!donors_[donor].left && !plan_->complete()) {
    wire::AskHave ask;
    ask.root = root_;
    ask.known = static_cast<std::uint32_t>(std::count(donors_[donor].has->begin(), donors_[donor].has->end(), true));
    if (ask.known == index_->chunks()) co_return;
    ask.wait_ms = milliseconds_of(options_.news_wait);
    const TimePoint deadline = std::min(deadline_, context_.clock.now() + options_.news_wait + options_.index_patience);
    const wire::Message message(ask);
    const net::Answer answer = co_await context_.net.call(peer, wire::kHaveMethod, frame::encode(message), deadline);
    auto have = answer ? wire::read_have(**answer, index_->chunks()) : Result<std::vector<bool>>(Errc::gone);
    if (!have) {
      leave(donor, answer ? Refusal(have.error()) : answer.error());
      co_return;
    }
    donors_[donor].has = std::move(*have);
    changed_->notify();
    if (std::exchange(fetches, true) || ended_) continue;
    for (std::size_t i = 0; i < options_.chunks_per_donor; ++i) tasks.spawn("sharer", fetch_chunks(tasks, donor));
  }
}

/// Who asks this node is one of them too.
Task<> Fetch::meet_sharers(TaskGroup& tasks) {
  while (!plan_->complete() && !ended_) {
    know_sharers(share_by_->sharers(root_));
    start_sharers(tasks);
    co_await context_.clock.sleep_until(context_.clock.now() + kMeetPeriod);
  }
}

Task<boost::system::result<Index, Refusal>> Fetch::ask_index(PeerId peer) {
  const Duration wait = std::chrono::milliseconds(ask_.wait_ms);
  for (;;) {
    const TimePoint deadline = std::min(deadline_, context_.clock.now() + wait + options_.index_patience);
    const net::Answer answer = co_await ask(peer, wire::kIndexMethod, wire::Message(ask_), deadline);
    if (answer) {
      auto shown = wire::read_index(**answer);
      if (!shown) co_return Refusal(Errc::bad_request, "an index that makes no sense");
      know_sharers(shown->sharers);
      co_return std::move(shown->index);
    }
    if (answer.error().code != Errc::busy) co_return answer.error();
    const Duration asked = std::chrono::milliseconds(std::clamp<std::uint64_t>(answer.error().number, 100, 60'000));
    const TimePoint again = context_.clock.now() + std::min(asked, options_.busy_pause_max);
    if (again >= deadline_) co_return answer.error();
    co_await context_.clock.sleep_until(again);
  }
}

/// As many as come in a round trip, and the one that comes: else a long way is empty while a question is on it.
std::size_t Fetch::chunks_wanted(const Donor& donor) const {
  const Duration round_trip = context_.net.link(donor.peer).rtt_least;
  const double taken = to_seconds(context_.clock.now() - donor.asked_at - round_trip);  // the first question's
  if (taken <= 0) return options_.chunks_per_donor;
  const double come = static_cast<double>(donor.chunks) * to_seconds(round_trip) / taken;
  const double wanted = 1 + std::ceil(std::min(come, static_cast<double>(options_.chunks_per_donor_max)));
  return std::clamp(static_cast<std::size_t>(wanted), options_.chunks_per_donor, options_.chunks_per_donor_max);
}

Task<> Fetch::fetch_chunks(TaskGroup& tasks, std::size_t donor) {
  if (donors_[donor].under_way++ == 0) donors_[donor].asked_at = context_.clock.now();
  while (!donors_[donor].left && !plan_->complete()) {
    if (const auto chunk = plan_->take(donor, context_.clock.now(), donors_[donor].chunks_of())) {
      const bool more = co_await fetch_chunk(donor, *chunk);
      if (!more) co_return;
      if (!ended_ && donors_[donor].under_way < chunks_wanted(donors_[donor]))
        tasks.spawn("more", fetch_chunks(tasks, donor));
    } else {
      const TimePoint repeat = plan_->next_repeat(donor, donors_[donor].chunks_of());
      (void)co_await changed_->wait_until(context_.clock, repeat);  // the plan is asked again
    }
  }
}

Task<bool> Fetch::fetch_chunk(std::size_t donor, std::size_t chunk) {
  const PeerId peer = donors_[donor].peer;
  const TimePoint deadline = std::min(deadline_, context_.clock.now() + options_.chunk_patience);
  wire::AskChunk question;
  question.root = root_;
  question.chunk = static_cast<std::uint32_t>(chunk);
  net::Answer answer = co_await ask(peer, wire::kChunkMethod, wire::Message(question), deadline);
  if (answer) co_return co_await accept_chunk(donor, chunk, std::move(*answer));
  plan_->give_back(chunk, donor);
  changed_->notify();
  if (answer.error().code != Errc::busy) {
    leave(donor, answer.error());
    co_return false;
  }
  const Duration asked = std::chrono::milliseconds(std::clamp<std::uint64_t>(answer.error().number, 100, 60'000));
  const TimePoint again = context_.clock.now() + std::min(asked, options_.busy_pause_max);
  co_await context_.clock.sleep_until(std::min(again, deadline_));
  co_return true;
}

Task<bool> Fetch::accept_chunk(std::size_t donor, std::size_t chunk, Frame frame) {
  if (!plan_->arrived(chunk, donor, context_.clock.now())) co_return true;
  const ChunkPlace place = index_->place(chunk);
  const auto work = [shelf = shelf_, chunk, place, frame = std::move(frame)] {
    const auto message = frame::decode<wire::Message>(*frame);
    const auto* head = message ? std::get_if<wire::Chunk>(&message->header) : nullptr;
    return head != nullptr && head->chunk == chunk && shelf->put(place, message->payload);
  };
  const bool good = co_await offload(context_.workers, work);
  plan_->checked(chunk, good);
  if (good && share_by_ != nullptr) share_by_->share_chunk(root_, chunk);
  changed_->notify();
  Donor& from = donors_[donor];
  if (!good) {
    if (!from.lied) ++progress_.liars;
    from.lied = true;
    context_.log.warn("state.bad_chunk", {{"peer", from.peer.short_text()}, {"chunk", chunk}});
    leave(donor, Refusal(Errc::bad_request, "gave wrong bytes"));
    co_return false;
  }
  if (from.chunks++ == 0) ++progress_.donors;
  fetched_bytes_ += place.bytes;
  progress_.bytes += place.bytes;
  report();
  co_return true;
}

/// Ends what we have with a donor; the next one takes its place.
void Fetch::leave(std::size_t donor, Refusal why) {
  if (donors_[donor].left) return;  // its other chunk told us before
  const std::string code = make_error_code(why.code).message();
  context_.log.debug("state.donor_left",
                     {{"peer", donors_[donor].peer.short_text()}, {"why", code}, {"detail", why.reason}});
  if (why.code != Errc::gone) first_refused_ = std::min(first_refused_, context_.clock.now());
  donors_[donor].left = std::move(why);
  changed_->notify();
}

void Fetch::report() {
  const double seconds = to_seconds(context_.clock.now() - began_);
  progress_.bytes_per_s = seconds > 0 ? static_cast<double>(fetched_bytes_) / seconds : 0;
  if (on_progress_) on_progress_(progress_);
}

/// What most of the donors said that could be reached; of those who said `stale` the epoch in the middle, so that one
/// liar does not send us far away.
Refusal Fetch::why_nobody() const {
  if (first_sharer_ == 0) return Refusal(Errc::gone, "there is nobody to ask");
  std::map<Errc, std::vector<const Refusal*>> reasons;
  for (std::size_t i = 0; i < first_sharer_; ++i) reasons[donors_[i].left->code].push_back(&*donors_[i].left);
  if (reasons.size() > 1) reasons.erase(Errc::gone);
  const auto most = std::max_element(reasons.begin(), reasons.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  auto& same = most->second;
  const auto middle = same.begin() + static_cast<std::ptrdiff_t>(same.size() / 2);
  std::nth_element(same.begin(), middle, same.end(),
                   [](const auto* a, const auto* b) { return a->number < b->number; });
  return **middle;
}

}  // namespace collab::state
