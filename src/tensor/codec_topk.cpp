#include "tensor/codec_topk.hpp"

#include "tensor/block_codec.hpp"
#include "tensor/codec_float.hpp"
#include "tensor/view.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>

namespace collab {
namespace {

constexpr std::size_t kept_of(std::size_t values) {
  return (values + kTopkShare - 1) / kTopkShare;
}
constexpr std::size_t kKeptMax = kept_of(kUnitValues);

// Magnitudes of floats are ordered like their bits, so all that is compared are integers; signed, as SSE2 has them.
using Magnitudes = std::array<std::int32_t, kUnitValues>;
constexpr unsigned kBucketShift = 20;  // exponent and three bits of the mantissa: few values share a bucket

/// Values of a block that may be among the largest, in order. One more: a loop without a branch writes past the last.
struct Candidates {
  std::array<std::int32_t, kUnitValues + 1> magnitudes;
  std::array<std::uint16_t, kUnitValues + 1> positions;
  std::size_t size = 0;
};

/// No larger than the `kept`-th largest: of so many groups of values, each has one that is as large as this.
std::int32_t floor_of(const Magnitudes& magnitudes, std::size_t size) {
  if (size < kUnitValues) return 0;  // one such block a run: not worth a loop of its own
  std::array<std::int32_t, kKeptMax> most{};
  for (std::size_t begin = 0; begin < kUnitValues; begin += kKeptMax) {
    for (std::size_t i = 0; i < kKeptMax; ++i)
      most[i] = most[i] < magnitudes[begin + i] ? magnitudes[begin + i] : most[i];
  }
  return *std::min_element(most.begin(), most.end());
}

void find_candidates(std::span<const float> values, Candidates& candidates) {
  Magnitudes magnitudes;
  for (std::size_t i = 0; i < values.size(); ++i) magnitudes[i] = std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff;
  const std::int32_t floor = floor_of(magnitudes, values.size());
  std::size_t size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    candidates.magnitudes[size] = magnitudes[i];
    candidates.positions[size] = static_cast<std::uint16_t>(i);
    size += magnitudes[i] >= floor ? 1U : 0U;
  }
  candidates.size = size;
}

/// The `kept`-th largest. First the bucket that it lies in, then its place among the few that share the bucket.
std::int32_t least_kept(const Candidates& candidates, float largest, std::size_t kept) {
  const auto all = std::span(candidates.magnitudes).first(candidates.size);
  // two tables, for values of one bucket often follow each other, and to count twice in one place takes its time
  std::array<std::array<std::uint16_t, 1U << (31U - kBucketShift)>, 2> counts{};
  for (std::size_t i = 0; i < all.size(); ++i) ++counts[i % 2][static_cast<std::uint32_t>(all[i]) >> kBucketShift];
  std::size_t above = 0;
  std::uint32_t bucket = (std::bit_cast<std::uint32_t>(largest) & 0x7fffffffU) >> kBucketShift;
  const auto in_bucket = [&] { return std::size_t(counts[0][bucket]) + counts[1][bucket]; };
  for (; above + in_bucket() < kept; --bucket) above += in_bucket();

  std::array<std::int32_t, kUnitValues + 1> sharing;
  std::size_t size = 0;
  for (const std::int32_t magnitude : all) {
    sharing[size] = magnitude;
    size += (static_cast<std::uint32_t>(magnitude) >> kBucketShift) == bucket ? 1U : 0U;
  }
  const auto place = sharing.begin() + static_cast<std::ptrdiff_t>(kept - above - 1);
  std::nth_element(sharing.begin(), place, sharing.begin() + static_cast<std::ptrdiff_t>(size), std::greater<>());
  return *place;
}

/// Leaves the `kept` largest; of those that are no larger than `least`, the first.
void keep(Candidates& candidates, std::int32_t least, std::size_t kept) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < candidates.size; ++i) {
    const std::int32_t magnitude = candidates.magnitudes[i];
    candidates.magnitudes[size] = magnitude;
    candidates.positions[size] = candidates.positions[i];
    size += magnitude >= least ? 1U : 0U;
  }
  for (std::size_t i = size; size > kept; --i) {  // from the last on
    if (candidates.magnitudes[i - 1] != least) continue;
    std::copy(&candidates.positions[i], &candidates.positions[size], &candidates.positions[i - 1]);
    std::copy(&candidates.magnitudes[i], &candidates.magnitudes[size], &candidates.magnitudes[i - 1]);
    --size;
  }
  candidates.size = size;
}

struct Topk {
  static constexpr std::string_view kName = "topk";

  static constexpr std::size_t bytes(std::size_t size) { return kept_of(size) * 2 * sizeof(std::uint16_t); }

  static bool encode(const CodecKernels& kernels, std::span<const float> values, std::size_t /*offset*/,
                     EncodeOptions /*options*/, std::span<std::byte> out) {
    const float largest = kernels.largest(values.data(), values.size());
    if ((not_finite(largest) & kNotFinite) != 0) return false;
    const std::size_t kept = kept_of(values.size());
    Candidates candidates;
    find_candidates(values, candidates);
    keep(candidates, least_kept(candidates, largest, kept), kept);
    const auto& positions = candidates.positions;
    std::array<float, kKeptMax> chosen;
    for (std::size_t i = 0; i < kept; ++i) chosen[i] = values[positions[i]];
    const std::size_t half = kept * sizeof(std::uint16_t);
    std::memcpy(out.data(), positions.data(), half);
    return kernels.encode_float16(chosen.data(), kept, out.data() + half);
  }

  static bool decode(const CodecKernels& kernels, std::span<const std::byte> bytes, std::span<float> out) {
    const std::size_t kept = kept_of(out.size());
    const std::size_t half = kept * sizeof(std::uint16_t);
    std::array<std::uint16_t, kKeptMax> positions;
    std::array<float, kKeptMax> chosen;
    std::memcpy(positions.data(), bytes.data(), half);
    if (!kernels.decode_float16(bytes.data() + half, kept, chosen.data())) return false;
    std::fill(out.begin(), out.end(), 0.0F);
    for (std::size_t i = 0; i < kept; ++i) {
      if (positions[i] >= out.size() || (i > 0 && positions[i] <= positions[i - 1])) return false;
      out[positions[i]] = chosen[i];
    }
    return true;
  }

  static double error_bound(double value_max, bool /*stochastic*/) {
    return std::max(value_max, float16_codec().error_bound(value_max, false));
  }
};

}  // namespace

const Codec& topk_codec(VectorLevel level) noexcept {
  return at_level<BlockCodec<Topk>>(level);
}

}  // namespace collab
