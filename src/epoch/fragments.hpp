#pragma once
// A vector whose parts take turns: one of them in each epoch.

#include "tensor/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace collab::epoch {

/// Parts are of one length, so that all rounds are of one size, but for the last: what it lacks is nobody's.
class Fragments {
 public:
  /// `parts`: at least 1.
  Fragments(std::size_t values, std::uint64_t parts) : values_(values), parts_(parts) {}

  std::size_t length() const noexcept { return values_ / parts_ + (values_ % parts_ == 0 ? 0 : 1); }
  Range part(std::uint64_t epoch) const noexcept {
    const std::size_t begin = std::min(values_, epoch % parts_ * length());
    return {begin, std::min(length(), values_ - begin)};
  }

 private:
  std::size_t values_;
  std::uint64_t parts_;
};

}  // namespace collab::epoch
