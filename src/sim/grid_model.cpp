#include "sim/grid_model.hpp"

#include "averaging/rule.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <utility>

namespace collab::sim {
namespace {

PeerId numbered(std::uint64_t number) {
  PeerId peer{};
  const Digest digest = Hasher("grid model peer").add(number).finish();
  std::copy(digest.begin(), digest.end(), peer.key.begin());
  return peer;
}

matchmaking::Schedule schedule_of(const GridModelOptions& options) {
  matchmaking::Grid grid;
  grid.id = Hasher("grid model").add(options.seed).finish();
  grid.radices = options.radices;
  std::vector<PeerId> peers;
  for (std::size_t i = 0; i < options.peers; ++i) peers.push_back(numbered(i));
  return {grid, std::move(peers), options.seed};
}

}  // namespace

double standard_normal(Random& random) {
  const double u = (static_cast<double>(random.next() >> 11U) + 0.5) * 0x1p-53;
  const double v = static_cast<double>(random.next() >> 11U) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

GridModel::GridModel(const GridModelOptions& options)
    : options_(options), random_(options.seed), schedule_(schedule_of(options)) {
  for (std::size_t i = 0; i < options.peers; ++i) {
    Walker walker;
    walker.id = numbered(i);
    walkers_.push_back(walker);
  }
  std::sort(walkers_.begin(), walkers_.end(), [](const Walker& a, const Walker& b) { return a.id < b.id; });
  for (Walker& walker : walkers_) {
    walker.value = walker.first = static_cast<float>(standard_normal(random_));
    if (summed()) walker.weight = walker.own_weight = 1 + random_.below(options.weight_max);
  }
}

std::vector<std::vector<std::size_t>> GridModel::draw_groups() {
  std::vector<std::size_t> order(walkers_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i % options_.radices.front() == 0) groups.emplace_back();
    groups.back().push_back(order[i]);
  }
  return groups;
}

std::vector<std::vector<std::size_t>> GridModel::cells() {
  std::map<matchmaking::Digits, std::vector<std::size_t>> by_digits;
  for (std::size_t i = 0; i < walkers_.size(); ++i) by_digits[schedule_.digits(walkers_[i].id, round_)].push_back(i);
  std::vector<std::vector<std::size_t>> cells;
  for (auto& [digits, members] : by_digits) cells.push_back(std::move(members));
  return cells;
}

std::uint32_t GridModel::dropped(std::size_t walker) const {
  return schedule_.dropped(walkers_[walker].id, round_);
}

void GridModel::round() {
  round_ = round_ % schedule_.rounds() + 1;
  ++rounds_;
  for (const auto& cell : options_.random_groups ? draw_groups() : cells()) meet(cell);
}

/// `cell`: who belongs here, by id. The voice of each previous group is the first of it.
void GridModel::meet(const std::vector<std::size_t>& cell) {
  std::vector<std::size_t> present;
  std::set<std::uint32_t> lacking;
  for (const std::size_t i : cell) {
    if (!options_.random_groups) lacking.insert(dropped(i));
    if (!random_.chance(options_.absent)) {
      present.push_back(i);
    } else if (summed()) {
      walkers_[i].whole = false;
    }
  }
  if (present.empty()) return;
  largest_group_ = std::max(largest_group_, present.size());
  ++groups_;
  std::vector<std::size_t> speaking;
  std::set<std::size_t> heard;
  for (const std::size_t i : present) {
    const Walker& walker = walkers_[i];
    const bool speaks = !summed() || rounds_ == 1 || (walker.whole && heard.insert(walker.previous).second);
    if (speaks) speaking.push_back(i);
  }
  if (!options_.random_groups) {
    const auto before = [&](std::size_t a, std::size_t b) { return dropped(a) < dropped(b); };
    std::stable_sort(speaking.begin(), speaking.end(), before);
    for (const std::size_t i : speaking) lacking.erase(dropped(i));
  }
  std::vector<averaging::WeightedPart> parts;
  std::uint64_t weight = 0;
  for (const std::size_t i : speaking) {
    parts.push_back({walkers_[i].weight, std::span(&walkers_[i].value, 1)});
    weight += walkers_[i].weight;
  }
  float mean = 0;
  if (!parts.empty()) averaging::weighted_mean().reduce(parts, std::span(&mean, 1));
  for (const std::size_t i : present) {
    Walker& walker = walkers_[i];
    walker.whole = !summed() || rounds_ == 1 || lacking.empty();
    if (rounds_ == 1) walker.counted = true;
    if (parts.empty()) continue;
    walker.value = mean;
    if (summed()) walker.weight = weight;
    walker.previous = groups_;
  }
}

double GridModel::variance() const {
  double sum = 0;
  double squares = 0;
  for (const Walker& walker : walkers_) sum += walker.value;
  const double mean = sum / static_cast<double>(walkers_.size());
  for (const Walker& walker : walkers_) squares += (walker.value - mean) * (walker.value - mean);
  return squares / static_cast<double>(walkers_.size());
}

std::size_t GridModel::complete() const {
  return static_cast<std::size_t>(
      std::count_if(walkers_.begin(), walkers_.end(), [](const Walker& walker) { return walker.whole; }));
}

bool GridModel::equal_bytes() const {
  const Walker* one = nullptr;
  for (const Walker& walker : walkers_) {
    if (!walker.whole) continue;
    if (one != nullptr && walker.value != one->value) return false;
    one = &walker;
  }
  return true;
}

double GridModel::max_relative_error() const {
  double sum = 0;
  double weights = 0;
  double largest = 0;
  for (const Walker& walker : walkers_) {
    if (!walker.counted) continue;
    sum += static_cast<double>(walker.own_weight) * walker.first;
    weights += static_cast<double>(walker.own_weight);
    largest = std::max(largest, std::abs(static_cast<double>(walker.first)));
  }
  double error = 0;
  for (const Walker& walker : walkers_)
    if (walker.whole) error = std::max(error, std::abs(walker.value - sum / weights) / largest);
  return error;
}

}  // namespace collab::sim
