// AVX-512 where that is faster than AVX2: for the look-ups of dynamic8. All other loops wait for memory with both.
#if defined(__x86_64__)
#include "tensor/codec_kernels.hpp"
#include "tensor/dynamic8_lookup.hpp"
#include "tensor/low_rank.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <immintrin.h>

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 of the operands that its own header leaves undefined
#endif

namespace collab {
namespace {

/// 256 words byte by byte: VBMI looks 64 bytes up at once, in tables of 128.
struct BytePlanes {
  explicit BytePlanes(const auto& words) {
    for (std::size_t i = 0; i < words.size(); ++i)
      for (std::size_t plane = 0; plane < planes.size(); ++plane)
        planes[plane][i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(words[i]) >> (8 * plane));
  }
  alignas(64) std::array<std::array<std::uint8_t, 256>, sizeof(float)> planes{};
};

/// `high`: which indices are 128 or more.
COLLAB_TARGET_AVX512 inline __m512i look_up(const std::array<std::uint8_t, 256>& plane, __m512i indices,
                                            __mmask64 high) {
  const __m512i a = _mm512_load_si512(&plane[0]), b = _mm512_load_si512(&plane[64]);
  const __m512i c = _mm512_load_si512(&plane[128]), d = _mm512_load_si512(&plane[192]);
  return _mm512_mask_blend_epi8(high, _mm512_permutex2var_epi8(a, indices, b), _mm512_permutex2var_epi8(c, indices, d));
}

/// Four vectors of words. Packed to bytes they mix: each lane of 128 bits has four bytes of each.
struct Words {
  __m512i a, b, c, d;
};

/// The words at `indices`, of which each lane's first four go to a, the next to b.
COLLAB_TARGET_AVX512 inline Words look_up(const BytePlanes& words, __m512i indices) {
  const __mmask64 high = _mm512_movepi8_mask(indices);
  const __m512i first = look_up(words.planes[0], indices, high), second = look_up(words.planes[1], indices, high);
  const __m512i third = look_up(words.planes[2], indices, high), fourth = look_up(words.planes[3], indices, high);
  const __m512i low = _mm512_unpacklo_epi8(first, second), low_rest = _mm512_unpackhi_epi8(first, second);
  const __m512i high_half = _mm512_unpacklo_epi8(third, fourth), high_rest = _mm512_unpackhi_epi8(third, fourth);
  return {_mm512_unpacklo_epi16(low, high_half), _mm512_unpackhi_epi16(low, high_half),
          _mm512_unpacklo_epi16(low_rest, high_rest), _mm512_unpackhi_epi16(low_rest, high_rest)};
}

/// The reverse, for words of -1 (which is written as 0) to 255.
COLLAB_TARGET_AVX512 inline __m512i pack(const Words& words) {
  return _mm512_packus_epi16(_mm512_packs_epi32(words.a, words.b), _mm512_packs_epi32(words.c, words.d));
}

/// Between 64 bytes in order and those that lie as `pack` and `look_up` have them: four by four groups change places.
COLLAB_TARGET_AVX512 inline __m512i swap_groups(__m512i bytes) {
  const __m512i groups = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(groups, bytes);
}

/// Dynamic8Lookup with 256 buckets: for each exponent only as many bits of the fraction as keep midpoints apart.
class FewBuckets {
 public:
  static const FewBuckets& get() {
    static const FewBuckets buckets;
    return buckets;
  }

  /// Dynamic8Lookup::magnitude of z, but for those a little above 1: they are in the bucket of 1.
  COLLAB_TARGET_AVX512 static __m512i magnitude(__m512i z) {
    const __m512i magnitude = _mm512_and_si512(z, _mm512_set1_epi32(0x7fffffff));
    const __m512i w = _mm512_add_epi32(magnitude, _mm512_srli_epi32(z, 31));
    return _mm512_max_epi32(w, _mm512_set1_epi32(Dynamic8Lookup::kLowest));
  }
  COLLAB_TARGET_AVX512 __m512i bucket(__m512i magnitude) const {
    const __m512i exponent = _mm512_srli_epi32(magnitude, 23);  // of which the look-up takes the last five bits
    const __m512i entry =
        _mm512_permutex2var_epi32(_mm512_load_si512(&exponents_[0]), exponent, _mm512_load_si512(&exponents_[16]));
    const __m512i shift = _mm512_and_si512(entry, _mm512_set1_epi32(31));
    return _mm512_add_epi32(_mm512_srlv_epi32(magnitude, shift), _mm512_srai_epi32(entry, 5));
  }
  const BytePlanes& steps() const { return steps_; }

 private:
  FewBuckets() : steps_(fill()) {}
  std::array<std::uint32_t, 256> fill();

  /// By the last five bits of the exponent: 32·first + shift, where the bucket is first + (magnitude >> shift).
  alignas(64) std::array<std::int32_t, 32> exponents_{};
  BytePlanes steps_;
};

std::array<std::uint32_t, 256> FewBuckets::fill() {
  constexpr std::int32_t exponent_step = 1 << 23;
  const Dynamic8Lookup& lookup = dynamic8_lookup();
  std::array<std::uint32_t, 256> steps{};
  std::size_t size = 0;
  for (std::int32_t begin = Dynamic8Lookup::kLowest; begin <= Dynamic8Lookup::kHighest; begin += exponent_step) {
    const std::int32_t end = begin + exponent_step;
    int shift = 23;
    for (std::int32_t at = begin; at < end; at += 1 << shift) {
      while (!lookup.fits(at, shift)) --shift;  // those before fit all the more
    }
    const std::int32_t first = static_cast<std::int32_t>(size) - (begin >> shift);
    exponents_[static_cast<std::size_t>(begin >> 23) % exponents_.size()] = first * 32 + shift;
    for (std::int32_t at = begin; at < end; at += 1 << shift) {
      assert(size < steps.size());
      steps[size++] = lookup.step(at, shift);
    }
  }
  return steps;
}

/// Dynamic8Lookup::code; -1 is left to `pack`.
COLLAB_TARGET_AVX512 inline __m512i to_dynamic8(__m512i z, __m512i magnitude, __m512i step) {
  const __m512i rank = _mm512_srli_epi32(_mm512_add_epi32(step, magnitude), Dynamic8Lookup::kRankShift);
  const __m512i zero = _mm512_set1_epi32(Dynamic8Lookup::kZeroCode);
  return _mm512_mask_sub_epi32(_mm512_add_epi32(zero, rank), _mm512_movepi32_mask(z), zero, rank);
}

COLLAB_TARGET_AVX512 inline __m512i scaled(const float* values, __m512 scale) {
  return _mm512_castps_si512(_mm512_mul_ps(_mm512_loadu_ps(values), scale));
}

COLLAB_TARGET_AVX512 void encode_dynamic8_avx512(const float* values, std::size_t size, float scale, std::byte* out) {
  const FewBuckets& few = FewBuckets::get();
  const __m512 inverse = _mm512_set1_ps(1.0F / scale);
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    const Words z = {scaled(values + i, inverse), scaled(values + i + 16, inverse), scaled(values + i + 32, inverse),
                     scaled(values + i + 48, inverse)};
    const Words w = {few.magnitude(z.a), few.magnitude(z.b), few.magnitude(z.c), few.magnitude(z.d)};
    const __m512i buckets = pack({few.bucket(w.a), few.bucket(w.b), few.bucket(w.c), few.bucket(w.d)});
    const Words step = look_up(few.steps(), buckets);
    const __m512i codes = pack({to_dynamic8(z.a, w.a, step.a), to_dynamic8(z.b, w.b, step.b),
                                to_dynamic8(z.c, w.c, step.c), to_dynamic8(z.d, w.d, step.d)});
    _mm512_storeu_si512(out + i, swap_groups(codes));
  }
  portable_kernels().encode_dynamic8(values + i, size - i, scale, out + i);
}

COLLAB_TARGET_AVX512 inline void store_scaled(__m512i values, __m512 scale, float* out) {
  _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_castsi512_ps(values), scale));
}

COLLAB_TARGET_AVX512 void decode_dynamic8_avx512(const std::byte* codes, std::size_t size, float scale, float* out) {
  static const BytePlanes table(dynamic8_lookup().table());
  const __m512 scales = _mm512_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    const Words values = look_up(table, swap_groups(_mm512_loadu_si512(codes + i)));
    store_scaled(values.a, scales, out + i);
    store_scaled(values.b, scales, out + i + 16);
    store_scaled(values.c, scales, out + i + 32);
    store_scaled(values.d, scales, out + i + 48);
  }
  portable_kernels().decode_dynamic8(codes + i, size - i, scale, out + i);
}

}  // namespace

const CodecKernels& avx512_kernels() noexcept {
  static const CodecKernels kernels = [] {
    CodecKernels faster = avx2_kernels();
    faster.encode_dynamic8 = encode_dynamic8_avx512;
    faster.decode_dynamic8 = decode_dynamic8_avx512;
    faster.low_rank = &kAvx512LowRank;
    return faster;
  }();
  return kernels;
}

}  // namespace collab

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
