#pragma once
// Seeds that no run has seen before, so that a suite which passes every day still looks for something new.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "support/doctest.hpp"

namespace collab::test {

/// `fixed` seeds from 1 and `fresh` new ones, which are printed. COLLAB_SEEDS=N: N seeds from 1 instead; COLLAB_SEED=N:
/// that one.
inline std::vector<std::uint64_t> fixed_and_fresh_seeds(std::uint64_t fixed, std::uint64_t fresh) {
  if (const char* wanted = std::getenv("COLLAB_SEEDS")) return seeds(std::strtoull(wanted, nullptr, 10));
  std::vector<std::uint64_t> all = seeds(fixed);
  if (std::getenv("COLLAB_SEED") != nullptr) return all;
  std::random_device device;
  std::printf("fresh seeds:");
  for (std::uint64_t i = 0; i < fresh; ++i) {
    all.push_back(device());
    std::printf(" %llu", static_cast<unsigned long long>(all.back()));
  }
  std::printf("\n");
  return all;
}

}  // namespace collab::test
