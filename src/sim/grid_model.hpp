#pragma once
// Rounds over a grid as arithmetic alone, for thousands of peers: who meets whom is matchmaking's schedule, and sums
// are the production rule's, over one value of each peer. No network: a group always commits, with whoever is not
// absent.

#include "base/random.hpp"
#include "matchmaking/group_key.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace collab::sim {

struct GridModelOptions {
  std::uint64_t seed = 1;
  std::size_t peers = 1024;
  std::vector<std::uint32_t> radices;  ///< of the grid
  /// Groups are drawn anew in every round, each of radices[0] peers: what a grid is measured against.
  bool random_groups = false;
  /// A gradient pass: weights from 1 to here, summed, one voice for each previous group, and who was absent only
  /// receives until it is in a whole group again. 0: averaging of parameters: everybody weighs one in every round.
  std::uint64_t weight_max = 0;
  double absent = 0;  ///< chance of each peer to miss each round; it keeps its value
};

class GridModel {
 public:
  explicit GridModel(const GridModelOptions& options);

  /// The next one; after the last round of a pass the first of the grid follows.
  void round();

  /// Of all values, around their own mean. Drawn from N(0,1).
  double variance() const;
  std::size_t largest_group() const noexcept { return largest_group_; }
  std::uint32_t rounds_per_pass() const noexcept { return schedule_.rounds(); }

  /// Peers whose last round was whole: in averaging of parameters all that were there.
  std::size_t complete() const;
  /// Whether all of those hold the same bytes.
  bool equal_bytes() const;
  /// Of those, from the exact weighted mean of all that were there in the first round, by the largest |value|.
  double max_relative_error() const;

 private:
  struct Walker {
    PeerId id;
    float value = 0;
    std::uint64_t weight = 1;
    std::uint64_t own_weight = 1;
    float first = 0;
    std::size_t previous = 0;  ///< number of its group of the round before; 0: none
    bool whole = false;        ///< took part in its last round, which lacked nobody's values
    bool counted = false;      ///< its own value is in its first group
  };

  bool summed() const noexcept { return options_.weight_max > 0; }
  std::vector<std::vector<std::size_t>> draw_groups();
  std::vector<std::vector<std::size_t>> cells();
  void meet(const std::vector<std::size_t>& cell);
  std::uint32_t dropped(std::size_t walker) const;

  GridModelOptions options_;
  Random random_;
  std::vector<Walker> walkers_;  // sorted by id
  matchmaking::Schedule schedule_;
  std::uint32_t round_ = 0;  // of the pass, from 1
  std::uint64_t rounds_ = 0;
  std::size_t groups_ = 0;
  std::size_t largest_group_ = 0;
};

/// Normal deviates.
double standard_normal(Random& random);

}  // namespace collab::sim
