#include "monitor/loss_history.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace collab::monitor {

void LossCurve::note(std::uint64_t epoch, double loss) {
  fold(epoch / epochs_a_point_, {epoch, loss, loss, loss, 1});
  while (points_.size() > kPointsMax) halve();
}

void LossCurve::fold(std::uint64_t stretch, const LossPoint& point) {
  const auto [at, is_new] = points_.try_emplace(stretch, point);
  if (is_new) return;
  LossPoint& known = at->second;
  known.epoch = std::max(known.epoch, point.epoch);
  known.low = std::min(known.low, point.low);
  known.high = std::max(known.high, point.high);
  known.sum += point.sum;
  known.told += point.told;
}

void LossCurve::halve() {
  epochs_a_point_ *= 2;
  for (const auto& [stretch, point] : std::exchange(points_, {})) fold(stretch / 2, point);
}

std::vector<LossPoint> LossCurve::points() const {
  std::vector<LossPoint> out;
  out.reserve(points_.size());
  for (const auto& [stretch, point] : points_) out.push_back(point);
  return out;
}

void LossHistory::Told::note(const PeerId& peer, std::uint64_t epoch, double loss) {
  if (!std::isfinite(loss) || std::abs(loss) > kLossMax) return;
  const auto known = last_epoch.find(peer);
  if (known == last_epoch.end()) {
    if (last_epoch.size() == kPeersMax) return;
    last_epoch.emplace(peer, epoch);
  } else if (epoch <= known->second) {
    return;
  } else {
    known->second = epoch;
  }
  curve.note(epoch, loss);
}

void LossHistory::note_training(const PeerId& peer, std::uint64_t epoch, double loss) {
  training_.note(peer, epoch, loss);
}

void LossHistory::note_heldout(const PeerId& peer, std::uint64_t epoch, double loss) {
  heldout_.note(peer, epoch, loss);
}

}  // namespace collab::monitor
