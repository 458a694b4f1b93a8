#include "optim/statistics.hpp"

#include "epoch/manifest_options.hpp"
#include "tensor/view.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace collab::optim {

Statistics::Statistics(Stepper& stepper, const node::Mode& mode)
    : stepper_(&stepper),
      live_(stepper.moments_named(mode.statistics)),
      fragments_(epoch::statistic_values(stepper.schema().values(), mode),
                 std::max<std::uint64_t>(1, mode.statistics_every)) {
  for (const auto values : live_) agreed_.insert(agreed_.end(), values.begin(), values.end());
  assert(agreed_.size() == epoch::statistic_values(stepper.schema().values(), mode));
}

template <class Visit>
void Statistics::for_each_piece(Range range, Visit visit) const {
  std::size_t begin = 0;
  for (const auto values : live_) {
    const std::size_t from = std::max(begin, range.begin);
    const std::size_t to = std::min(begin + values.size(), range.end());
    if (from < to) visit(from, values.subspan(from - begin, to - from));
    begin += values.size();
  }
}

void Statistics::hand_over(std::uint64_t epoch, std::span<float> out) const {
  assert(out.size() == carried());
  const Range part = fragments_.part(epoch);
  std::fill(out.begin(), out.end(), 0.0F);
  for_each_piece(part, [&](std::size_t at, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      out[at + i - part.begin] = std::isfinite(values[i]) ? values[i] : agreed_[at + i];
  });
}

void Statistics::step(std::uint64_t epoch, std::span<const float> averaged) {
  assert(averaged.size() == carried());
  const Range part = fragments_.part(epoch);
  if (!all_finite(averaged)) return;
  std::copy_n(averaged.begin(), part.size, agreed_.begin() + static_cast<std::ptrdiff_t>(part.begin));
  stepped_ = part;
}

void Statistics::adopt() {
  const auto part = std::exchange(stepped_, std::nullopt);
  if (!part) return;
  for_each_piece(*part, [&](std::size_t at, std::span<float> values) {
    std::copy_n(agreed_.begin() + static_cast<std::ptrdiff_t>(at), values.size(), values.begin());
  });
}

void Statistics::load(std::span<const float> agreed, std::uint64_t steps) {
  assert(agreed.size() == agreed_.size());
  if (agreed.empty()) return;
  std::copy(agreed.begin(), agreed.end(), agreed_.begin());
  stepped_ = Range{0, agreed_.size()};
  adopt();
  stepper_->begin_moments_at(steps);
}

}  // namespace collab::optim
