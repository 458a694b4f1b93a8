#pragma once
// What a group must agree on before it may average: names, types, shapes, roles and order of the tensors.

#include "base/bytes.hpp"
#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace collab {

enum class DType : std::uint8_t { float32, float16, bfloat16, int64, uint8 };
std::size_t dtype_bytes(DType dtype) noexcept;  ///< of one value
std::string_view dtype_name(DType dtype) noexcept;

/// What a tensor is for; the codec follows from role and size.
enum class TensorRole : std::uint8_t { gradient, parameter, statistic, extra };

struct TensorInfo {
  std::string name;  ///< as in the exported file, e.g. "albert.pooler.weight"
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  TensorRole role = TensorRole::gradient;

  /// Product of the shape; 1 for a scalar. The shape is our own or was checked: no negative extent, no overflow.
  std::size_t values() const noexcept;
  bool operator==(const TensorInfo&) const = default;
};

/// An ordered list of tensors. Their values, one after the other as float32, are the flat vector.
struct Schema {
  std::vector<TensorInfo> tensors;

  std::size_t values() const noexcept;  ///< length of the flat vector, V
  /// The same bytes on every machine, each field preceded by its length: what is hashed and signed.
  Bytes canonical() const;
  bool operator==(const Schema&) const = default;
};

/// In words, the first entry, counted from 0, in which two schemas differ ("tensor 3: albert.pooler.weight is [128,
/// 128] here and [312, 312] there"); empty when they are equal.
std::string first_difference(const Schema& here, const Schema& there);

}  // namespace collab
