// What a groupmate may send: a script of frames, each delivered to one peer of a group of three in the middle of a
// round. Nothing may crash, no bound may break, and what is committed is proven.
//
// Script: u8 sender (0..2, of which 0 is the peer itself) | u8 what | u16 bytes | that many bytes, again and again.
// `what` even: the bytes are a frame. Odd: they are the payload of a frame whose header is well formed, so that the
// fuzzer need not find 32-byte group ids by itself.
#include "averaging/first_groups.hpp"
#include "averaging/participant.hpp"
#include "base/frame.hpp"
#include "support.hpp"

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

namespace collab::fuzz::averaging_wire_target {

using namespace averaging;

struct World {
  World() {
    TensorInfo tensor;
    tensor.name = "all";
    tensor.shape = {3 * static_cast<std::int64_t>(kUnitValues)};
    Schema schema;
    schema.tensors.push_back(tensor);
    const CodecMap codecs(schema, CodecOptions::all(CodecId::linear8));
    matchmaking::Group group;
    group.codec_map = codec_map_digest(codecs);
    group.chunk_units = 1;
    for (unsigned char i = 0; i < 3; ++i) {
      Identity::Seed seed{};
      seed[0] = static_cast<unsigned char>(i + 1);
      identities.push_back(Identity::generate(seed));
      matchmaking::Member member;
      member.id = identities.back().id();
      member.weight_max = 9;
      member.units = 1;
      group.roster.push_back(member);
    }
    shape = Shape::of(matchmaking::seal(std::move(group)), codecs).value();
    values.resize(codecs.length(), 1.0F);
  }
  std::vector<Identity> identities;
  std::shared_ptr<const Shape> shape;
  std::vector<float> values;
};

wire::Header header_of(unsigned what, const matchmaking::GroupId& group, unsigned detail) {
  const auto small = static_cast<std::uint8_t>(detail % 4);
  const std::uint32_t view = detail / 4 % 8;
  switch (what % 4) {
    case 0: {
      wire::Part part;
      part.group = group;
      part.view = view;
      part.segment = small;
      part.weight = 1 + detail / 32;
      if (detail % 3 == 0) part.work.push_back({detail, detail / 64});
      return part;
    }
    case 1: {
      wire::Average average;
      average.group = group;
      average.view = view;
      average.segment = small;
      average.senders = detail / 32;
      average.weight = detail / 32;
      if (detail % 3 == 0) average.work.push_back({small, {{detail, 1U}}});
      return average;
    }
    case 2: {
      wire::View plan;
      plan.group = group;
      plan.view = view;
      plan.plan.resize(3);
      for (wire::Assignment& assignment : plan.plan) assignment.owner = small;
      return plan;
    }
    default: {
      wire::Ask ask;
      ask.group = group;
      ask.view = view;
      return ask;
    }
  }
}

COLLAB_FUZZ_TARGET(averaging_wire) {
  static const World world;
  Guard guard;
  Contribution own;
  own.values = world.values;
  own.weights = 1;
  Participant::Setup setup{world.shape, world.identities[0], weighted_mean(), guard, own, {}, nullptr};
  Participant participant(std::move(setup));
  const FirstGroups no_first_groups;
  participant.start();
  auto rest = std::as_bytes(std::span(data, size));
  while (rest.size() >= 4) {
    const auto number = [&](std::size_t i) { return std::to_integer<unsigned>(rest[i]); };
    const PeerId from = world.identities[number(0) % 3].id();
    const unsigned what = number(1);
    const std::size_t bytes = std::min<std::size_t>(number(2) | number(3) << 8U, rest.size() - 4);
    const auto body = rest.subspan(4, bytes);
    rest = rest.subspan(4 + bytes);
    Frame frame;
    if (what % 2 == 0) {
      frame = std::make_shared<const Buffer>(body);
    } else {
      const unsigned detail = body.empty() ? 0 : std::to_integer<unsigned>(body[0]);
      std::vector<std::byte> payload(body.begin(), body.end());
      if (what % 16 > 8) payload.resize(world.shape->codecs.encoded_bytes({0, kUnitValues}));
      frame = frame::encode(header_of(what / 2, world.shape->group.id, detail), payload);
    }
    (void)participant.on_frame(from, frame);
    if (no_first_groups.answer(from, frame)) std::abort();
    if (what % 32 == 6) participant.suspect(what / 32);
    (void)participant.take_outgoing();
  }
  // its two groupmates have signed nothing here, so nothing can have been committed
  if (participant.state() == Commit::State::committed) std::abort();
  return 0;
}

}  // namespace collab::fuzz::averaging_wire_target
