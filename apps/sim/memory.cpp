#include "memory.hpp"

#include <cstddef>
#include <cstdint>
#include <malloc.h>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace collab::sim {
namespace {

constexpr int kHeapBytes = 1 << 30;               // of addresses, not of memory: only what is touched is there
constexpr std::size_t kFillingBytes = 64 << 10U;  // less than what the system is asked for apart
constexpr std::size_t kFillingMax = 64;
constexpr std::uintptr_t kPageBytes = std::uintptr_t(2) << 20U;

}  // namespace

void use_large_pages() {
  mallopt(M_TRIM_THRESHOLD, kHeapBytes);
  mallopt(M_TOP_PAD, kHeapBytes);
  const auto before = reinterpret_cast<std::uintptr_t>(sbrk(0));
  std::vector<std::unique_ptr<std::byte[]>> filling;  // until the heap has to grow, by all of that at once
  while (reinterpret_cast<std::uintptr_t>(sbrk(0)) == before && filling.size() < kFillingMax)
    filling.push_back(std::make_unique<std::byte[]>(kFillingBytes));
  const std::uintptr_t first = (before + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto last = reinterpret_cast<std::uintptr_t>(sbrk(0));
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // else it is merely slower
}

}  // namespace collab::sim
