// A committed round from anyone's hands. The first byte is even: the rest is the round as bytes; what is believed is to
// the bit what the group of the corpus has signed. Odd: the rest is a script of averages that a dishonest group signs,
// so that what lies behind the signatures is reached: u8 segment | u8 chunk | u8 senders | u8 weight | u16 bytes | the
// payload, made to fit where the segment's 8th bit is set; again and again.
#include "averaging/participant.hpp"
#include "base/frame.hpp"
#include "epoch/missed_round.hpp"
#include "support.hpp"

#include <cmath>
#include <memory>
#include <vector>

namespace collab::fuzz::missed_round_target {

using namespace averaging;

constexpr std::uint64_t kEpoch = 5;
constexpr std::size_t kMembers = 3;

struct World {
  World() : codecs(schema(), CodecOptions::all(CodecId::linear8)) {
    matchmaking::Group group;
    group.epoch = kEpoch;
    group.codec_map = codec_map_digest(codecs);
    group.chunk_units = 1;
    std::map<PeerId, Identity> by_id;
    for (unsigned char i = 0; i < kMembers; ++i) {
      Identity identity = Identity::generate(Identity::Seed{static_cast<unsigned char>(i + 1)});
      matchmaking::Member member;
      member.id = identity.id();
      member.weight_max = 9;
      member.units = 1;
      group.roster.push_back(member);
      by_id.emplace(identity.id(), std::move(identity));
    }
    for (auto& [id, identity] : by_id) identities.push_back(std::move(identity));
    shape = Shape::of(matchmaking::seal(std::move(group)), codecs).value();
  }
  static Schema schema() {
    TensorInfo tensor;
    tensor.name = "all";
    tensor.shape = {kMembers * static_cast<std::int64_t>(kUnitValues)};
    Schema schema;
    schema.tensors.push_back(tensor);
    return schema;
  }
  /// Complete results, signed by all.
  CommittedRound sign(std::vector<SegmentResult> results) const {
    wire::Proof proof;
    for (const SegmentResult& result : results) proof.manifest.push_back(result.digest());
    for (std::size_t rank = 0; rank < kMembers; ++rank) {
      wire::SignedHold hold;
      hold.rank = static_cast<std::uint8_t>(rank);
      hold.signature = identities[rank].sign(hold_bytes(shape->group.id, proof.view, proof.manifest));
      proof.holds.push_back(hold);
    }
    return CommittedRound(shape, std::move(proof), std::move(results));
  }
  auto decode(std::span<const std::byte> bytes) const { return epoch::decode_round(bytes, kEpoch, Digest{}, codecs); }
  std::vector<float> values(const CommittedRound& round) const {
    std::vector<float> all(codecs.length(), std::nanf(""));
    round.apply(all);
    for (const float value : all) require(std::isfinite(value));
    return all;
  }
  std::vector<SegmentResult> empty_results() const {
    std::vector<SegmentResult> results;
    for (const Rank segment : shape->members.segments) results.emplace_back(*shape, segment);
    return results;
  }
  bool add(std::vector<SegmentResult>& results, const wire::Average& average,
           std::span<const std::byte> payload) const {
    const Frame frame = frame::encode(wire::Header(average), payload);
    const auto message = frame::decode<wire::Header>(*frame);
    return results[average.segment].add(average, frame, message->payload).has_value();
  }

  CodecMap codecs;
  std::shared_ptr<const Shape> shape;
  std::vector<Identity> identities;
};

/// What the group of the corpus has signed: segment i is all i + 1.
std::vector<float> honest_values(const World& world) {
  auto results = world.empty_results();
  for (std::uint8_t segment = 0; segment < kMembers; ++segment) {
    const std::vector<float> values(kUnitValues, static_cast<float>(segment + 1));
    wire::Average average;
    average.group = world.shape->group.id;
    average.segment = segment;
    average.senders = 7;
    average.weight = 12;
    const std::size_t offset = segment * kUnitValues;
    require(world.add(results, average, *world.codecs.encode(values, offset, {})));
  }
  return world.values(world.sign(std::move(results)));
}

void check_signed(const World& world, fuzz::Input input) {
  auto results = world.empty_results();
  while (!input.empty()) {
    wire::Average average;
    average.group = world.shape->group.id;
    const auto segment = input.number<std::uint8_t>();
    average.segment = segment % kMembers;
    average.chunk = input.number<std::uint8_t>() % 2;
    average.senders = input.number<std::uint8_t>();
    average.weight = input.number<std::uint8_t>();
    const auto piece = input.piece();
    Bytes payload(piece.begin(), piece.end());
    if (segment >= 128) payload.resize(world.codecs.encoded_bytes({average.segment * kUnitValues, kUnitValues}));
    (void)world.add(results, average, payload);  // refused, or here
  }
  for (const SegmentResult& result : results)
    if (!result.complete()) return;
  const CommittedRound round = world.sign(std::move(results));
  const std::vector<float> values = world.values(round);
  const auto believed = world.decode(epoch::encode(round));
  require(believed.has_value() == (round.weight() > 0));  // nobody's samples: no honest group commits that
  if (believed) require(world.values(**believed) == values);
}

COLLAB_FUZZ_TARGET(missed_round) {
  static const World world;
  static const std::vector<float> honest = honest_values(world);
  fuzz::Input input(fuzz::bytes_of(data, size));
  if (input.number<std::uint8_t>() % 2 != 0) {
    check_signed(world, input);
    return 0;
  }
  const fuzz::AllocationBound bound(8 * size + (1U << 18U));
  const auto round = world.decode(input.rest());
  if (round) require(world.values(**round) == honest);
  return 0;
}

}  // namespace collab::fuzz::missed_round_target
