#include "tensor/dynamic8_lookup.hpp"

#include <cassert>

namespace collab {
namespace {

std::array<float, 256> make_table() {
  constexpr std::array<double, 7> decades = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::array<float, 256> table{};
  std::size_t size = 0;
  table[size++] = 0;
  table[size++] = 1;
  for (std::size_t k = 0; k < decades.size(); ++k) {
    const std::size_t cells = std::size_t(1) << k;
    const double width = 0.9 / static_cast<double>(cells);
    const auto edge = [&](std::size_t i) { return i == cells ? 1.0 : static_cast<double>(i) * width + 0.1; };
    for (std::size_t i = 0; i < cells; ++i) {
      const auto centre = static_cast<float>((edge(i) + edge(i + 1)) / 2 * decades[k]);
      table[size++] = centre;
      table[size++] = -centre;
    }
  }
  assert(size == table.size());
  std::sort(table.begin(), table.end());
  return table;
}

}  // namespace

Dynamic8Lookup::Dynamic8Lookup() : table_(make_table()) {
  for (std::size_t rank = 0; rank < borders_.size(); ++rank) {
    const std::size_t code = kZeroCode + rank;
    const auto middle = static_cast<float>((double(table_[code]) + double(table_[code + 1])) / 2);
    borders_[rank] = std::bit_cast<std::int32_t>(middle) + 1;
  }
  std::int32_t begin = kLowest;
  for (std::uint32_t& bucket : steps_) {
    bucket = step(begin, kShift);
    begin += 1 << kShift;
  }
}

std::size_t Dynamic8Lookup::rank_of(std::int32_t magnitude) const {
  const auto above = std::upper_bound(borders_.begin(), borders_.end(), magnitude);
  return static_cast<std::size_t>(above - borders_.begin());
}

bool Dynamic8Lookup::fits(std::int32_t begin, int shift) const {
  assert(shift <= kRankShift);
  return rank_of(begin + (1 << shift) - 1) - rank_of(begin) <= 1;
}

std::uint32_t Dynamic8Lookup::step(std::int32_t begin, int shift) const {
  assert(fits(begin, shift));
  const std::size_t rank = rank_of(begin);
  const bool divided = rank_of(begin + (1 << shift) - 1) > rank;
  // what an offset in the bucket lacks to carry into the rank
  const std::uint32_t carries = divided ? (1U << kRankShift) - static_cast<std::uint32_t>(borders_[rank] - begin) : 0;
  return (static_cast<std::uint32_t>(rank) << kRankShift) + carries - static_cast<std::uint32_t>(begin);
}

const Dynamic8Lookup& dynamic8_lookup() noexcept {
  static const Dynamic8Lookup lookup;
  return lookup;
}

}  // namespace collab
