// Payloads come from strangers: decode() takes any bytes; what it accepts is finite, and survives encoding again within
// the codec's bound.
#include "support.hpp"
#include "tensor/codec.hpp"
#include "tensor/view.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace collab::fuzz::codec_target {

/// Two tensors of up to 8191 values, each with its codec, from the first five bytes.
CodecMap make_map(std::span<const std::byte> head) {
  const auto number = [&](std::size_t i) { return std::to_integer<std::int64_t>(head[i]); };
  CodecOptions options;
  options.coarse_values_min = 0;
  options.gradient = static_cast<CodecId>(number(0) % 5);
  options.extra = static_cast<CodecId>(number(0) / 5 % 5);
  if (number(0) >= 25) options.gradient_parts = kCodecIds[static_cast<std::size_t>(number(0)) % kCodecIds.size()];
  const Schema schema = {{{"a", DType::float32, {(number(1) | number(2) << 8) % 8192}, TensorRole::gradient},
                          {"b", DType::float32, {(number(3) | number(4) << 8) % 8192}, TensorRole::extra}}};
  return CodecMap(schema, options);
}

void check(const CodecMap& map, std::span<const std::byte> bytes) {
  std::vector<float> values(map.length());
  if (!map.decode(bytes, 0, values)) return;
  if (!all_finite(values)) std::abort();
  const auto again = map.encode(values, 0, {});
  std::vector<float> back(values.size());
  if (!again || !map.decode(*again, 0, back)) std::abort();
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double(value)));
  const double bound = map.error_bound({0, map.length()}, largest, false);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::abs(double(back[i]) - double(values[i])) > bound) std::abort();
}

COLLAB_FUZZ_TARGET(codec) {
  constexpr std::size_t head_bytes = 5;
  if (size < head_bytes) return 0;
  const auto input = std::as_bytes(std::span(data, size));
  const CodecMap both = make_map(input);
  const CodecMap& map = both.parts();
  check(map, input.subspan(head_bytes));
  // Most sizes are wrong: see what the same bytes say at the right one.
  std::vector<std::byte> fitted(input.begin() + head_bytes, input.end());
  fitted.resize(map.encoded_bytes({0, map.length()}));
  check(map, fitted);
  return 0;
}

}  // namespace collab::fuzz::codec_target
