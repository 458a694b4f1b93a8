#include "optim/grad_scaler.hpp"

#include "crypto/fields.hpp"

#include <algorithm>
#include <bit>
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

Bytes GradScaler::state() const {
  FieldWriter writer;
  writer.add(std::bit_cast<std::uint64_t>(scale_)).add(clean_);
  return writer.finish();
}

Result<> GradScaler::load(std::span<const std::byte> state) {
  FieldReader reader(state);
  const double scale = std::bit_cast<double>(reader.take<std::uint64_t>());
  const auto clean = reader.take<std::uint64_t>();
  if (!reader.finish() || !is_power_of_two(scale)) return Errc::bad_request;
  scale_ = std::min(scale, options_.largest);
  clean_ = clean;
  return {};
}

}  // namespace collab::optim
