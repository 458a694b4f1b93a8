#include "net/line.hpp"

#include <algorithm>
#include <utility>

namespace collab::net {
namespace {

// of a pace
constexpr double kGrow = 0.985;   // so much came through: there is room for more
constexpr double kKept = 0.97;    // so much is as good as all of it
constexpr double kEase = 0.97;    // to this, when it was kept so barely that something queues
constexpr double kHeldUp = 0.9;   // less: perhaps a packet was lost, so half a second more is looked at
constexpr double kBehind = 0.8;   // less: others may use what it leaves,
constexpr double kLeeway = 1.25;  // but for what it may win back before the next look
constexpr double kStuck = 0.25;   // less is no matter of the line
// of what came through a full line
constexpr double kBelowFull = 0.95;   // for a window: as much less as was too much before
constexpr double kAfterwards = 0.98;  // and then
constexpr double kFloor = 0.85;       // of the best of late
constexpr double kFades = 0.99;       // the best, with each window
// faster
constexpr double kClimb = 0.05;        // as long as it is below what was full
constexpr double kStepFirst = 0.013;   // beyond that; the next step is longer,
constexpr double kStepGrowth = 1.5;    // by so much,
constexpr double kStepMost = 0.1;      // up to this: it has become faster
constexpr double kStepUnpaced = 0.04;  // after TCP alone had found its way
constexpr double kLoosen = 1.25;       // after flows that were over before a window was

}  // namespace

std::vector<double> Line::look(TimePoint now, std::span<const Flow> flows) {
  if (flows.empty()) {
    if (!seen_.empty() && !std::exchange(told_, false)) pace_ = std::min(kLoosen * pace_, options_.paced_max);
    seen_.clear();
    return {};
  }
  if (seen_.empty() && now - looked_ > options_.remembered) step_ = kStepMost;
  looked_ = now;
  const bool all_wait = std::all_of(flows.begin(), flows.end(), [](const Flow& flow) { return flow.waiting; });
  told_ = told_ || !all_wait;
  if (is_new(flows)) {
    begin_window(now + options_.settle, false, flows);
    for (auto& [id, seen] : seen_) seen.rate = kUnpaced;  // that was by other paces
  } else if (!all_wait) {
    begin_window(now + options_.settle, false, flows);
  } else if (!counts_) {
    if (now >= began_) begin_window(now, true, flows);
  } else if (now - began_ >= options_.window) {
    const bool paced = is_paced(flows.size());
    const Window window = measure(now, flows);
    if (!paced || window.ratio >= kHeldUp || now - began_ >= 2 * options_.window) {
      learn(window, paced);
      begin_window(now, true, flows);
    }
  }
  return deal(flows);
}

bool Line::is_paced(std::size_t flows) const {
  return pace_ > 0 && pace_ < options_.paced_max && pace_ >= options_.paced_min * static_cast<double>(flows);
}

/// Whether these are other flows than at the last look.
bool Line::is_new(std::span<const Flow> flows) const {
  return flows.size() != seen_.size() ||
         std::any_of(flows.begin(), flows.end(), [this](const Flow& flow) { return !seen_.contains(flow.id); });
}

void Line::begin_window(TimePoint at, bool counts, std::span<const Flow> flows) {
  began_ = at;
  counts_ = counts;
  const auto before = std::exchange(seen_, {});
  for (const Flow& flow : flows) {
    const auto known = before.find(flow.id);
    Seen& seen = seen_[flow.id];
    if (known != before.end()) seen = known->second;
    seen.before = flow.delivered;
  }
}

Line::Window Line::measure(TimePoint now, std::span<const Flow> flows) {
  const double seconds = to_seconds(now - began_);
  Window window;
  double planned = 0;
  double paces = 0;
  double rates = 0;
  for (const Flow& flow : flows) {
    Seen& seen = seen_.at(flow.id);
    seen.rate = static_cast<double>(flow.delivered - std::min(flow.delivered, seen.before)) / seconds;
    window.bytes_per_s += seen.rate;
    planned += flow.planned_bytes;
    if (seen.rate >= kKept * seen.pace) window.kept += flow.planned_bytes;
    if (seen.rate < kStuck * seen.pace) continue;
    paces += seen.pace;
    rates += seen.rate;
  }
  window.kept /= planned;
  if (paces > 0) window.ratio = rates / paces;
  return window;
}

void Line::learn(const Window& window, bool paced) {
  told_ = true;
  if (window.bytes_per_s <= 0) return;
  const double before = std::exchange(before_, window.bytes_per_s);
  const double came = paced ? std::min(window.bytes_per_s, pace_) : window.bytes_per_s;
  const double came_before = std::exchange(came_, came);
  if (came_before > 0) best_ = std::max(kFades * best_, (came_before + came) / 2);
  if (!paced) {  // TCP takes a while to find its rate
    if (before > 0) pace_ = full_ = std::max(before, window.bytes_per_s);
    step_ = kStepUnpaced;
  } else if (const auto doubt = std::exchange(doubt_, std::nullopt)) {
    full_ = (before + window.bytes_per_s) / 2;
    pace_ = kAfterwards * full_;
    if (full_ >= kKept * doubt->pace) {  // it was not full: something had been held up
      full_ = std::max(doubt->full, doubt->pace);
      pace_ = doubt->pace;
    }
  } else if (window.kept > 0.5) {
    if (window.ratio >= kGrow) return grow();
    full_ = pace_ * window.ratio;
    pace_ *= kEase;
    step_ = kStepFirst;
  } else if (window.ratio < kKept) {
    doubt_ = Doubt{pace_, full_};
    full_ = pace_ * window.ratio;
    pace_ = kBelowFull * full_;
    step_ = kStepFirst;
  }
  pace_ = std::max(pace_, kFloor * best_);
}

void Line::grow() {
  const bool below = pace_ * (1 + kClimb) < full_;
  if (!below) step_ = std::min(kStepGrowth * step_, kStepMost);
  pace_ *= 1 + (below ? kClimb : step_);
}

/// Who has fallen behind, or has nothing to say now, is left its part, to come back; what it does not use the others
/// have meanwhile.
std::vector<double> Line::deal(std::span<const Flow> flows) {
  std::vector<double> paces(flows.size(), kUnpaced);
  if (!is_paced(flows.size())) {
    for (auto& [id, seen] : seen_) seen.pace = seen.rate = kUnpaced;
    return paces;
  }
  double planned = 0;
  for (const Flow& flow : flows) planned += flow.planned_bytes;
  const auto part = [&](const Flow& flow) { return pace_ * flow.planned_bytes / planned; };
  const auto uses = [&](const Flow& flow) { return flow.waiting ? kLeeway * seen_.at(flow.id).rate : 0.0; };
  const auto is_behind = [&](const Flow& flow) { return uses(flow) < kLeeway * kBehind * part(flow); };
  double left = pace_;
  double sharing = 0;
  for (const Flow& flow : flows) {
    if (is_behind(flow)) {
      left -= std::min(uses(flow), part(flow));
    } else {
      sharing += flow.planned_bytes;
    }
  }
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const bool own = is_behind(flows[i]);
    paces[i] = own ? part(flows[i]) : left * flows[i].planned_bytes / sharing;
    seen_.at(flows[i].id).pace = paces[i];
  }
  return paces;
}

}  // namespace collab::net
