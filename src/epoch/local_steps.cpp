#include "epoch/local_steps.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace collab::epoch {

LocalSteps::LocalSteps(std::span<const float> parameters, const node::Mode& mode)
    : rate_(mode.outer_rate),
      momentum_kept_(mode.outer_momentum),
      mix_(mode.mix),
      fragments_(parameters.size(), mode.fragments),
      agreed_(parameters.begin(), parameters.end()),
      counted_(agreed_),
      momentum_(mode.outer_momentum > 0 ? parameters.size() : 0, 0.0F) {
  if (!mode.keeps_apart()) return;
  begun_ = agreed_;
  begun_known_ = true;
}

void LocalSteps::hand_over(std::uint64_t epoch, std::span<const float> parameters, std::span<float> fallen) {
  assert(parameters.size() == counted_.size() && fallen.size() == carried());
  const Range part = fragments_.part(epoch);
  for (std::size_t i = 0; i < part.size; ++i) {
    fallen[i] = counted_[part.begin + i] - parameters[part.begin + i];
    counted_[part.begin + i] = parameters[part.begin + i];
  }
  std::fill(fallen.begin() + static_cast<std::ptrdiff_t>(part.size), fallen.end(), 0.0F);
  if (begun_.empty()) return;
  std::copy(parameters.begin(), parameters.end(), begun_.begin());
  begun_known_ = true;
}

void LocalSteps::give_back(std::uint64_t epoch, std::span<const float> fallen) {
  assert(fallen.size() == carried());
  const Range part = fragments_.part(epoch);
  for (std::size_t i = 0; i < part.size; ++i) counted_[part.begin + i] += fallen[i];
  begun_known_ = false;
}

/// Equal bits on every machine: float64 in fixed order, rounded once per value.
LocalSteps::Moved LocalSteps::moved(std::size_t i, float averaged) const {
  if (momentum_.empty()) return {static_cast<float>(agreed_[i] - rate_ * averaged), 0};
  const auto momentum = static_cast<float>(momentum_kept_ * momentum_[i] + averaged);
  const double fall = averaged + momentum_kept_ * momentum;
  return {static_cast<float>(agreed_[i] - rate_ * fall), momentum};
}

Result<> LocalSteps::step(std::uint64_t epoch, std::span<const float> averaged) {
  assert(averaged.size() == carried());
  const Range part = fragments_.part(epoch);
  stepped_ = part;
  for (std::size_t i = 0; i < part.size; ++i) {
    const Moved to = moved(part.begin + i, averaged[i]);
    if (!std::isfinite(to.parameter) || !std::isfinite(to.momentum)) return Errc::bad_request;
  }
  for (std::size_t i = 0; i < part.size; ++i) {
    const Moved to = moved(part.begin + i, averaged[i]);
    agreed_[part.begin + i] = to.parameter;
    if (!momentum_.empty()) momentum_[part.begin + i] = to.momentum;
  }
  return {};
}

float LocalSteps::merged(float own, std::size_t i) const {
  const float target = mix_ == 1 ? agreed_[i] : static_cast<float>((1 - mix_) * counted_[i] + mix_ * agreed_[i]);
  return own == counted_[i] ? target : own + (target - counted_[i]);
}

void LocalSteps::adopt(std::span<float> parameters) {
  assert(parameters.size() == counted_.size());
  const Range part = std::exchange(stepped_, std::nullopt).value_or(Range{});
  for (std::size_t i = part.begin; i < part.end(); ++i) {
    parameters[i] = merged(parameters[i], i);
    if (!begun_.empty()) begun_[i] = merged(begun_[i], i);
    counted_[i] = agreed_[i];
  }
}

void LocalSteps::load(std::span<const float> agreed, std::span<const float> momentum) {
  assert(agreed.size() == agreed_.size() && momentum.size() == momentum_.size());
  std::copy(agreed.begin(), agreed.end(), agreed_.begin());
  std::copy(agreed.begin(), agreed.end(), counted_.begin());
  std::copy(momentum.begin(), momentum.end(), momentum_.begin());
  stepped_.reset();
  begin_at(agreed);
}

void LocalSteps::begin_at(std::span<const float> parameters) {
  if (begun_.empty()) return;
  std::copy(parameters.begin(), parameters.end(), begun_.begin());
  begun_known_ = true;
}

}  // namespace collab::epoch
