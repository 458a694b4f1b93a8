#pragma once
// Peers with feedback whose rounds are those of plain objects.

#include "averaging/all_reduce.hpp"
#include "averaging/participant.hpp"
#include "base/random.hpp"
#include "epoch/feedback.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>
#include <vector>

namespace collab::epoch {

inline constexpr std::size_t kUnitsOfEach = 2;

inline CodecMap gradient_map(std::size_t values, CodecId codec) {
  const Schema schema = {{{"all", DType::float32, {static_cast<std::int64_t>(values)}, TensorRole::gradient}}};
  CodecOptions options = CodecOptions::all(codec);
  options.coarse_values_min = 0;
  return {schema, options};
}

/// Some peers that average again and again, each an owner of as much as the others.
class FedSwarm {
 public:
  FedSwarm(std::size_t peers, CodecId codec)
      : FedSwarm(peers, gradient_map(peers * kUnitsOfEach * kUnitValues, codec)) {}
  /// `codecs`: of kUnitsOfEach units a peer.
  FedSwarm(std::size_t peers, CodecMap codecs) : map(std::move(codecs)) {
    for (std::size_t i = 0; i < peers; ++i) {
      Identity::Seed seed{};
      seed[0] = static_cast<unsigned char>(i + 1);
      identities.push_back(Identity::generate(seed));
    }
    std::sort(identities.begin(), identities.end(), [](const auto& a, const auto& b) { return a.id() < b.id(); });
    for (std::size_t i = 0; i < peers; ++i) feedback.push_back(std::make_unique<Feedback>(map));
  }

  matchmaking::Group group(std::uint64_t epoch) const {
    matchmaking::Group group;
    group.epoch = epoch;
    group.codec_map = averaging::codec_map_digest(map);
    group.chunk_units = 1;
    for (const Identity& identity : identities) {
      matchmaking::Member member;
      member.id = identity.id();
      member.weight_max = 1000;
      member.units = kUnitsOfEach;
      group.roster.push_back(member);
    }
    return matchmaking::seal(std::move(group));
  }

  EncodeOptions options(std::size_t peer, const matchmaking::Group& group) const {
    return averaging::part_options(group, identities[peer].id());
  }

  /// The round of `group` with what the peers bring. Of the parts of the last peer only `parts_max` arrive; then it is
  /// lost.
  std::shared_ptr<const averaging::CommittedRound> average(const matchmaking::Group& group,
                                                           const std::vector<std::vector<float>>& values,
                                                           const std::vector<std::uint64_t>& weights,
                                                           std::size_t parts_max = 1'000'000) const {
    const auto shape = averaging::Shape::of(group, map).value();
    std::vector<averaging::Guard> guards(values.size());
    std::vector<std::unique_ptr<averaging::Participant>> peers;
    for (std::size_t i = 0; i < values.size(); ++i) {
      averaging::Contribution own;
      own.values = values[i];
      own.weights = weights[i];
      own.part = options(i, group);
      averaging::Participant::Setup setup{shape, identities[i], averaging::weighted_mean(), guards[i], own,
                                          {},    nullptr};
      peers.push_back(std::make_unique<averaging::Participant>(std::move(setup)));
      peers.back()->start();
    }
    const std::size_t last = values.size() - 1;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t from = 0; from < peers.size(); ++from) {
        std::vector<std::pair<averaging::Ranks, Frame>> out;
        for (auto& outgoing : peers[from]->take_outgoing()) out.emplace_back(outgoing.to, outgoing.frame);
        for (std::size_t to = 0; to < peers.size(); ++to) {
          if (from == last && parts_max == 0) continue;
          Frame part = peers[from]->next_part(static_cast<averaging::Rank>(to));
          if (part == nullptr) continue;
          if (from == last) --parts_max;
          out.emplace_back(averaging::bit(static_cast<averaging::Rank>(to)), std::move(part));
        }
        moved = moved || !out.empty();
        for (const auto& [ranks, frame] : out)
          for (std::size_t to = 0; to < peers.size(); ++to)
            if (averaging::contains(ranks, to)) (void)peers[to]->on_frame(identities[from].id(), frame);
      }
      if (!moved && parts_max == 0 && peers[0]->state() == averaging::Commit::State::running) {
        for (std::size_t to = 0; to < last; ++to)
          peers[to]->suspect(averaging::bit(static_cast<averaging::Rank>(last)));
        moved = true;
      }
    }
    assert(peers[0]->state() == averaging::Commit::State::committed);
    return peers[0]->committed_round();
  }

  std::vector<float> mean(const averaging::CommittedRound& round) const {
    std::vector<float> values(map.length());
    round.apply(values);
    return values;
  }

  CodecMap map;
  std::vector<Identity> identities;
  std::vector<std::unique_ptr<Feedback>> feedback;
};

/// To the end, at once.
inline void settle(Feedback& feedback, std::shared_ptr<const averaging::CommittedRound> round, const PeerId& self,
                   bool fetched = false) {
  auto settling = fetched ? feedback.missed(std::move(round), self) : feedback.settle(std::move(round), self);
  if (!settling) return;
  settling->run();
  feedback.settled(std::move(*settling));
}

inline std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform() + random.uniform() + random.uniform() - 1.5);
  return values;
}

}  // namespace collab::epoch
