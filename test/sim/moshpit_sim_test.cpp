#include "sim/grid_swarm.hpp"

#include <set>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

using averaging::PassOutcome;

GridOptions grid_of(std::size_t peers, std::vector<std::uint32_t> radices, std::size_t group_size_max,
                    std::uint64_t seed = 1) {
  GridOptions options;
  options.seed = seed;
  options.peers = peers;
  options.radices = std::move(radices);
  options.group_size_max = group_size_max;
  return options;
}

}  // namespace

TEST_CASE("moshpit: 16 peers on a grid of 4x4 end with the exact weighted mean in equal bytes, after two rounds") {
  GridSwarm swarm(grid_of(16, {4, 4}, 4));
  swarm.run();
  const GridResult result = swarm.result();
  CHECK(result.complete == 16);
  CHECK(result.equal_bytes);
  CHECK(result.max_relative_error <= 1e-6);
  MESSAGE(to_seconds(swarm.length()));
}

}  // namespace collab::sim
