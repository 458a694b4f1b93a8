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
  constexpr std::uint32_t width = 1U << kShift;
  std::uint32_t rank = 0;  // of the bucket's first number
  std::uint32_t begin = kLowest;
  for (std::uint32_t& step : steps_) {
    std::uint32_t above = width;  // how far behind the bucket's begin the next rank begins, if in this bucket
    const std::size_t code = kZeroCode + rank;
    if (code + 1 < table_.size()) {
      const auto middle = static_cast<float>((double(table_[code]) + double(table_[code + 1])) / 2);
      above = std::min(std::bit_cast<std::uint32_t>(middle) + 1 - begin, width);
    }
    step = (rank << kShift) + (width - above) - begin;
    if (above < width) ++rank;
    begin += width;
  }
  assert(rank == 128);  // no bucket held two midpoints
}

const Dynamic8Lookup& dynamic8_lookup() noexcept {
  static const Dynamic8Lookup lookup;
  return lookup;
}

}  // namespace collab
