#include "sim/gossip_model.hpp"

#include "sim/grid_model.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::array<std::string_view, 3> kGossips = {"ring", "push_sum", "restart"};

}  // namespace

std::string_view name(Gossip how) noexcept {
  return kGossips[static_cast<std::size_t>(how)];
}

std::optional<Gossip> gossip_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kGossips.size(); ++i)
    if (kGossips[i] == name) return static_cast<Gossip>(i);
  return std::nullopt;
}

GossipModel::GossipModel(const GossipOptions& options)
    : options_(options), random_(options.seed), weights_(options.peers, 1.0) {
  for (std::size_t i = 0; i < options.peers; ++i) sums_.push_back(standard_normal(random_));
}

void GossipModel::round() {
  std::vector<bool> there;
  for (std::size_t i = 0; i < sums_.size(); ++i) there.push_back(!random_.chance(options_.absent));
  switch (options_.how) {
    case Gossip::ring: return ring(there);
    case Gossip::push_sum: return push(there);
    case Gossip::restart: return all_reduce(there);
  }
}

void GossipModel::ring(const std::vector<bool>& there) {
  const std::vector<double> before = sums_;
  const std::size_t n = before.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (!there[i]) continue;
    double sum = 0;
    int heard = 0;
    for (const std::size_t of : {i, (i + 1) % n, (i + n - 1) % n}) {
      if (!there[of]) continue;
      sum += before[of];
      ++heard;
    }
    sums_[i] = sum / heard;
  }
}

void GossipModel::push(const std::vector<bool>& there) {
  std::vector<double> sums = sums_;
  std::vector<double> weights = weights_;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const std::size_t to = random_.below(sums_.size());
    if (!there[i] || !there[to]) continue;
    sums[i] -= sums_[i] / 2;
    weights[i] -= weights_[i] / 2;
    sums[to] += sums_[i] / 2;
    weights[to] += weights_[i] / 2;
  }
  sums_ = std::move(sums);
  weights_ = std::move(weights);
}

void GossipModel::all_reduce(const std::vector<bool>& there) {
  if (std::find(there.begin(), there.end(), false) != there.end()) return;
  const double mean = std::accumulate(sums_.begin(), sums_.end(), 0.0) / static_cast<double>(sums_.size());
  std::fill(sums_.begin(), sums_.end(), mean);
}

double GossipModel::variance() const {
  const auto count = static_cast<double>(sums_.size());
  double mean = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) mean += sums_[i] / weights_[i] / count;
  double squares = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const double apart = sums_[i] / weights_[i] - mean;
    squares += apart * apart / count;
  }
  return squares;
}

}  // namespace collab::sim
