#include "optim/grad_scaler.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>

namespace collab::optim {
namespace {

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::isfinite(value) && value >= 1 && std::frexp(value, &exponent) == 0.5;
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options), scale_(options.initial) {
  if (is_power_of_two(options.initial) && is_power_of_two(options.largest) && options.initial <= options.largest &&
      options.double_after > 0) {
    return;
  }
  throw Failure(ExitCode::usage, "the loss scale and its bound are powers of two from 1 on, and it doubles after some",
                "leave them as they are");
}

void GradScaler::update(bool overflowed) noexcept {
  ++clean_;
  if (!overflowed && clean_ < options_.double_after) return;
  scale_ = overflowed ? std::max(1.0, scale_ / 2) : std::min(options_.largest, scale_ * 2);
  clean_ = 0;
}

}  // namespace collab::optim
