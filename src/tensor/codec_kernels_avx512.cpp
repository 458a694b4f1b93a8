// AVX-512 where that is faster than AVX2: all else waits for memory already, or is arithmetic of few instructions.
#if defined(__x86_64__)
#include "tensor/codec_kernels.hpp"
#include "tensor/dynamic8_lookup.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <immintrin.h>

namespace collab {
namespace {

/// Byte by byte of the floats of the dynamic table: VBMI looks 64 bytes up at once, in tables of 128.
struct BytePlanes {
  BytePlanes() {
    const auto& table = dynamic8_lookup().table();
    for (std::size_t code = 0; code < table.size(); ++code)
      for (std::size_t i = 0; i < planes.size(); ++i)
        planes[i][code] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(table[code]) >> (8 * i));
  }
  alignas(64) std::array<std::array<std::uint8_t, 256>, sizeof(float)> planes;
};

/// `high`: which codes are 128 or more.
COLLAB_TARGET_AVX512 inline __m512i look_up(const std::array<std::uint8_t, 256>& plane, __m512i codes, __mmask64 high) {
  const __m512i a = _mm512_load_si512(&plane[0]), b = _mm512_load_si512(&plane[64]);
  const __m512i c = _mm512_load_si512(&plane[128]), d = _mm512_load_si512(&plane[192]);
  return _mm512_mask_blend_epi8(high, _mm512_permutex2var_epi8(a, codes, b), _mm512_permutex2var_epi8(c, codes, d));
}

COLLAB_TARGET_AVX512 inline void store_scaled(__m512i values, __m512 scale, float* out) {
  _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_castsi512_ps(values), scale));
}

COLLAB_TARGET_AVX512 void decode_dynamic8_avx512(const std::byte* codes, std::size_t size, float scale, float* out) {
  static const BytePlanes table;
  // Unpacking leaves the bytes of every fourth group of four values together; so groups are swapped before.
  const __m512i groups = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  constexpr __mmask16 all = 0xffff;  // without a mask g++ 12 warns of its own header
  const __m512 scales = _mm512_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    const __m512i in = _mm512_maskz_permutexvar_epi32(all, groups, _mm512_loadu_si512(codes + i));
    const __mmask64 high = _mm512_movepi8_mask(in);
    const __m512i a = look_up(table.planes[0], in, high), b = look_up(table.planes[1], in, high);
    const __m512i c = look_up(table.planes[2], in, high), d = look_up(table.planes[3], in, high);
    const __m512i ab = _mm512_unpacklo_epi8(a, b), ab_rest = _mm512_unpackhi_epi8(a, b);
    const __m512i cd = _mm512_unpacklo_epi8(c, d), cd_rest = _mm512_unpackhi_epi8(c, d);
    store_scaled(_mm512_unpacklo_epi16(ab, cd), scales, out + i);
    store_scaled(_mm512_unpackhi_epi16(ab, cd), scales, out + i + 16);
    store_scaled(_mm512_unpacklo_epi16(ab_rest, cd_rest), scales, out + i + 32);
    store_scaled(_mm512_unpackhi_epi16(ab_rest, cd_rest), scales, out + i + 48);
  }
  portable_kernels().decode_dynamic8(codes + i, size - i, scale, out + i);
}

}  // namespace

const CodecKernels& avx512_kernels() noexcept {
  static const CodecKernels kernels = [] {
    CodecKernels faster = avx2_kernels();
    faster.decode_dynamic8 = decode_dynamic8_avx512;
    return faster;
  }();
  return kernels;
}

}  // namespace collab
#endif
