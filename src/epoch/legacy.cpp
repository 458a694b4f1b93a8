#include "epoch/legacy.hpp"

#include "base/frame.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace collab::epoch {
namespace {

constexpr double kAsksPerS = 1;
constexpr double kAsksAtOnce = 8;
constexpr std::size_t kAskBytesMax = 4096;     // kWorkRangesMax ranges, and the rest
constexpr std::size_t kPieceHeadBytes = 1024;  // more than there is beside the values
constexpr std::size_t kTakenFromMax = 1024;    // leavers of one epoch; more are refused

struct Flag {
  explicit Flag(bool& of) : flag(of) { flag = true; }
  ~Flag() { flag = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  bool& flag;
};

Result<> read_piece(std::span<const std::byte> frame, std::uint32_t index, const CodecMap& codecs,
                    std::span<float> values) {
  const auto message = frame::decode<wire::Message>(frame);
  if (!message) return message.error();
  const auto* piece = std::get_if<wire::Piece>(&message->header);
  const Range range = wire::piece(values.size(), index);
  if (piece == nullptr || piece->index != index) return Errc::bad_request;
  return codecs.decode(message->payload, range.begin, values.subspan(range.begin, range.size));
}

}  // namespace

net::Method take_on_method() {
  net::Method method;
  method.name = wire::kTakeOnMethod;
  method.claim = Claim::contribute;
  method.request_bytes_max = kAskBytesMax;
  method.requests_per_s = kAsksPerS;
  method.requests_burst = kAsksAtOnce;
  return method;
}

net::Method legacy_protocol() {
  net::Method method;
  method.name = wire::kLegacyProtocol;
  method.claim = Claim::contribute;
  method.traffic = net::TrafficClass::bulk;
  method.request_bytes_max = wire::kPieceUnits * kUnitValues * sizeof(float) + kPieceHeadBytes;
  return method;
}

// ---- the leaver ----

std::optional<PeerId> Legacy::heir(const matchmaking::Seating* grid) const {
  if (rounds_ > 0) return std::nullopt;
  const progress::Record& own = needs_.tracker.own();
  std::vector<std::tuple<bool, Duration, PeerId>> able;  // the least is the best
  for (const auto& [peer, record] : needs_.tracker.others()) {
    const bool here = record.taking_part && record.epoch == own.epoch && record.parameters == own.parameters;
    if (!here || (grid != nullptr && !grid->has(peer))) continue;
    const net::LinkState link = needs_.net.link(peer);
    if (!link.connected) continue;
    const Duration rtt = link.rtt > Duration() ? link.rtt : Duration::max();
    able.emplace_back(record.group != own.group, rtt, peer);
  }
  const auto best = std::min_element(able.begin(), able.end());
  return best == able.end() ? std::nullopt : std::optional(std::get<PeerId>(*best));
}

Task<Result<>> Legacy::hand_on(PeerId heir, std::shared_ptr<const Estate> estate, TimePoint deadline) {
  using namespace asio::experimental::awaitable_operators;
  wire::TakeOn ask;
  ask.epoch = estate->epoch;
  ask.samples = estate->behind.samples;
  ask.parameters = needs_.tracker.own().parameters;
  for (const WorkRange& range : estate->behind.work.ranges()) ask.work.push_back({range.first, range.count});
  ask.nonce = needs_.random.next();
  if (ask.epoch != needs_.tracker.own().epoch) co_return Errc::stale;
  if (ask.work.size() > kWorkRangesMax) co_return Errc::bad_request;
  const net::Topic topic(wire::topic_of(ask, needs_.net.self(), heir));
  const auto talk = needs_.net.converse(wire::kLegacyProtocol, topic, {heir});
  Frame request = frame::encode(wire::Message(ask));
  auto first = co_await (needs_.net.call(heir, wire::kTakeOnMethod, std::move(request), deadline) ||
                         feed(*talk, heir, estate, deadline));
  if (first.index() != 0) co_return Errc::late;
  const net::Answer& answer = std::get<0>(first);
  if (!answer) co_return answer.error().code;
  const auto message = frame::decode<wire::Message>(**answer);
  const auto* taken = message ? std::get_if<wire::TakenOn>(&message->header) : nullptr;
  if (taken == nullptr || taken->samples != ask.samples) co_return Errc::bad_request;
  co_return Result<>();
}

/// Beside the question. When pieces do not go, the answer will say why.
Task<> Legacy::feed(net::Conversation& talk, PeerId heir, std::shared_ptr<const Estate> estate,
                    TimePoint deadline) const {
  const auto sent = co_await send_pieces(talk, heir, estate, deadline);
  if (!sent) needs_.log.info("epoch.estate_not_sent", {{"peer", heir.short_text()}, {"why", sent.error().message()}});
  co_await needs_.clock.sleep_until(deadline);
}

Task<Result<>> Legacy::send_pieces(net::Conversation& talk, PeerId heir, std::shared_ptr<const Estate> estate,
                                   TimePoint deadline) const {
  for (bool ready = false; !ready;) {
    const auto said = co_await talk.receive(deadline);
    if (!said) co_return said.error();
    const auto message = frame::decode<wire::Message>(*said->frame);
    ready = said->from == heir && message && std::holds_alternative<wire::Ready>(message->header);
  }
  const std::span<const float> values(estate->values);
  for (std::uint32_t index = 0; index < wire::pieces_of(values.size()); ++index) {
    const Range range = wire::piece(values.size(), index);
    Result<> written;
    const auto fill = [&](std::span<std::byte> into) {
      written = needs_.codecs.encode(values.subspan(range.begin, range.size), range.begin, EncodeOptions(), into);
    };
    wire::Piece piece;
    piece.index = index;
    Frame frame = frame::encode_with(wire::Message(piece), needs_.codecs.encoded_bytes(range), fill);
    if (!written) co_return written.error();
    const auto sent = co_await talk.send(heir, net::TrafficClass::bulk, std::move(frame), deadline);
    if (!sent) co_return sent.error();
  }
  co_return Result<>();
}

// ---- the heir ----

std::optional<Refusal> Legacy::refuses(const PeerId& from, const wire::Asked& asked) const {
  if (!needs_.takes_part()) return Refusal(Errc::gone);
  const progress::Tracker& tracker = needs_.tracker;
  const progress::Record& own = tracker.own();
  const bool over = tracker.global_epoch().value_or(0) > own.epoch || rounds_ > 0;
  if (asked.ask.epoch != own.epoch || asked.ask.parameters != own.parameters || over)
    return Refusal(Errc::stale, {}, own.epoch);
  const auto taken = taken_from_.find(from);
  if (taken != taken_from_.end() && taken->second == own.epoch) return Refusal(Errc::denied, "once in an epoch");
  if (asked.ask.samples > std::max(tracker.samples_max(from), tracker.left_by(from).value_or(0)))
    return Refusal(Errc::bad_request, "more samples than its records allow");
  if (needs_.bridge.samples() + asked.ask.samples > options_.samples_max || taken_from_.size() >= kTakenFromMax)
    return Refusal(Errc::busy, "has enough");
  // with a sum that names a third one's units this peer's part, or his, would be left out of the round
  if (needs_.leases != nullptr && needs_.leases->is_of_others_than(from, asked.work))
    return Refusal(Errc::denied, "units that are not its own");
  return std::nullopt;
}

Task<net::Answer> Legacy::take_on(PeerId from, Frame request, TimePoint deadline) {
  auto asked = wire::read_ask(*request);
  if (!asked) co_return Refusal(asked.error());
  const std::uint64_t epoch = asked->ask.epoch;
  std::erase_if(taken_from_, [epoch](const auto& taken) { return taken.second < epoch; });
  if (auto refusal = refuses(from, *asked)) co_return std::move(*refusal);
  if (taking_) co_return Refusal(Errc::busy, "takes on another's");
  const Flag taking(taking_);
  const auto estate = std::make_shared<Estate>();
  estate->values.resize(needs_.codecs.length());
  estate->behind = {asked->ask.samples, asked->work};
  const auto came = co_await receive(from, asked->ask, estate->values, deadline - options_.answer_time);
  if (!came) co_return Refusal(came.error());
  if (auto refusal = refuses(from, *asked)) co_return std::move(*refusal);
  taken_from_[from] = epoch;
  const auto added = co_await add(from, epoch, estate);
  if (!added) co_return Refusal(added.error());
  needs_.log.info("samples.taken_on", {{"epoch", epoch}, {"samples", asked->ask.samples}, {"peer", from.short_text()}});
  if (needs_.leases != nullptr) needs_.leases->inherit(asked->work);
  wire::TakenOn taken;
  taken.samples = asked->ask.samples;
  co_return frame::encode(wire::Message(taken));
}

Task<Result<>> Legacy::receive(const PeerId& from, const wire::TakeOn& ask, std::span<float> values,
                               TimePoint deadline) const {
  const net::Topic topic(wire::topic_of(ask, from, needs_.net.self()));
  const auto talk = needs_.net.converse(wire::kLegacyProtocol, topic, {from});
  wire::Ready ready;
  ready.pieces = wire::pieces_of(values.size());
  Frame said = frame::encode(wire::Message(ready));
  const auto told = co_await talk->send(from, net::TrafficClass::latency, std::move(said), deadline);
  if (!told) co_return told.error();
  for (std::uint32_t index = 0; index < ready.pieces; ++index) {
    const TimePoint patience = std::min(deadline, needs_.clock.now() + options_.silence_max);
    auto piece = co_await talk->receive(patience);
    while (piece && piece->from != from) piece = co_await talk->receive(patience);
    if (!piece) co_return piece.error();
    if (!needs_.takes_part()) co_return Errc::gone;
    if (const auto read = read_piece(*piece->frame, index, needs_.codecs, values); !read) co_return read.error();
  }
  co_return Result<>();
}

/// At the trainer's border or beside its microbatch, and in order with the errands of rounds: a hand-over that comes
/// later takes it along.
Task<Result<>> Legacy::add(PeerId from, std::uint64_t epoch, std::shared_ptr<const Estate> estate) const {
  struct Outcome {
    bool in_epoch = false;
    bool added = false;
  };
  const auto outcome = std::make_shared<Outcome>();
  const auto put = [outcome, estate, epoch, from, ranges_max = options_.ranges_max](Trainer& trainer) {
    outcome->in_epoch = trainer.epoch() == epoch;
    if (!outcome->in_epoch || trainer.ledger().committed().overlaps(estate->behind.work)) return;
    outcome->added = trainer.take_on(estate->values, estate->behind, from, ranges_max);
  };
  const auto done = co_await needs_.bridge.on_trainer_until(needs_.clock, needs_.clock.now(), put);
  if (!done) co_return done.error();
  if (!outcome->in_epoch) co_return Errc::stale;
  if (!outcome->added) co_return Errc::bad_request;
  co_return Result<>();
}

}  // namespace collab::epoch
