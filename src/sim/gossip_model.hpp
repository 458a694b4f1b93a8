#pragma once
// What a grid is measured against: other ways to make many peers agree on a mean, one value each, without network.

#include "base/random.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace collab::sim {

enum class Gossip : std::uint8_t {
  ring,      ///< everybody takes the mean of itself and its two neighbours
  push_sum,  ///< everybody keeps half of its value and weight and sends half to one drawn at random (Kempe et al. 2003)
  restart,   ///< one all-reduce of all; when somebody is absent it fails, and is begun again
};
std::string_view name(Gossip how) noexcept;
std::optional<Gossip> gossip_named(std::string_view name) noexcept;

struct GossipOptions {
  std::uint64_t seed = 1;
  std::size_t peers = 1024;
  Gossip how = Gossip::ring;
  double absent = 0;  ///< chance of each peer to miss each round; it keeps its value
};

/// The same values as a GridModel of that seed.
class GossipModel {
 public:
  explicit GossipModel(const GossipOptions& options);
  void round();
  /// Of what the peers take for the mean, around their own mean.
  double variance() const;

 private:
  void ring(const std::vector<bool>& there);
  void push(const std::vector<bool>& there);
  void all_reduce(const std::vector<bool>& there);

  GossipOptions options_;
  Random random_;
  std::vector<double> sums_;
  std::vector<double> weights_;  ///< all one but with push_sum
};

}  // namespace collab::sim
