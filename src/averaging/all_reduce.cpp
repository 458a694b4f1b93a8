#include "averaging/all_reduce.hpp"

#include "averaging/lanes.hpp"
#include "averaging/participant.hpp"
#include "base/frame.hpp"
#include "base/signal.hpp"
#include "tensor/view.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace collab::averaging {
namespace {

constexpr int kFramesInARow = 2;                         // then the senders get a turn
constexpr double kMarkMin = 16 * 1024;                   // bytes; of one stream among many on a slow line
constexpr double kLongMin = 16 * kMarkMin;               // of all; less is exchanged within the slack on any line
constexpr double kMarksMax = 400;                        // a round's deadline is put off so often at the very most
constexpr Duration kFarewell = std::chrono::seconds(2);  // a failed round's last messages

EncodeOptions seeded(const Digest& digest) {
  EncodeOptions options;
  for (unsigned i = 0; i < 8; ++i) options.seed |= std::uint64_t(digest[i]) << (8 * i);
  return options;
}

std::vector<PeerId> ids_of(const matchmaking::Group& group) {
  std::vector<PeerId> ids;
  for (const auto& member : group.roster) ids.push_back(member.id);
  return ids;
}

/// One round as it runs. Lives until its groupmates are served, longer than the call of `all_reduce`; `values` are
/// touched by neither after `detach`.
class Session {
 public:
  Session(Context context, std::shared_ptr<const Shape> shape, std::span<float> values, Weights weights, Work work,
          const AllReduceOptions& options, std::unique_ptr<net::Conversation> talk, asio::any_io_executor executor);

  Task<> run(TaskGroup& sends);
  /// Until the round is decided for this peer.
  Task<> wait() {
    while (!decided_) co_await changed_.wait();
  }
  /// The caller leaves, or was cancelled.
  void detach() {
    if (!decided_) participant_.fail();
    participant_.release_values();
    values_ = {};
    flush();
  }
  /// The node stops: whoever waits learns that nothing will be decided here.
  void abandon() {
    if (decided_) return;
    participant_.fail();
    decide();
  }
  const RoundReport& report() const noexcept { return report_; }
  std::shared_ptr<const CommittedRound> proof() const noexcept { return proof_; }

 private:
  Participant::Setup setup(Weights weights, Work work);
  void plan_rates();
  void receive(const net::Envelope& envelope);
  void tell_who_talks_on(Rank peer);
  void check();
  std::vector<net::LinkState> look_at_links(TimePoint now) const;
  void follow_bytes(const std::vector<net::LinkState>& links, TimePoint now);
  void put_off_deadline(TimePoint until);
  bool left_alone() const;
  void part_from_done();
  void refused(Rank peer);
  void probe(const std::vector<net::LinkState>& links);
  void repeat_lost(const std::vector<net::LinkState>& links);
  void ask(Ranks debtors);
  void say_hello(Ranks to);
  void flush();
  void exchanged();
  void decide();
  void describe();
  bool served() const;
  double seconds_since_start() const { return to_seconds(context_.clock.now() - started_); }

  Context context_;
  AllReduceOptions options_;
  std::shared_ptr<const Shape> shape_;
  std::span<float> values_;
  Guard says_yes_;
  Participant participant_;
  TimePoint started_;
  TimePoint deadline_{};
  double exchanged_bytes_ = 0;                // by this peer, both ways, if nothing is reduced twice
  double moved_at_mark_ = 0;                  // of them
  std::optional<std::uint64_t> bulk_before_;  // on these lines, at the first look
  TimePoint next_check_;
  Suspicion suspicion_;
  std::unique_ptr<net::Conversation> talk_;
  Lanes lanes_;
  std::vector<std::uint64_t> bytes_received_;
  std::vector<std::optional<TimePoint>> probed_;  // by rank: for which loss
  std::vector<TimePoint> repeated_;               // by rank: after which loss
  std::vector<TimePoint> asked_at_;               // by rank: for a sign of life in the round
  std::vector<TimePoint> told_at_;                // by rank: that the round is committed
  bool decided_ = false;
  bool reminded_ = false;
  Ranks parted_ = 0;
  TimePoint decided_at_{};
  Signal changed_;
  RoundReport report_;
  std::shared_ptr<const CommittedRound> proof_;
};

Session::Session(Context context, std::shared_ptr<const Shape> shape, std::span<float> values, Weights weights,
                 Work work, const AllReduceOptions& options, std::unique_ptr<net::Conversation> talk,
                 asio::any_io_executor executor)
    : context_(context),
      options_(options),
      shape_(std::move(shape)),
      values_(values),
      participant_(setup(std::move(weights), std::move(work))),
      started_(context.clock.now()),
      next_check_(started_ + options.suspicion.period),
      suspicion_(shape_->members.size, participant_.self(), started_, options.suspicion),
      talk_(std::move(talk)),
      lanes_(*talk_, context.clock, executor, ids_of(shape_->group), participant_.self(),
             {[this](Rank to) { return participant_.next_part(to); }, [this](Rank peer) { refused(peer); },
              [this](Rank peer) { suspicion_.departed(peer); }}),
      bytes_received_(shape_->members.size, 0),
      probed_(shape_->members.size),
      repeated_(shape_->members.size, started_ - Duration(1)),  // a line may break in the moment of the begin
      asked_at_(shape_->members.size),
      told_at_(shape_->members.size),
      changed_(executor) {
  plan_rates();
}

Participant::Setup Session::setup(Weights weights, Work work) {
  const PeerId& self = context_.identity.id();
  Contribution own;
  own.values = values_;
  own.weights = std::move(weights);
  own.work = std::move(work);
  own.part = part_options(shape_->group, self, options_.stochastic_parts);
  const Rule& rule = options_.rule != nullptr ? *options_.rule : weighted_mean();
  Guard& guard = options_.guard != nullptr ? *options_.guard : says_yes_;
  Hasher of_result("collab result");
  of_result.add(shape_->group.epoch).add(std::uint64_t(shape_->group.round));
  const EncodeOptions result = seeded(of_result.finish());
  return {shape_, context_.identity, rule, guard, own, result, options_.done};
}

/// What the plan costs us, from measured rates; where none is, every line is shared equally by its groupmates.
void Session::plan_rates() {
  const Members& members = shape_->members;
  const Rank self = participant_.self();
  const auto length = static_cast<double>(shape_->partition.length());
  const auto vector = [&](const CodecMap& codecs) {
    return static_cast<double>(codecs.encoded_bytes({0, shape_->partition.length()}));
  };
  const double parts = vector(shape_->part_codecs());
  const double results = vector(shape_->codecs);
  const auto part = [&](std::size_t owner) {
    return parts * static_cast<double>(shape_->partition.segment(owner).size) / length;
  };
  const auto result = [&](std::size_t owner) {
    return results * static_cast<double>(shape_->partition.segment(owner).size) / length;
  };
  const double default_rate = options_.rate_unknown_bytes_per_s / static_cast<double>(members.size - 1);
  const bool we_vote = contains(members.voters, self);
  std::vector<double> down(members.size, 0);
  double predicted = 0;
  bool guessed = false;
  std::vector<net::Planned> sends;
  for (std::size_t rank = 0; rank < members.size; ++rank) {
    if (!contains(members.linked(self), rank)) continue;
    const net::LinkState link = context_.net.link(shape_->group.roster[rank].id);
    const bool it_votes = contains(members.voters, rank);
    const double up = (we_vote ? part(rank) : 0) + (it_votes ? result(self) : 0);
    down[rank] = (it_votes ? part(self) : 0) + (we_vote ? result(rank) : 0);
    const double up_rate = link.up_bytes_per_s > 0 ? link.up_bytes_per_s : default_rate;
    const double down_rate = link.down_bytes_per_s > 0 ? link.down_bytes_per_s : default_rate;
    predicted = std::max({predicted, up / up_rate, down[rank] / down_rate});
    guessed |= link.up_bytes_per_s <= 0 || link.down_bytes_per_s <= 0;
    exchanged_bytes_ += up + down[rank];
    sends.push_back({shape_->group.roster[rank].id, up});
    suspicion_.plan_bytes(static_cast<Rank>(rank), down[rank], link);
    if (link.down_bytes_per_s <= 0) down[rank] = 0;  // from a guess does not follow who is too slow
  }
  talk_->plan(std::move(sends));
  report_.predicted_s = predicted;
  suspicion_.plan_exchange(from_seconds(predicted), guessed);
  deadline_ = started_ + from_seconds(3 * predicted) + options_.round_slack;
  for (std::size_t rank = 0; rank < members.size && predicted > 0; ++rank)
    suspicion_.plan_rate(static_cast<Rank>(rank), down[rank] / predicted);
}

Task<> Session::run(TaskGroup& sends) {
  lanes_.start(sends, deadline_ + options_.serve_max);
  participant_.start();
  flush();
  // our parts are on their way before those that came early are reduced: the others wait for nothing else
  co_await context_.clock.sleep_until(context_.clock.now());
  for (int in_a_row = 0; !served();) {
    const auto envelope = co_await talk_->receive(next_check_);
    if (envelope) receive(*envelope);
    if (context_.clock.now() >= next_check_) check();
    flush();
    if (participant_.finished() && !decided_) decide();
    if (!envelope || ++in_a_row < kFramesInARow) continue;
    in_a_row = 0;
    co_await context_.clock.sleep_until(context_.clock.now());
  }
}

void Session::receive(const net::Envelope& envelope) {
  const auto rank = shape_->group.rank_of(envelope.from);
  if (!rank) return;
  const Ranks before = suspicion_.suspected();
  suspicion_.heard(static_cast<Rank>(*rank), envelope.frame->size(), context_.clock.now());
  if (suspicion_.suspected() != before) participant_.suspect(suspicion_.suspected());
  bytes_received_[*rank] += envelope.frame->size();
  const auto taken = participant_.on_frame(envelope.from, envelope.frame);
  if (!taken && (taken.error() == Errc::bad_request || taken.error() == Errc::denied))
    context_.log.debug("averaging.frame_refused",
                       {{"peer", envelope.from.short_text()}, {"why", taken.error().message()}});
  tell_who_talks_on(static_cast<Rank>(*rank));
}

/// It stood still while the round was committed, perhaps, and what told it so is lost with the line that it had then.
void Session::tell_who_talks_on(Rank peer) {
  const TimePoint now = context_.clock.now();
  if (!decided_ || now < std::max(decided_at_, told_at_[peer]) + options_.suspicion.silence_min) return;
  told_at_[peer] = now;
  participant_.remind(bit(peer));
}

/// By rank. Of a large group that one keeps waiting, the lines to all who have the result are looked at no more.
std::vector<net::LinkState> Session::look_at_links(TimePoint now) const {
  std::vector<net::LinkState> links(shape_->members.size);
  const Rank coordinator = participant_.commit().coordinator();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    if (decided_ && contains(participant_.done(), rank) && rank != coordinator && lanes_.idle_to(rank)) {
      links[i].connected = true;
      links[i].last_received = now;
    } else {
      links[i] = context_.net.link(shape_->group.roster[i].id);
    }
  }
  return links;
}

void Session::check() {
  const TimePoint now = context_.clock.now();
  next_check_ = now + options_.suspicion.period;
  lanes_.look_for_closed();
  const std::vector<net::LinkState> links = look_at_links(now);
  probe(links);
  Suspicion::Debts debts;
  if (!decided_) {
    debts.parts = participant_.round().awaited_senders() | participant_.commit().awaited_tells();
    debts.results = participant_.round().awaited_owners() | participant_.commit().awaited_plan();
    debts.holds = participant_.commit().awaited_holds();
    debts.decision = participant_.commit().awaited_decision();
    ask(debts.parts | debts.results | debts.holds | debts.decision);
  }
  const Ranks before = suspicion_.suspected();
  const Ranks suspected = suspicion_.check(now, links, debts);
  for (Ranks fresh = suspected & ~before; fresh != 0; fresh &= fresh - 1) {
    const Rank rank = first(fresh);
    context_.log.debug("averaging.suspected", {{"peer", shape_->group.roster[rank].id.short_text()},
                                               {"why", static_cast<unsigned>(suspicion_.ever(rank))}});
  }
  participant_.suspect(suspected);
  participant_.poke();
  if (decided_) part_from_done();
  // who had no line to the coordinator when that told it, and has gone by now, would wait for it until the deadline
  const bool late = decided_ && now >= decided_at_ + options_.suspicion.silence_min;
  if (late && !std::exchange(reminded_, true)) participant_.remind(shape_->members.all);
  if (decided_) return;
  repeat_lost(links);
  follow_bytes(links, now);
  const bool in_vain = left_alone();
  if (now < deadline_ && !in_vain) return;
  if (participant_.state() == Commit::State::running) {
    if (!in_vain) report_.reason = RoundReport::Reason::deadline;
    participant_.fail();
  }
  decide();
}

/// Who has the result has no reason to speak here. Of many groupmates one that lags keeps this end open for long, and
/// all the others need not be pinged for that.
void Session::part_from_done() {
  const Ranks done = participant_.done() & ~parted_;
  for (Ranks rest = done; rest != 0; rest &= rest - 1) talk_->remove_member(shape_->group.roster[first(rest)].id);
  parted_ |= done;
}

/// Nobody comes back to a round that he has left: without a quorum of those who are in it nothing is decided any more.
bool Session::left_alone() const {
  Ranks there = shape_->members.all;
  for (Ranks rest = there; rest != 0; rest &= rest - 1)
    if (suspicion_.has_departed(first(rest))) there &= ~bit(first(rest));
  return !shape_->members.is_quorum(there);
}

/// Lines may be slower than was known or guessed. As long as so much comes and goes that the round ends some time,
/// nobody who is still at it is given up.
void Session::follow_bytes(const std::vector<net::LinkState>& links, TimePoint now) {
  if (exchanged_bytes_ < kLongMin) return;
  std::uint64_t bytes = 0;
  for (const net::LinkState& link : links) bytes += link.bulk_bytes;
  if (!bulk_before_) bulk_before_ = bytes;
  const auto all = static_cast<double>(bytes - *bulk_before_);
  const double moved = std::min(all, exchanged_bytes_);  // what is sent again has the time that is left
  if (moved - moved_at_mark_ < std::max(exchanged_bytes_ / kMarksMax, kMarkMin)) return;
  moved_at_mark_ = moved;
  put_off_deadline(now + options_.round_slack);
}

void Session::put_off_deadline(TimePoint until) {
  if (until <= deadline_) return;
  deadline_ = until;
  lanes_.extend(deadline_ + options_.serve_max);
}

/// Who cannot be dialled has not refused anything: a client that is about to dial us, for instance.
void Session::refused(Rank peer) {
  if (context_.net.can_reach(shape_->group.roster[peer].id)) suspicion_.refused(peer);
}

/// A connection broke: dialling again tells at once whether the peer lives.
void Session::probe(const std::vector<net::LinkState>& links) {
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    if (links[rank].connected || !contains(shape_->members.linked(participant_.self()), rank)) continue;
    if (!context_.net.can_reach(shape_->group.roster[rank].id)) continue;
    if (probed_[rank] == links[rank].lost_at) continue;
    probed_[rank] = links[rank].lost_at;
    say_hello(bit(rank));
  }
}

/// What a line had taken when it broke has reached nobody who can tell: two who wait for each other then talk on, and
/// are not suspected of anything.
void Session::repeat_lost(const std::vector<net::LinkState>& links) {
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    if (!links[rank].connected || links[rank].lost_at <= repeated_[rank]) continue;
    repeated_[rank] = links[rank].lost_at;
    participant_.repeat(static_cast<Rank>(rank));
  }
}

/// Who owes us something and is silent perhaps does not know of us, or has closed the round, or is in another group:
/// one word of ours, and it tells. At once where it had nothing to read from us so far.
void Session::ask(Ranks debtors) {
  const TimePoint now = context_.clock.now();
  for (Ranks rest = debtors & shape_->members.linked(participant_.self()); rest != 0; rest &= rest - 1) {
    const Rank rank = first(rest);
    if (!context_.net.can_reach(shape_->group.roster[rank].id)) continue;
    const TimePoint last = std::max(asked_at_[rank], suspicion_.heard_at(rank));
    const bool strange = last == TimePoint() && lanes_.bytes_sent(rank) == 0;
    if (!strange && now - std::max(started_, last) < options_.suspicion.silence_min) continue;
    asked_at_[rank] = now;
    say_hello(bit(rank));
  }
}

/// What we have promised: news to nobody, and an answer is due to who is behind.
void Session::say_hello(Ranks to) {
  wire::Refuse refuse;
  refuse.group = shape_->group.id;
  refuse.view = participant_.commit().view();
  lanes_.push(to, net::TrafficClass::control, frame::encode(wire::Header(refuse)));
}

void Session::flush() {
  for (const auto& out : participant_.take_outgoing()) lanes_.push(out.to, out.traffic, out.frame);
  for (std::size_t rank = 0; rank < shape_->members.size; ++rank)
    if (participant_.has_parts(static_cast<Rank>(rank))) lanes_.wake_parts(static_cast<Rank>(rank));
  if (participant_.state() != Commit::State::running || !participant_.all_results_here() || report_.exchange_s > 0)
    return;
  exchanged();
  if (exchanged_bytes_ < kLongMin) return;
  // what left us last fills a slow line for a while yet, and others may take as long as we did
  const TimePoint now = context_.clock.now();
  put_off_deadline(now + (now - started_) + options_.round_slack);
}

void Session::exchanged() {
  report_.exchange_s = seconds_since_start();
  suspicion_.exchange_took(context_.clock.now() - started_);
}

void Session::decide() {
  decided_ = true;
  decided_at_ = context_.clock.now();
  const bool committed = participant_.state() == Commit::State::committed;
  const auto why = static_cast<wire::GiveUpReason>(participant_.commit().give_up_reason());
  if (report_.exchange_s == 0) exchanged();
  report_.commit_s = seconds_since_start() - report_.exchange_s;
  describe();
  if (committed && participant_.finished()) {
    report_.outcome = RoundReport::Outcome::committed;
    proof_ = participant_.committed_round();
    if (proof_ && !values_.empty()) proof_->apply(values_);
    report_.apply_s = to_seconds(context_.clock.now() - decided_at_);
  } else if (committed) {
    report_.outcome = RoundReport::Outcome::behind;
    report_.reason = RoundReport::Reason::not_held;
  } else if (report_.reason == RoundReport::Reason::none) {
    report_.reason = why == wire::GiveUpReason::no_quorum    ? RoundReport::Reason::no_quorum
                     : why == wire::GiveUpReason::weight_low ? RoundReport::Reason::weight_low
                     : why == wire::GiveUpReason::no_weight  ? RoundReport::Reason::no_weight
                                                             : RoundReport::Reason::nobody_reachable;
  }
  const bool told_by_quorum = why == wire::GiveUpReason::weight_low || why == wire::GiveUpReason::no_weight;
  report_.undecided = !committed && participant_.commit().accepted() && !told_by_quorum;
  context_.log.info("averaging.round", {{"epoch", report_.epoch},
                                        {"round", report_.round},
                                        {"outcome", static_cast<unsigned>(report_.outcome)},
                                        {"reason", static_cast<unsigned>(report_.reason)},
                                        {"peers", shape_->members.size},
                                        {"views", report_.views},
                                        {"weight", report_.weight},
                                        {"exchange_s", report_.exchange_s},
                                        {"commit_s", report_.commit_s},
                                        {"apply_s", report_.apply_s},
                                        {"seconds", seconds_since_start()}});
  participant_.release_values();
  changed_.notify();
}

void Session::describe() {
  participant_.describe(report_);
  const double seconds = std::max(report_.exchange_s, 1e-9);
  for (std::size_t i = 0; i < report_.peers.size(); ++i) {
    PeerReport& peer = report_.peers[i];
    const auto rank = static_cast<Rank>(i);
    peer.bytes_up = lanes_.bytes_sent(rank);
    peer.bytes_down = bytes_received_[i];
    peer.up_bytes_per_s = static_cast<double>(peer.bytes_up) / seconds;
    peer.down_bytes_per_s = static_cast<double>(peer.bytes_down) / seconds;
    if (rank == participant_.self()) continue;
    const bool linked = contains(shape_->members.linked(participant_.self()), rank);
    if (peer.fault != Fault::none) {
      peer.left_out = LeftOut::refused;
      context_.log.warn("averaging.refused", {{"peer", peer.id.short_text()}, {"why", name(peer.fault)}});
    } else if (peer.counted >= 1 - 1e-9) {
      continue;  // whatever was thought of it
    } else if (linked && suspicion_.ever(rank) != LeftOut::no) {
      peer.left_out = suspicion_.ever(rank);
    } else if (peer.weight > 0) {
      peer.left_out = LeftOut::elsewhere;
    }
  }
}

/// Nobody needs this end of the round any more.
bool Session::served() const {
  if (!decided_) return false;
  const TimePoint now = context_.clock.now();
  if (participant_.state() != Commit::State::committed) return lanes_.idle() || now >= decided_at_ + kFarewell;
  Ranks gone = 0;
  for (Ranks rest = shape_->members.linked(participant_.self()); rest != 0; rest &= rest - 1) {
    const Rank rank = first(rest);
    const bool dead = contains(suspicion_.suspected(), rank) && suspicion_.ever(rank) == LeftOut::dead;
    if (dead || suspicion_.has_departed(rank)) gone |= bit(rank);
  }
  const Ranks waiting = shape_->members.linked(participant_.self()) & ~participant_.done() & ~gone;
  return (waiting == 0 && lanes_.idle(gone)) || now >= decided_at_ + options_.serve_max;
}

struct Abandon {
  explicit Abandon(Session& stopped) : session(stopped) {}
  ~Abandon() { session.abandon(); }
  Abandon(const Abandon&) = delete;
  Abandon& operator=(const Abandon&) = delete;
  Session& session;
};

Task<> serve(std::shared_ptr<Session> session) {
  const Abandon when_stopped(*session);
  const auto body = [&](TaskGroup& sends) -> Task<> { co_await session->run(sends); };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

/// The caller's `values` end here, however it leaves.
struct Detach {
  explicit Detach(Session& attached) : session(attached) {}
  ~Detach() { session.detach(); }
  Detach(const Detach&) = delete;
  Detach& operator=(const Detach&) = delete;
  Session& session;
};

Errc error_of(const RoundReport& report) {
  if (report.outcome == RoundReport::Outcome::behind) return Errc::stale;
  return report.reason == RoundReport::Reason::nobody_reachable ? Errc::gone : Errc::late;
}

}  // namespace

net::Method round_protocol() {
  net::Method method;
  method.name = wire::kProtocol;
  method.claim = Claim::contribute;
  method.traffic = net::TrafficClass::bulk;
  method.request_bytes_max = frame::kFrameBytesMax;
  return method;
}

std::unique_ptr<net::Conversation> open_round(const Context& context, const matchmaking::Group& group) {
  const net::Topic topic(group.id, matchmaking::occasion_of(group));
  return context.net.converse(wire::kProtocol, topic, ids_of(group));
}

void decline_round(net::Endpoint& net, const matchmaking::Group& group) {
  const net::Topic topic(group.id);  // its occasion is free for the group that this peer is in
  const auto closed_at_once = net.converse(wire::kProtocol, topic, {});
}

EncodeOptions part_options(const matchmaking::Group& group, const PeerId& sender, bool stochastic) {
  Hasher hasher("collab part");
  hasher.add(group.epoch).add(std::uint64_t(group.round)).add(sender.key);
  EncodeOptions options = seeded(hasher.finish());
  options.stochastic = stochastic;
  return options;
}

Task<Result<Outcome>> all_reduce(Context context, const matchmaking::Group& group, const CodecMap& codecs,
                                 std::span<float> values, Weights weights, Work work, AllReduceOptions options,
                                 RoundReport& report, std::unique_ptr<net::Conversation> talk) {
  report = {};
  report.group = group.id;
  report.epoch = group.epoch;
  report.round = group.round;
  report.reason = RoundReport::Reason::does_not_fit;
  const PeerId self = context.identity.id();
  if (const auto fits = matchmaking::check(group, self, codecs.length()); !fits) co_return fits.error();
  const auto& member = group.roster[group.rank_of(self).value()];
  const bool votes = member.role != matchmaking::Role::auxiliary;
  if (weights.largest() > member.weight_max || values.size() != (votes ? codecs.length() : 0))
    co_return Errc::bad_request;
  auto shape = Shape::of(group, codecs);
  if (!shape) co_return shape.error();
  if (!fits_part(work, work_ranges_max((*shape)->members))) co_return Errc::bad_request;
  if (group.round == 1 && !believable(work, member.weight_max)) co_return Errc::bad_request;
  if (!weights.none() && !options.values_are_finite && !all_finite(values)) {
    context.log.warn("averaging.own_values_not_finite", {{"epoch", group.epoch}, {"round", group.round}});
    weights = 0;
  }
  if (!votes) weights = 0;
  if (weights.none()) work = {};

  const auto executor = co_await asio::this_coro::executor;
  if (!talk) talk = open_round(context, (*shape)->group);
  const bool coarse = group.codec_map != codec_map_digest(codecs);
  auto session = std::make_shared<Session>(context, std::move(*shape), values, std::move(weights), std::move(work),
                                           options, std::move(talk), executor);
  context.tasks.spawn("averaging.round", serve(session));
  const Detach detach(*session);
  co_await session->wait();
  report = session->report();
  report.coarse = coarse;
  if (report.outcome != RoundReport::Outcome::committed) co_return error_of(report);
  Outcome outcome;
  outcome.report = report;
  outcome.proof = session->proof();
  co_return outcome;
}

}  // namespace collab::averaging
