#include "data/lease_plan.hpp"

#include "base/random.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>
#include <utility>

namespace collab::data {
namespace {

constexpr std::uint64_t kLookAheadMax = std::uint64_t(1) << 32U;  // units; more than anybody can have leased

/// In a pass, if it has so many units: of 4 on average one peer in fifty has none in it, of 16 one in ten million.
constexpr std::uint64_t kBlocksOfPeer = 16;

std::uint64_t score(const PeerId& peer, std::uint64_t block) {
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < 8; ++i) key = key << 8U | peer.key[i];
  return Random(Random(key).next() ^ block).next();
}

PeerId owner_of(const std::vector<PeerId>& peers, std::uint64_t block) {
  return *std::min_element(peers.begin(), peers.end(), [block](const PeerId& a, const PeerId& b) {
    return std::pair(score(a, block), a) < std::pair(score(b, block), b);
  });
}

/// Blocks begin anew with each pass, so that none lies in two.
WorkRange block_at(std::uint64_t unit, std::uint64_t units_per_pass, std::uint64_t size = kRunUnitsMax) {
  const std::uint64_t pass_begin = unit - unit % units_per_pass;
  const std::uint64_t begin = unit - (unit - pass_begin) % size;
  return {begin, std::min(size, pass_begin + units_per_pass - begin)};
}

/// Free units of the first pass that has any, in the next blocks.
Work free_units(const LeaseView& view, std::uint64_t begin, std::uint64_t count) {
  Work free(WorkRange{begin, count});
  free.subtract(view.ledger.committed());
  free.subtract(view.taken);
  if (free.empty()) return free;
  const std::uint64_t first = free.ranges().front().first;
  return free.common(Work(WorkRange{first - first % view.units_per_pass, view.units_per_pass}));
}

/// The free parts of blocks, in order, at most `blocks_max`.
std::vector<Work> in_blocks(const LeaseView& view, Work free, std::size_t blocks_max) {
  std::vector<Work> blocks;
  while (!free.empty() && blocks.size() < blocks_max) {
    const Work block(block_at(free.ranges().front().first, view.units_per_pass));
    blocks.push_back(free.common(block));
    free.subtract(block);
  }
  return blocks;
}

/// The first run of a block's free units: what follows is another's if it was interrupted.
Work run_of(const Work& block, std::uint64_t units) {
  const WorkRange first = block.ranges().front();
  return Work(WorkRange{first.first, std::min(first.count, units)});
}

std::uint64_t number_of(const Work& block) {
  return block.ranges().front().first / kRunUnitsMax;
}

}  // namespace

Work choose_run(const LeaseView& view, std::uint64_t wanted) {
  assert(view.units_per_pass > 0 && !view.peers.empty());
  const std::uint64_t peers = view.peers.size();
  Work free;
  for (std::uint64_t ahead = 4 * (peers + 1) * kRunUnitsMax; ahead <= kLookAheadMax; ahead *= 2) {
    free = free_units(view, view.ledger.first_free(), ahead);
    if (free.count() >= 2 * peers * kRunUnitsMax) break;
    // a later window shows more only while it is of the same pass
    if (!free.empty() && view.ledger.first_free() + ahead > free.ranges().back().end() + kRunUnitsMax) break;
  }
  if (free.empty()) return free;
  const std::uint64_t fair = std::clamp(free.count() / (2 * peers), kRunUnitsMin, kRunUnitsMax);
  const std::uint64_t units = std::clamp(wanted, kRunUnitsMin, fair);
  const std::vector<Work> blocks = in_blocks(view, std::move(free), 2 * peers);
  const Work* chosen = nullptr;
  for (const Work& block : blocks) {
    if (owner_of(view.peers, number_of(block)) == view.self) return run_of(block, units);
    if (chosen == nullptr || score(view.self, number_of(block)) < score(view.self, number_of(*chosen))) chosen = &block;
  }
  return run_of(*chosen, units);
}

Work choose_own_run(const LeaseView& view, std::uint64_t wanted, std::uint64_t end) {
  assert(view.units_per_pass > 0 && !view.peers.empty());
  const std::uint64_t units = std::clamp(wanted, kRunUnitsMin, kRunUnitsMax);
  const std::uint64_t share = std::bit_floor(view.units_per_pass / (kBlocksOfPeer * view.peers.size()));
  const std::uint64_t size = std::clamp(share, kRunUnitsMin, kRunUnitsMax);
  std::uint64_t begin = view.ledger.first_free();
  for (end = std::min(end, begin + kLookAheadMax); begin < end;) {
    const WorkRange block = block_at(begin, view.units_per_pass, size);
    begin = block.end();
    if (owner_of(view.peers, block.first / size) != view.self) continue;
    Work free(block);
    free.subtract(view.ledger.committed());
    free.subtract(view.taken);
    if (!free.empty()) return run_of(free, units);
  }
  return {};
}

}  // namespace collab::data
