// A whole round among plain objects: frames are handed over by the test.

#include "averaging/participant.hpp"

#include "base/frame.hpp"

#include <map>
#include <memory>
#include <vector>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

class Notary final : public Guard {
 public:
  bool wants_part_digests() const override { return true; }
  void before_scatter(std::span<const Digest> parts) override { promised.assign(parts.begin(), parts.end()); }
  void on_part(Rank from, Rank segment, const Digest& part) override { seen[{from, segment}] = part; }
  void before_gather(Rank segment, const Digest&, Ranks senders) override { reduced[segment] = senders; }
  std::vector<Digest> promised;
  std::map<std::pair<Rank, Rank>, Digest> seen;
  std::map<Rank, Ranks> reduced;
};

struct Group {
  explicit Group(std::size_t n) {
    TensorInfo tensor;
    tensor.name = "all";
    tensor.shape = {static_cast<std::int64_t>(2 * n * kUnitValues)};
    Schema schema;
    schema.tensors.push_back(tensor);
    const CodecMap codecs(schema, CodecOptions::all(CodecId::float32));
    matchmaking::Group group;
    group.codec_map = codec_map_digest(codecs);
    group.chunk_units = 1;
    std::map<PeerId, Identity> by_id;
    for (std::size_t i = 0; i < n; ++i) {
      Identity::Seed seed{};
      seed[0] = static_cast<unsigned char>(i + 1);
      Identity identity = Identity::generate(seed);
      matchmaking::Member member;
      member.id = identity.id();
      member.weight_max = 9;
      member.units = 2;
      group.roster.push_back(member);
      by_id.emplace(identity.id(), std::move(identity));
    }
    shape = Shape::of(matchmaking::seal(std::move(group)), codecs).value();
    for (auto& [id, identity] : by_id) identities.push_back(std::move(identity));
    guards.resize(n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      values.emplace_back(codecs.length(), static_cast<float>(rank));
      Contribution own;
      own.values = values.back();
      own.weights = 1;
      Participant::Setup setup{shape, identities[rank], weighted_mean(), guards[rank], own, {}, nullptr};
      peers.push_back(std::make_unique<Participant>(std::move(setup)));
    }
  }

  /// Until nobody has anything to say.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t from = 0; from < peers.size(); ++from) {
        std::vector<std::pair<Ranks, Frame>> out;
        for (auto& outgoing : peers[from]->take_outgoing()) out.emplace_back(outgoing.to, outgoing.frame);
        for (std::size_t to = 0; to < peers.size(); ++to)
          if (Frame part = peers[from]->next_part(static_cast<Rank>(to))) out.emplace_back(bit(to), std::move(part));
        moved = moved || !out.empty();
        for (const auto& [ranks, frame] : out)
          for (std::size_t to = 0; to < peers.size(); ++to)
            if (contains(ranks, to)) (void)peers[to]->on_frame(identities[from].id(), frame);
      }
    }
  }

  std::shared_ptr<const Shape> shape;
  std::vector<Identity> identities;
  std::vector<std::vector<float>> values;
  std::vector<Notary> guards;
  std::vector<std::unique_ptr<Participant>> peers;
};

}  // namespace

TEST_CASE("participant: frames that come before the start count, and all end with the mean") {
  Group group(3);
  group.peers[0]->start();
  group.peers[1]->start();
  group.run();
  CHECK(group.peers[0]->state() == Commit::State::running);
  group.peers[2]->start();
  group.run();
  for (const auto& peer : group.peers) {
    REQUIRE(peer->state() == Commit::State::committed);
    REQUIRE(peer->finished());
    CHECK(peer->done() == (group.shape->members.all & ~bit(peer->self())));
    std::vector<float> result(group.values[0].size());
    peer->committed_round()->apply(result);
    CHECK(result.front() == 1.0F);
    CHECK(result.back() == 1.0F);
  }
}

TEST_CASE("participant: what a line had taken when it broke is sent again, parts and averages, four times at most") {
  Group group(3);
  for (auto& peer : group.peers) peer->start();
  const auto deliver = [&](Rank from, Ranks to) {
    for (auto& outgoing : group.peers[from]->take_outgoing())
      for (Rank rank = 0; rank < 3; ++rank)
        if (contains(outgoing.to & to, rank))
          (void)group.peers[rank]->on_frame(group.identities[from].id(), outgoing.frame);
  };
  const auto parts = [&](Rank from, Rank to, bool arrive) {
    std::size_t count = 0;
    for (; const Frame part = group.peers[from]->next_part(to); ++count)
      if (arrive) (void)group.peers[to]->on_frame(group.identities[from].id(), part);
    return count;
  };
  for (Rank from = 0; from < 3; ++from)
    for (Rank to = 0; to < 3; ++to)
      if (from != to) CHECK(parts(from, to, from != 1 || to != 0) == 2);  // those of 1 to 0 are lost
  deliver(1, bit(2));                                                     // and its average for 0
  CHECK(parts(1, 0, true) == 0);
  for (int again = 0; again < 4; ++again) {
    group.peers[1]->repeat(0);
    CHECK(parts(1, 0, true) == 2);
    deliver(1, bit(0));
  }
  group.peers[1]->repeat(0);
  CHECK(parts(1, 0, true) == 0);
  group.run();
  for (auto& peer : group.peers) {
    REQUIRE(peer->finished());
    CHECK(peer->state() == Commit::State::committed);
    CHECK(peer->commit().plans() == 1);
  }
}

TEST_CASE("participant: a guard sees what everyone promised, what came, and what was reduced from it") {
  Group group(3);
  for (auto& peer : group.peers) peer->start();
  group.run();
  for (Rank owner = 0; owner < 3; ++owner) {
    for (Rank from = 0; from < 3; ++from)
      if (from != owner) CHECK(group.guards[owner].seen.at({from, owner}) == group.guards[from].promised.at(owner));
    CHECK(group.guards[owner].reduced.at(owner) == 0b111);
  }
}

TEST_CASE("participant: a stranger and a frame of another round change nothing") {
  Group group(2);
  group.peers[0]->start();
  PeerId stranger{};
  stranger.key[5] = 77;
  wire::Done done;
  const Frame foreign = frame::encode(wire::Header(done));
  CHECK(group.peers[0]->on_frame(stranger, foreign).error() == Errc::denied);
  CHECK(group.peers[0]->on_frame(group.identities[1].id(), foreign).error() == Errc::stale);
  CHECK(group.peers[0]->on_frame(group.identities[1].id(), std::make_shared<const Buffer>(Bytes(7))).error() ==
        Errc::bad_request);
}

TEST_CASE("committed round: what was changed on the way proves nothing") {
  Group group(3);
  for (auto& peer : group.peers) peer->start();
  group.run();
  const auto round = group.peers[1]->committed_round();
  const auto& codecs = group.shape->codecs;
  const auto frames = round->frames();
  REQUIRE(CommittedRound::verify(round->group(), round->proof(), frames, codecs));

  auto bent = frames;
  Bytes bytes = bent[2]->copy();
  bytes.back() ^= std::byte(1);
  bent[2] = std::make_shared<const Buffer>(bytes);
  CHECK(CommittedRound::verify(round->group(), round->proof(), bent, codecs).error() == Errc::bad_request);
  bent.assign(frames.begin(), frames.end() - 1);
  CHECK(CommittedRound::verify(round->group(), round->proof(), bent, codecs).error() == Errc::bad_request);

  auto proof = round->proof();
  proof.holds[0].signature[0] ^= 1;
  CHECK(CommittedRound::verify(round->group(), proof, frames, codecs).has_value());  // two of three are a quorum
  proof.holds[1].signature[0] ^= 1;
  CHECK(CommittedRound::verify(round->group(), proof, frames, codecs).error() == Errc::denied);

  auto other = round->group();
  other.epoch = 9;
  CHECK(CommittedRound::verify(other, round->proof(), frames, codecs).error() == Errc::bad_request);
}

}  // namespace collab::averaging
