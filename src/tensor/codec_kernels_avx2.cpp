// The codecs by AVX2 and F16C; the portable kernels do the last values.
#if defined(__x86_64__)
#include "tensor/codec_kernels.hpp"
#include "tensor/dynamic8_lookup.hpp"
#include "tensor/low_rank.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <immintrin.h>

namespace collab {
namespace {

COLLAB_TARGET_AVX2 inline __m256i load_codes(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
COLLAB_TARGET_AVX2 inline void store_codes(std::byte* to, __m256i codes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes);
}

/// The larger of each magnitude so far and the next; without their signs bits are ordered like magnitudes, NaN above
/// all.
COLLAB_TARGET_AVX2 inline __m256i more(__m256i doubled, __m256 values) {
  return _mm256_max_epu32(doubled, _mm256_slli_epi32(_mm256_castps_si256(values), 1));
}
COLLAB_TARGET_AVX2 inline bool finite(__m256i doubled) {
  return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_srli_epi32(doubled, 24), _mm256_set1_epi32(0xff))) == 0;
}

COLLAB_TARGET_AVX2 inline __m256i doubled_magnitudes(const float* values, std::size_t size) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (std::size_t i = 0; i < size; i += 32) {
    a = more(a, _mm256_loadu_ps(values + i));
    b = more(b, _mm256_loadu_ps(values + i + 8));
    c = more(c, _mm256_loadu_ps(values + i + 16));
    d = more(d, _mm256_loadu_ps(values + i + 24));
  }
  return _mm256_max_epu32(_mm256_max_epu32(a, b), _mm256_max_epu32(c, d));
}

COLLAB_TARGET_AVX2 bool all_finite_avx2(const float* values, std::size_t size) {
  constexpr std::size_t block = 4096;  // after which the answer may be given
  const std::size_t whole = size & ~std::size_t(31);
  for (std::size_t i = 0; i < whole; i += block)
    if (!finite(doubled_magnitudes(values + i, whole - i < block ? whole - i : block))) return false;
  return portable_kernels().all_finite(values + whole, size - whole);
}

COLLAB_TARGET_AVX2 inline __m256i copy_more(__m256i doubled, const std::byte* from, std::byte* into) {
  const __m256i codes = load_codes(from);
  store_codes(into, codes);
  return more(doubled, _mm256_castsi256_ps(codes));
}

/// One reading of the memory for both: what is copied comes from far away.
COLLAB_TARGET_AVX2 bool copy_finite_avx2(const std::byte* from, std::size_t size, std::byte* into) {
  const std::size_t bytes = size * sizeof(float);
  const std::size_t whole = bytes & ~std::size_t(127);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (std::size_t i = 0; i < whole; i += 128) {
    a = copy_more(a, from + i, into + i);
    b = copy_more(b, from + i + 32, into + i + 32);
    c = copy_more(c, from + i + 64, into + i + 64);
    d = copy_more(d, from + i + 96, into + i + 96);
  }
  const bool rest = portable_kernels().copy_finite(from + whole, (bytes - whole) / sizeof(float), into + whole);
  return finite(_mm256_max_epu32(_mm256_max_epu32(a, b), _mm256_max_epu32(c, d))) && rest;
}

COLLAB_TARGET_AVX2 float largest_avx2(const float* values, std::size_t size) {
  const std::size_t whole = size & ~std::size_t(31);
  alignas(32) std::array<std::uint32_t, 8> most;
  const __m256i magnitudes = _mm256_srli_epi32(doubled_magnitudes(values, whole), 1);
  _mm256_store_si256(reinterpret_cast<__m256i*>(most.data()), magnitudes);
  std::uint32_t bits = *std::max_element(most.begin(), most.end());
  for (std::size_t i = whole; i < size; ++i)
    bits = std::max(bits, std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU);
  return std::bit_cast<float>(bits);
}

/// The processor's own conversion. It rounds to nearest even whatever its modes are, and keeps subnormals.
COLLAB_TARGET_AVX2 inline __m128i to_float16(__m256 values) {
  const __m256 held = _mm256_max_ps(_mm256_min_ps(values, _mm256_set1_ps(65504)), _mm256_set1_ps(-65504));
  return _mm256_cvtps_ph(held, _MM_FROUND_TO_NEAREST_INT);
}

COLLAB_TARGET_AVX2 bool encode_float16_avx2(const float* values, std::size_t size, std::byte* out) {
  __m256i most = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const __m256 a = _mm256_loadu_ps(values + i);
    const __m256 b = _mm256_loadu_ps(values + i + 8);
    most = more(more(most, a), b);
    store_codes(out + 2 * i, _mm256_set_m128i(to_float16(b), to_float16(a)));
  }
  return finite(most) && portable_kernels().encode_float16(values + i, size - i, out + 2 * i);
}

/// kExponentBits: of the halves, whose exponents would be all ones if they were not finite.
template <int kExponentBits>
COLLAB_TARGET_AVX2 inline bool halves_finite(__m256i doubled) {
  const __m256i exponents = _mm256_srli_epi16(doubled, 16 - kExponentBits);
  return _mm256_movemask_epi8(_mm256_cmpeq_epi16(exponents, _mm256_set1_epi16((1 << kExponentBits) - 1))) == 0;
}

COLLAB_TARGET_AVX2 bool decode_float16_avx2(const std::byte* codes, std::size_t size, float* out) {
  __m256i most = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const __m256i halves = load_codes(codes + 2 * i);
    most = _mm256_max_epu16(most, _mm256_slli_epi16(halves, 1));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
    _mm256_storeu_ps(out + i + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
  }
  return halves_finite<5>(most) && portable_kernels().decode_float16(codes + 2 * i, size - i, out + i);
}

COLLAB_TARGET_AVX2 inline __m256i to_bfloat16(__m256 values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i held = _mm256_min_epi32(magnitude, _mm256_set1_epi32(0x7f7f0000));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(held, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(held, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i sign = _mm256_andnot_si256(_mm256_set1_epi32(0x7fffffff), bits);
  return _mm256_srli_epi32(_mm256_or_si256(rounded, sign), 16);
}

COLLAB_TARGET_AVX2 bool encode_bfloat16_avx2(const float* values, std::size_t size, std::byte* out) {
  __m256i most = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const __m256 a = _mm256_loadu_ps(values + i);
    const __m256 b = _mm256_loadu_ps(values + i + 8);
    most = more(more(most, a), b);
    const __m256i pairs = _mm256_packus_epi32(to_bfloat16(a), to_bfloat16(b));
    store_codes(out + 2 * i, _mm256_permute4x64_epi64(pairs, 0xd8));
  }
  return finite(most) && portable_kernels().encode_bfloat16(values + i, size - i, out + 2 * i);
}

COLLAB_TARGET_AVX2 inline __m256 from_bfloat16(__m128i halves) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

COLLAB_TARGET_AVX2 bool decode_bfloat16_avx2(const std::byte* codes, std::size_t size, float* out) {
  __m256i most = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const __m256i halves = load_codes(codes + 2 * i);
    most = _mm256_max_epu16(most, _mm256_slli_epi16(halves, 1));
    _mm256_storeu_ps(out + i, from_bfloat16(_mm256_castsi256_si128(halves)));
    _mm256_storeu_ps(out + i + 8, from_bfloat16(_mm256_extracti128_si256(halves, 1)));
  }
  return halves_finite<8>(most) && portable_kernels().decode_bfloat16(codes + 2 * i, size - i, out + i);
}

/// What packs leave in lanes of 128 bits, in the order of the values.
COLLAB_TARGET_AVX2 inline __m256i in_order(__m256i packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

COLLAB_TARGET_AVX2 inline __m256i to_linear8(const float* values, __m256 inverse) {
  const __m256 z = _mm256_mul_ps(_mm256_loadu_ps(values), inverse);
  return _mm256_cvtps_epi32(_mm256_mul_ps(z, _mm256_set1_ps(127)));
}

COLLAB_TARGET_AVX2 void encode_linear8_avx2(const float* values, std::size_t size, float scale, std::byte* out) {
  const __m256 inverse = _mm256_set1_ps(1.0F / scale);
  std::size_t i = 0;
  for (; i + 32 <= size; i += 32) {
    const __m256i ab = _mm256_packs_epi32(to_linear8(values + i, inverse), to_linear8(values + i + 8, inverse));
    const __m256i cd = _mm256_packs_epi32(to_linear8(values + i + 16, inverse), to_linear8(values + i + 24, inverse));
    store_codes(out + i, in_order(_mm256_packs_epi16(ab, cd)));
  }
  portable_kernels().encode_linear8(values + i, size - i, scale, out + i);
}

COLLAB_TARGET_AVX2 inline void from_linear8(__m128i codes, __m256 step, float* out) {
  _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), step));
  const __m128i rest = _mm_unpackhi_epi64(codes, codes);
  _mm256_storeu_ps(out + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(rest)), step));
}

COLLAB_TARGET_AVX2 bool decode_linear8_avx2(const std::byte* codes, std::size_t size, float scale, float* out) {
  const __m256 step = _mm256_set1_ps(scale * (1.0F / 127.0F));
  __m256i least = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 32 <= size; i += 32) {
    const __m256i in = load_codes(codes + i);
    least = _mm256_min_epi8(least, in);
    from_linear8(_mm256_castsi256_si128(in), step, out + i);
    from_linear8(_mm256_extracti128_si256(in, 1), step, out + i + 16);
  }
  const bool written = _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, _mm256_set1_epi8(-128))) == 0;
  return written && portable_kernels().decode_linear8(codes + i, size - i, scale, out + i);
}

/// Dynamic8Lookup::nearest; a code of -1 is left to a pack that saturates.
COLLAB_TARGET_AVX2 inline __m256i to_dynamic8(const float* values, __m256 inverse, const int* steps) {
  using Lookup = Dynamic8Lookup;
  const __m256i bits = _mm256_castps_si256(_mm256_mul_ps(_mm256_loadu_ps(values), inverse));
  const __m256i negative = _mm256_srai_epi32(bits, 31);  // 0 or -1
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i lowest = _mm256_set1_epi32(Lookup::kLowest);
  const __m256i highest = _mm256_set1_epi32(Lookup::kHighest);
  const __m256i w = _mm256_min_epi32(_mm256_max_epi32(_mm256_sub_epi32(magnitude, negative), lowest), highest);
  const __m256i bucket = _mm256_sub_epi32(_mm256_srli_epi32(w, Lookup::kShift), _mm256_set1_epi32(Lookup::kFirst));
  const __m256i step = _mm256_i32gather_epi32(steps, bucket, sizeof(int));
  const __m256i rank = _mm256_srli_epi32(_mm256_add_epi32(step, w), Lookup::kRankShift);
  const __m256i signed_rank = _mm256_sub_epi32(_mm256_xor_si256(rank, negative), negative);
  return _mm256_add_epi32(signed_rank, _mm256_set1_epi32(Lookup::kZeroCode));
}

COLLAB_TARGET_AVX2 void encode_dynamic8_avx2(const float* values, std::size_t size, float scale, std::byte* out) {
  const int* steps = reinterpret_cast<const int*>(dynamic8_lookup().steps().data());
  const __m256 inverse = _mm256_set1_ps(1.0F / scale);
  std::size_t i = 0;
  for (; i + 32 <= size; i += 32) {
    const __m256i a = to_dynamic8(values + i, inverse, steps);
    const __m256i b = to_dynamic8(values + i + 8, inverse, steps);
    const __m256i c = to_dynamic8(values + i + 16, inverse, steps);
    const __m256i d = to_dynamic8(values + i + 24, inverse, steps);
    store_codes(out + i, in_order(_mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d))));
  }
  portable_kernels().encode_dynamic8(values + i, size - i, scale, out + i);
}

}  // namespace

const CodecKernels& avx2_kernels() noexcept {
  static const CodecKernels kernels = {
      .all_finite = all_finite_avx2,
      .copy_finite = copy_finite_avx2,
      .largest = largest_avx2,
      .encode_float16 = encode_float16_avx2,
      .decode_float16 = decode_float16_avx2,
      .encode_bfloat16 = encode_bfloat16_avx2,
      .decode_bfloat16 = decode_bfloat16_avx2,
      .encode_linear8 = encode_linear8_avx2,
      .decode_linear8 = decode_linear8_avx2,
      .encode_dynamic8 = encode_dynamic8_avx2,
      .decode_dynamic8 = portable_kernels().decode_dynamic8,  // gathers take longer than loads one by one
      .low_rank = &kAvx2LowRank,
  };
  return kernels;
}

}  // namespace collab
#endif
