#include "epoch/local_steps.hpp"

#include "tensor/view.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace collab::epoch {

LocalSteps::LocalSteps(std::span<const float> parameters, const node::Mode& mode)
    : rate_(mode.outer_rate),
      momentum_kept_(mode.outer_momentum),
      agreed_(parameters.begin(), parameters.end()),
      counted_(agreed_),
      momentum_(mode.outer_momentum > 0 ? parameters.size() : 0, 0.0F) {}

void LocalSteps::hand_over(std::span<const float> parameters, std::span<float> fallen) {
  assert(parameters.size() == counted_.size() && fallen.size() == counted_.size());
  for (std::size_t i = 0; i < fallen.size(); ++i) {
    fallen[i] = counted_[i] - parameters[i];
    counted_[i] = parameters[i];
  }
}

void LocalSteps::give_back(std::span<const float> fallen) {
  assert(fallen.size() == counted_.size());
  for (std::size_t i = 0; i < fallen.size(); ++i) counted_[i] += fallen[i];
}

/// Equal bits on every machine: float64 in fixed order, rounded once per value.
LocalSteps::Moved LocalSteps::moved(std::size_t i, float averaged) const {
  if (momentum_.empty()) return {static_cast<float>(agreed_[i] - rate_ * averaged), 0};
  const auto momentum = static_cast<float>(momentum_kept_ * momentum_[i] + averaged);
  const double fall = averaged + momentum_kept_ * momentum;
  return {static_cast<float>(agreed_[i] - rate_ * fall), momentum};
}

Result<> LocalSteps::step(std::span<const float> averaged) {
  assert(averaged.size() == agreed_.size());
  for (std::size_t i = 0; i < agreed_.size(); ++i) {
    const Moved to = moved(i, averaged[i]);
    if (!std::isfinite(to.parameter) || !std::isfinite(to.momentum)) return Errc::bad_request;
  }
  for (std::size_t i = 0; i < agreed_.size(); ++i) {
    const Moved to = moved(i, averaged[i]);
    agreed_[i] = to.parameter;
    if (!momentum_.empty()) momentum_[i] = to.momentum;
  }
  return {};
}

void LocalSteps::adopt(std::span<float> parameters) {
  assert(parameters.size() == counted_.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool stayed = parameters[i] == counted_[i];
    parameters[i] = stayed ? agreed_[i] : parameters[i] + (agreed_[i] - counted_[i]);
    counted_[i] = agreed_[i];
  }
}

void LocalSteps::load(std::span<const float> agreed, std::span<const float> momentum) {
  assert(agreed.size() == agreed_.size() && momentum.size() == momentum_.size());
  std::copy(agreed.begin(), agreed.end(), agreed_.begin());
  std::copy(agreed.begin(), agreed.end(), counted_.begin());
  std::copy(momentum.begin(), momentum.end(), momentum_.begin());
}

}  // namespace collab::epoch
