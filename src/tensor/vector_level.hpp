#pragma once
// Which vector instructions this processor has. Loops over flat vectors that gain by it exist once for each level.

#include <array>
#include <cstdint>
#include <string_view>

// Before a function that is called only where its level works. What it calls in a loop must have the same, or be always
// inlined: a lambda does not inherit it.
#if defined(__x86_64__)
#define COLLAB_TARGET_AVX2 [[gnu::target("avx2,f16c")]]
#define COLLAB_TARGET_AVX512 [[gnu::target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]]
#endif

namespace collab {

/// Each contains those before it. Peers of all levels share a group, so a loop gives the same bits at each: the same
/// operations on more values at once, never fused or put in another order.
enum class VectorLevel : std::uint8_t {
  portable,  ///< what the compiler makes of plain loops: SSE2 on x86-64, NEON on AArch64
  avx2,      ///< and F16C
  avx512,    ///< F, BW, DQ, VL and VBMI: since Ice Lake and Zen 4, which do not lower their clock for it
};

inline constexpr std::array kVectorLevels = {VectorLevel::portable, VectorLevel::avx2, VectorLevel::avx512};

std::string_view name_of(VectorLevel level) noexcept;

/// The processor has the instructions, and the system keeps their registers.
bool works_here(VectorLevel level) noexcept;

/// The highest that works here.
VectorLevel best_level() noexcept;

}  // namespace collab
