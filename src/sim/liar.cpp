#include "sim/liar.hpp"

#include "averaging/wire.hpp"
#include "base/frame.hpp"
#include "epoch/wire.hpp"
#include "matchmaking/seating.hpp"
#include "matchmaking/wire.hpp"
#include "progress/wire.hpp"
#include "state/wire.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::array<std::string_view, kLies> kLieNames = {
    "not_finite", "heavy", "weightless", "short_part", "two_faced", "result", "roster",
    "ahead",      "hash",  "samples",    "grid",       "average",   "help"};
constexpr std::uint64_t kHeavy = 1'000'000'000'000;
constexpr std::uint64_t kAhead = 1000;
constexpr std::uint32_t kAbsurdRadix = 8;

Bytes copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// NaN at the begin of the encoding of every codec: as a float32, and as the second of two values of 16 bits.
void put_nan(Bytes& encoded) {
  constexpr std::array<unsigned char, 4> kNaN = {0x00, 0x00, 0xc0, 0x7f};
  for (std::size_t i = 0; i < std::min(kNaN.size(), encoded.size()); ++i) encoded[i] = std::byte(kNaN[i]);
}

void change(Bytes& bytes) {
  if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte(1);
}

std::vector<Frame> distorted_part(Lie lie, averaging::wire::Part part, std::span<const std::byte> values, Frame frame) {
  Bytes payload = copy_of(values);
  std::vector<Frame> out;
  switch (lie) {
    case Lie::not_finite: put_nan(payload); break;
    case Lie::heavy: part.weight = kHeavy; break;
    case Lie::weightless: part.weight = 0; break;
    case Lie::short_part: payload.resize(payload.size() - std::min<std::size_t>(payload.size(), 3)); break;
    case Lie::two_faced:
      out.push_back(std::move(frame));
      change(payload);
      break;
    default: return {std::move(frame)};
  }
  out.push_back(frame::encode(averaging::wire::Header(std::move(part)), payload));
  return out;
}

std::vector<Frame> distorted_round(Lie lie, bool deceived, Frame frame) {
  auto message = frame::decode<averaging::wire::Header>(*frame);
  if (!message) return {std::move(frame)};
  if (auto* part = std::get_if<averaging::wire::Part>(&message->header))
    return distorted_part(lie, std::move(*part), message->payload, std::move(frame));
  if (lie != Lie::average || !deceived || !std::holds_alternative<averaging::wire::Average>(message->header))
    return {std::move(frame)};
  Bytes payload = copy_of(message->payload);
  change(payload);
  return {frame::encode(message->header, payload)};
}

/// The same plan, but everybody except the two of us is somebody that nobody has heard of.
matchmaking::wire::Begin among_strangers(matchmaking::wire::Begin begin, const PeerId& self, const PeerId& to) {
  for (std::size_t i = 0; i < begin.roster.size(); ++i) {
    auto& key = begin.roster[i];
    if (key != self.key && key != to.key) key = Identity::generate({static_cast<unsigned char>(i + 1), 0x5a}).id().key;
  }
  std::vector<std::size_t> order(begin.roster.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return begin.roster[a] < begin.roster[b]; });
  const auto reorder = [&](auto& list) {
    const auto before = list;
    for (std::size_t i = 0; i < order.size() && i < before.size(); ++i) list[i] = before.at(order[i]);
  };
  reorder(begin.roster);
  reorder(begin.roles);
  reorder(begin.weights);
  reorder(begin.previous);
  reorder(begin.incarnations);
  reorder(begin.units);
  return begin;
}

Frame distorted_estate(Lie lie, Frame frame) {
  const auto message = frame::decode<epoch::wire::Message>(*frame);
  if (!message || !std::holds_alternative<epoch::wire::Piece>(message->header)) return frame;
  Bytes payload = copy_of(message->payload);
  if (lie == Lie::not_finite) put_nan(payload);
  if (lie == Lie::short_part) payload.resize(payload.size() - std::min<std::size_t>(payload.size(), 3));
  return frame::encode(message->header, payload);
}

Frame distorted_gathering(Lie lie, const PeerId& self, const PeerId& to, Frame frame) {
  auto message = frame::decode<matchmaking::wire::Header>(*frame);
  if (!message) return frame;
  if (auto* begin = std::get_if<matchmaking::wire::Begin>(&message->header); begin != nullptr && lie == Lie::roster)
    return frame::encode(matchmaking::wire::Header(among_strangers(std::move(*begin), self, to)));
  auto* samples = std::get_if<matchmaking::wire::Samples>(&message->header);
  if (samples == nullptr || lie != Lie::heavy) return frame;
  samples->total = samples->elsewhere = kHeavy;
  return frame::encode(message->header);
}

class LyingConversation final : public net::Conversation {
 public:
  LyingConversation(std::unique_ptr<net::Conversation> honest, std::string_view protocol, const PeerId& self,
                    const std::optional<Lie>& lie)
      : honest_(std::move(honest)),
        averages_(protocol == averaging::wire::kProtocol),
        hands_on_(protocol == epoch::wire::kLegacyProtocol),
        self_(self),
        lie_(lie) {}

  Task<Result<>> send(PeerId to, net::TrafficClass traffic, Frame frame, TimePoint deadline) override {
    if (!deceived_ && to != self_) deceived_ = to;
    std::vector<Frame> told = distorted(to, std::move(frame));
    Result<> sent;
    for (Frame& one : told) {
      sent = co_await honest_->send(to, traffic, std::move(one), deadline);
      if (!sent) break;
    }
    co_return sent;
  }
  Task<Result<net::Envelope>> receive(TimePoint deadline) override { return honest_->receive(deadline); }
  void add_member(PeerId peer) override { honest_->add_member(peer); }
  void remove_member(PeerId peer) override { honest_->remove_member(peer); }
  bool closed_by(const PeerId& peer) const override { return honest_->closed_by(peer); }

 private:
  std::vector<Frame> distorted(const PeerId& to, Frame frame) const {
    if (!lie_ || to == self_) return {std::move(frame)};  // it does not lie to itself
    if (hands_on_) return {distorted_estate(*lie_, std::move(frame))};
    if (averages_) return distorted_round(*lie_, to == deceived_, std::move(frame));
    return {distorted_gathering(*lie_, self_, to, std::move(frame))};
  }

  std::unique_ptr<net::Conversation> honest_;
  bool averages_;
  bool hands_on_;
  PeerId self_;
  const std::optional<Lie>& lie_;
  std::optional<PeerId> deceived_;  ///< the first whom it had anything to say
};

}  // namespace

std::string_view name(Lie lie) noexcept {
  return kLieNames.at(static_cast<std::size_t>(lie));
}

std::optional<Lie> lie_named(std::string_view name) noexcept {
  const auto found = std::find(kLieNames.begin(), kLieNames.end(), name);
  if (found == kLieNames.end()) return std::nullopt;
  return static_cast<Lie>(found - kLieNames.begin());
}

void LyingEndpoint::handle(net::Method method, net::Handler handler) {
  if (method.name != state::wire::kChunkMethod) return honest_.handle(std::move(method), std::move(handler));
  const auto lying = [this, handler](PeerId from, Frame request, TimePoint deadline) -> Task<net::Answer> {
    net::Answer answer = co_await handler(from, std::move(request), deadline);
    if (!answer || lie_ != Lie::result) co_return answer;
    Bytes bytes = (*answer)->copy();
    bytes.back() ^= std::byte(1);
    co_return std::make_shared<const Buffer>(bytes);
  };
  honest_.handle(std::move(method), lying);
}

Frame LyingEndpoint::distorted(std::string_view method, Frame request) const {
  if (method != epoch::wire::kTakeOnMethod || lie_ != Lie::heavy) return request;
  auto message = frame::decode<epoch::wire::Message>(*request);
  if (!message) return request;
  std::get<epoch::wire::TakeOn>(message->header).samples = kHeavy;
  return frame::encode(message->header);
}

std::unique_ptr<net::Conversation> LyingEndpoint::converse(std::string_view protocol, const net::Topic& topic,
                                                           std::vector<PeerId> members) {
  auto honest = honest_.converse(protocol, topic, std::move(members));
  return std::make_unique<LyingConversation>(std::move(honest), protocol, self(), lie_);
}

Bytes distorted_record(Lie lie, std::string_view key, Bytes value) {
  if (key != progress::kProgressKey) return value;
  auto record = progress::decode(value);
  if (!record) return value;
  if (lie == Lie::ahead) record->epoch += kAhead;
  if (lie == Lie::hash) record->parameters[0] ^= 1U;
  if (lie == Lie::samples) record->samples = kHeavy;
  return progress::encode(*record);
}

std::vector<Bytes> absurd_seating(std::uint64_t epoch) {
  matchmaking::Seating seating;
  seating.from = epoch + 2;
  seating.radices = {kAbsurdRadix, kAbsurdRadix};
  for (unsigned char i = 1; i <= kAbsurdRadix * kAbsurdRadix; ++i)
    seating.seats.push_back(matchmaking::seat_of(Identity::generate({i, 0x5b}).id()));
  std::sort(seating.seats.begin(), seating.seats.end());
  return matchmaking::encode(seating);
}

}  // namespace collab::sim
