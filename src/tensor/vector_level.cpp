#include "tensor/vector_level.hpp"

#include <cassert>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace collab {
namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;  // clang 14 knows no "f16c" to ask for by name
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & unsigned(bit_F16C)) != 0;
}

VectorLevel highest_level() {
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return VectorLevel::portable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi");
  return avx512 ? VectorLevel::avx512 : VectorLevel::avx2;
}
#else
VectorLevel highest_level() {
  return VectorLevel::portable;
}
#endif

}  // namespace

std::string_view name_of(VectorLevel level) noexcept {
  switch (level) {
    case VectorLevel::portable: return "portable";
    case VectorLevel::avx2: return "avx2";
    case VectorLevel::avx512: return "avx512";
  }
  assert(false);
  return "";
}

bool works_here(VectorLevel level) noexcept {
  return level <= best_level();
}

VectorLevel best_level() noexcept {
  // Asked for every chunk: a virtual machine leaves to its host at each cpuid, which takes longer than a block.
  static const VectorLevel level = highest_level();
  return level;
}

}  // namespace collab
