#pragma once
// The loops of the codecs, once for each level of vector instructions. All levels give the same bits.

#include "tensor/vector_level.hpp"

#include <array>
#include <cassert>
#include <cstddef>

namespace collab {

struct LowRankKernels;

/// Pointers are to `size` values or codes, may lie anywhere, and do not overlap.
struct CodecKernels {
  bool (*all_finite)(const float* values, std::size_t size);
  /// Copies `size` values as they are. False: one is NaN or infinite, and what was written means nothing.
  bool (*copy_finite)(const std::byte* from, std::size_t size, std::byte* into);

  /// Largest |value|; NaN or infinite when one of them is.
  float (*largest)(const float* values, std::size_t size);

  // False: a value is NaN or infinite, and what was written means nothing.
  bool (*encode_float16)(const float* values, std::size_t size, std::byte* out);
  bool (*decode_float16)(const std::byte* codes, std::size_t size, float* out);
  bool (*encode_bfloat16)(const float* values, std::size_t size, std::byte* out);
  bool (*decode_bfloat16)(const std::byte* codes, std::size_t size, float* out);

  // `scale` is in [2^-126, largest float], and for encoding the largest |value|.
  void (*encode_linear8)(const float* values, std::size_t size, float scale, std::byte* out);
  /// False: there is a code that encode never writes, -128.
  bool (*decode_linear8)(const std::byte* codes, std::size_t size, float scale, float* out);
  void (*encode_dynamic8)(const float* values, std::size_t size, float scale, std::byte* out);
  void (*decode_dynamic8)(const std::byte* codes, std::size_t size, float scale, float* out);

  const LowRankKernels* low_rank;  ///< of powersgd
};

/// To be called only where `level` works.
const CodecKernels& codec_kernels(VectorLevel level) noexcept;

const CodecKernels& portable_kernels() noexcept;
/// The `Kind` of codec that works by the kernels of `level`, which works here.
template <class Kind>
const Kind& at_level(VectorLevel level) {
  static const std::array<Kind, kVectorLevels.size()> codecs = {Kind(codec_kernels(VectorLevel::portable)),
                                                                Kind(codec_kernels(VectorLevel::avx2)),
                                                                Kind(codec_kernels(VectorLevel::avx512))};
  assert(works_here(level));
  return codecs[static_cast<std::size_t>(level)];
}

#if defined(__x86_64__)
const CodecKernels& avx2_kernels() noexcept;
const CodecKernels& avx512_kernels() noexcept;
#endif

}  // namespace collab
