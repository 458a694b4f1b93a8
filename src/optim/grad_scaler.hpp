#pragma once
// The loss scale of mixed precision: so large that small gradients are no zeros in half precision.

#include "base/bytes.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <span>

namespace collab::optim {

struct GradScalerOptions {
  double initial = 65536;             ///< a power of two, as all that follow: scaling rounds nothing
  double largest = 16777216;          ///< it doubles no further; at least `initial`
  std::uint64_t double_after = 2000;  ///< microbatches in a row without an overflow; at least 1
};

/// One peer's own: what others scale by makes no difference, since the scale is out before anything is summed.
class GradScaler {
 public:
  /// Throws `Failure(usage)` for options out of range.
  explicit GradScaler(GradScalerOptions options = {});

  double scale() const noexcept { return scale_; }
  /// A microbatch whose loss was multiplied by `scale()` has ended. Overflowed: the scale halves, down to 1.
  void update(bool overflowed) noexcept;

  /// For a later process of this peer.
  Bytes state() const;
  /// Errors: `bad_request`, with nothing changed, for other bytes or a scale that is no power of two from 1 on.
  Result<> load(std::span<const std::byte> state);

 private:
  GradScalerOptions options_;
  double scale_;
  std::uint64_t clean_ = 0;  // microbatches since the scale changed
};

}  // namespace collab::optim
