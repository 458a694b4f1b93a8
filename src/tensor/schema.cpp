#include "tensor/schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>

namespace collab {
namespace {

/// Fields one after the other, little endian, each after its length.
class FieldWriter {
 public:
  void number(std::uint64_t value) {
    raw(sizeof(value));
    raw(value);
  }
  void text(std::string_view value) {
    raw(value.size());
    const auto bytes = std::as_bytes(std::span(value));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  Bytes take() { return std::move(out_); }

 private:
  void raw(std::uint64_t value) {
    for (unsigned i = 0; i < sizeof(value); ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }

  Bytes out_;
};

std::string shape_text(const TensorInfo& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

std::string_view role_text(TensorRole role) {
  switch (role) {
    case TensorRole::gradient: return "a gradient";
    case TensorRole::parameter: return "a parameter";
    case TensorRole::statistic: return "a statistic";
    case TensorRole::extra: return "an extra";
  }
  return "unknown";
}

std::string tensor_difference(const TensorInfo& here, const TensorInfo& there) {
  if (here.name != there.name) return fmt::format("{} here and {} there", here.name, there.name);
  if (here.shape != there.shape)
    return fmt::format("{} is {} here and {} there", here.name, shape_text(here), shape_text(there));
  if (here.dtype != there.dtype)
    return fmt::format("{} is {} here and {} there", here.name, dtype_name(here.dtype), dtype_name(there.dtype));
  return fmt::format("{} is {} here and {} there", here.name, role_text(here.role), role_text(there.role));
}

}  // namespace

std::size_t dtype_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return 4;
    case DType::float16:
    case DType::bfloat16: return 2;
    case DType::int64: return 8;
    case DType::uint8: return 1;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
  }
  return "unknown";
}

std::size_t TensorInfo::values() const noexcept {
  std::size_t product = 1;
  for (const std::int64_t extent : shape) {
    assert(extent >= 0);
    const auto factor = static_cast<std::size_t>(extent);
    assert(factor == 0 || product <= std::numeric_limits<std::size_t>::max() / factor);
    product *= factor;
  }
  return product;
}

std::size_t Schema::values() const noexcept {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t(0),
                         [](std::size_t sum, const TensorInfo& tensor) { return sum + tensor.values(); });
}

Bytes Schema::canonical() const {
  FieldWriter writer;
  writer.text("schema");
  writer.number(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    writer.text(tensor.name);
    writer.number(static_cast<std::uint64_t>(tensor.dtype));
    writer.number(tensor.shape.size());
    for (const std::int64_t extent : tensor.shape) writer.number(static_cast<std::uint64_t>(extent));
    writer.number(static_cast<std::uint64_t>(tensor.role));
  }
  return writer.take();
}

std::string first_difference(const Schema& here, const Schema& there) {
  const std::size_t both = std::min(here.tensors.size(), there.tensors.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (here.tensors[i] != there.tensors[i])
      return fmt::format("tensor {}: {}", i, tensor_difference(here.tensors[i], there.tensors[i]));
  }
  if (here.tensors.size() > both) return fmt::format("tensor {}: {} is only here", both, here.tensors[both].name);
  if (there.tensors.size() > both) return fmt::format("tensor {}: {} is only there", both, there.tensors[both].name);
  return "";
}

}  // namespace collab
