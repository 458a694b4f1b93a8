#pragma once
// A promise of the protocol that a simulated run did not keep.

#include "base/clock.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace collab::sim {

struct Violation {
  std::string invariant;  ///< agree, atomic, mean, owed, begin, units, ledger, live, rejoin, owners, clean,
                          ///< determinism, hang, livelock
  Duration at{};          ///< virtual time
  std::vector<std::size_t> peers;
  std::string text;
};

/// In the order in which they were found. The first ones tell; the rest follows from them and is only counted.
class Violations {
 public:
  static constexpr std::size_t kKept = 20;

  void add(Violation violation) {
    ++count_;
    if (kept_.size() < kKept) kept_.push_back(std::move(violation));
  }
  bool has(const std::string& invariant) const {
    return std::any_of(kept_.begin(), kept_.end(), [&](const Violation& one) { return one.invariant == invariant; });
  }
  const std::vector<Violation>& kept() const noexcept { return kept_; }
  std::size_t count() const noexcept { return count_; }

 private:
  std::vector<Violation> kept_;
  std::size_t count_ = 0;
};

}  // namespace collab::sim
