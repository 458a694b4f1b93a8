#include "matchmaking/matchmaker.hpp"

#include "base/frame.hpp"
#include "base/text.hpp"
#include "matchmaking/declarations.hpp"
#include "matchmaking/search.hpp"
#include "matchmaking/search_until.hpp"

#include <algorithm>
#include <cassert>

namespace collab::matchmaking {
namespace {

constexpr Duration kRedeclare = std::chrono::seconds(2);  // a standing group needs no record; newcomers look for one
constexpr Duration kDeclaredMin = std::chrono::seconds(5);
constexpr std::uint64_t kAwaitAgain = 32;  // epochs
constexpr Duration kLeaveMax = std::chrono::seconds(1);

/// A search whose caller was cancelled must not begin a group that nobody waits for.
class AbandonUnlessDone {
 public:
  explicit AbandonUnlessDone(Search& search) : search_(search) {}
  ~AbandonUnlessDone() {
    if (!done) search_.abandon();
  }
  AbandonUnlessDone(const AbandonUnlessDone&) = delete;
  AbandonUnlessDone& operator=(const AbandonUnlessDone&) = delete;
  bool done = false;

 private:
  Search& search_;
};

Task<> tell(net::Conversation& conversation, PeerId to, Frame frame, TimePoint deadline) {
  (void)co_await conversation.send(to, net::TrafficClass::control, std::move(frame), deadline);  // silence tells it too
}

}  // namespace

net::Method row() {
  net::Method method;
  method.name = kProtocol;
  method.claim = Claim::contribute;
  method.traffic = net::TrafficClass::control;
  return method;
}

Matchmaker::Matchmaker(Context context, MatchmakerOptions options)
    : context_(context), options_(std::move(options)), role_(options_.role), declarations_(look_for_others()) {
  assert(options_.plan && options_.weight_max && options_.key.size() <= wire::kKeyBytesMax);
}

Matchmaker::~Matchmaker() = default;

std::shared_ptr<Declarations> Matchmaker::look_for_others() const {
  return std::make_shared<Declarations>(options_.looks ? context_.directory.watch(options_.key) : nullptr);
}

void Matchmaker::samples(std::uint64_t epoch, std::uint64_t own_total) {
  samples_ = own_total;
  samples_epoch_ = epoch;
  if (search_ && search_->epoch() == epoch) search_->samples(own_total);
}

void Matchmaker::samples_elsewhere(std::uint64_t total) {
  samples_elsewhere_ = total;
  if (search_) search_->samples_elsewhere(total);
}

void Matchmaker::electorate(std::size_t count) {
  if (search_) search_->electorate(count);
}

void Matchmaker::bandwidth(std::uint64_t up_bytes_per_s, std::uint64_t down_bytes_per_s) {
  up_bytes_per_s_ = up_bytes_per_s;
  down_bytes_per_s_ = down_bytes_per_s;
}

void Matchmaker::take_role(const Wanted& wanted) {
  // others who stand with this peer know the role that it had with them; of one who is alone nobody is left
  const bool stands = follows_directly(wanted) && !last_->members.empty() && !wanted.alone;
  const bool presumed = stands && wanted.expected.empty() && wanted.attempt == 0;
  if (options_.role == role_ || (presumed && role_ != last_->role)) return;
  options_.role = role_;
  declared_at_.reset();
}

std::uint32_t Matchmaker::next_attempt(std::uint64_t epoch) const {
  return search_ && search_->epoch() == epoch ? search_->next_attempt() : 0;
}

bool Matchmaker::is_led() const {
  return search_ && search_->is_led();
}

bool Matchmaker::is_presumed(std::uint64_t epoch) const {
  Wanted wanted;
  wanted.epoch = epoch;
  const bool stands = follows_directly(wanted) && !last_->members.empty();
  return stands && last_->role == options_.role && next_attempt(epoch) == 0;
}

bool Matchmaker::follows_directly(const Wanted& wanted) const {
  return last_ && wanted.epoch == last_->epoch + 1 && wanted.round == last_->round;
}

Terms Matchmaker::terms_for(const Wanted& wanted) const {
  assert(wanted.group_size_max >= 2 && wanted.group_size_max <= kGroupSizeMax);
  Terms terms;
  terms.self = context_.net.self();
  terms.options = options_;
  terms.wanted = wanted;
  terms.up_bytes_per_s = up_bytes_per_s_;
  terms.down_bytes_per_s = down_bytes_per_s_;
  return terms;
}

void Matchmaker::declare(const Wanted& wanted) {
  if (options_.role == Role::auxiliary && !wanted.expected.empty()) return;  // the others know of it without
  const TimePoint now = context_.clock.now();
  const bool expected = follows_directly(wanted) && wanted.attempt == 0;
  if (expected && declared_at_ && now < *declared_at_ + kRedeclare) return;
  declared_at_ = now;
  Declaration declaration;
  declaration.epoch = wanted.epoch;
  declaration.round = wanted.round;
  declaration.reachable = options_.role != Role::client;
  declaration.up_bytes_per_s = up_bytes_per_s_;
  declaration.down_bytes_per_s = down_bytes_per_s_;
  declaration.role = options_.role;
  context_.directory.publish(options_.key, std::string(kDeclarationSubkey), encode(declaration),
                             std::max(wanted.deadline - now, kDeclaredMin));
}

/// Other groupmates, other records: nothing of the old key counts any more.
void Matchmaker::look_under(const std::string& key) {
  if (key.empty() || key == options_.key) return;
  assert(key.size() <= wire::kKeyBytesMax);
  context_.directory.withdraw(options_.key, std::string(kDeclarationSubkey));
  options_.key = key;
  declarations_ = look_for_others();
  declared_at_.reset();
  last_.reset();
  retired_ = std::exchange(search_, nullptr);
}

/// A wait in vain costs everybody half a second: nobody causes that often.
std::vector<PeerId> Matchmaker::to_await(const std::set<PeerId>& late, std::uint64_t epoch) {
  std::erase_if(awaited_, [&](const auto& entry) { return epoch >= entry.second + kAwaitAgain; });
  std::vector<PeerId> out;
  for (const PeerId& peer : late) {
    if (awaited_.size() < kGroupSizeMax && awaited_.emplace(peer, epoch).second) out.push_back(peer);
  }
  return out;
}

void Matchmaker::open(const Wanted& wanted, const asio::any_io_executor& executor) {
  if (search_ && last_) {
    const auto has_left = [this](const Member& member) { return search_->left(member.id); };
    std::erase_if(last_->members, has_left);
  }
  Start start;
  start.direct = follows_directly(wanted);
  start.own_samples = samples_epoch_ == wanted.epoch ? samples_ : 0;
  start.samples_elsewhere = samples_elsewhere_;
  start.candidates = declarations_->candidates(wanted);
  if (last_) {
    for (const Member& member : last_->members)
      start.last_group.push_back({member.id, member.role, member.incarnation});
  }
  start.again = search_ && search_->epoch() == wanted.epoch && search_->round() == wanted.round;
  if (start.again) return search_->retry(terms_for(wanted), std::move(start));
  if (search_ && start.direct) start.late = to_await(search_->late(), wanted.epoch);
  if (search_) retired_ = std::exchange(search_, nullptr);
  search_ = std::make_shared<Search>(context_, declarations_, executor, terms_for(wanted), std::move(start));
}

Task<Result<Group>> Matchmaker::find_group(Wanted wanted) {
  const auto executor = co_await asio::this_coro::executor;
  // one that was cancelled while it waited below may have left something behind
  co_await close_retired();
  if (stopped_) co_return NoGroup::left;
  look_under(wanted.key);
  const bool again = search_ && search_->epoch() == wanted.epoch && search_->round() == wanted.round;
  if (again) wanted.attempt = std::max(wanted.attempt, search_->next_attempt());
  sits_out_ = false;
  take_role(wanted);
  declare(wanted);
  open(wanted, executor);
  const auto search = search_;
  AbandonUnlessDone guard(*search);
  co_await close_retired();
  auto outcome = co_await search->outcome();
  guard.done = true;
  if (outcome && options_.role != role_) sit_out();
  report(wanted, outcome);
  co_return outcome;
}

Task<Result<Group>> Matchmaker::find_group(Wanted wanted, Task<boost::system::error_code> over) {
  co_return co_await search_until(find_group(std::move(wanted)), std::move(over));
}

Task<> Matchmaker::close_retired() {
  const auto retired = retired_;  // several may wait for it at the same time
  if (!retired) co_return;
  co_await retired->stop();
  if (retired_ == retired) retired_.reset();  // closes its conversation: who still asks there is told that it is stale
}

void Matchmaker::report(const Wanted& wanted, const Result<Group>& outcome) {
  if (outcome) {
    context_.log.info("matchmaking.begun", {{"epoch", wanted.epoch},
                                            {"round", wanted.round},
                                            {"attempt", outcome->attempt},
                                            {"group", to_hex(std::span(outcome->id).first(8))},
                                            {"peers", outcome->roster.size()}});
  } else {
    context_.log.info("matchmaking.no_group", {{"epoch", wanted.epoch},
                                               {"round", wanted.round},
                                               {"attempt", wanted.attempt},
                                               {"reason", outcome.error().message()}});
  }
}

void Matchmaker::committed(const Group& group, std::uint64_t held) {
  // whom the others do not presume presumes nobody: as their leader it would wait for samples that they tell another
  if (std::exchange(sits_out_, false)) return last_.reset();
  Last last{group.epoch, group.round, group.id, options_.role, {}};
  for (std::size_t rank = 0; rank < group.roster.size(); ++rank) {
    // an auxiliary never holds a result, and is there for the next round all the same
    const bool stands = ((held >> rank) & 1U) != 0 || group.roster[rank].role == Role::auxiliary;
    if (stands && group.roster[rank].id != context_.net.self()) last.members.push_back(group.roster[rank]);
  }
  last_ = std::move(last);
}

void Matchmaker::settled() {
  if (search_) search_->settled();
}

Task<> Matchmaker::asked_again() {
  const auto search = search_;
  if (search) co_await search->asked_again();
}

void Matchmaker::sit_out() {
  if (!search_) return;
  search_->sit_out();
  sits_out_ = true;
}

void Matchmaker::rest() {
  if (!std::exchange(declared_at_, std::nullopt)) return;
  context_.directory.withdraw(options_.key, std::string(kDeclarationSubkey));
}

Task<> Matchmaker::leave() {
  context_.directory.withdraw(options_.key, std::string(kDeclarationSubkey));
  stopped_ = true;
  const auto search = search_;
  const TimePoint deadline = context_.clock.now() + kLeaveMax;
  if (search) co_await search->leave(deadline);
  co_await say_farewell(deadline);
  co_await stop();
}

Task<> Matchmaker::say_farewell(TimePoint deadline) {
  if (!last_ || (search_ && search_->epoch() > last_->epoch)) co_return;
  // the others may have gone on to the epoch where they count on us
  std::vector<PeerId> members;
  for (const Member& member : last_->members) members.push_back(member.id);
  const auto next = context_.net.converse(kProtocol, topic(options_.key, last_->epoch + 1, last_->round), members);
  wire::Leave leave;
  leave.for_good = true;
  const Frame frame = frame::encode(wire::Header(leave));
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const PeerId& to : members) tasks.spawn("matchmaking.farewell", tell(*next, to, frame, deadline));
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> Matchmaker::stop() {
  stopped_ = true;
  const auto search = search_;
  co_await close_retired();
  if (search) co_await search->stop();
}

}  // namespace collab::matchmaking
