#pragma once
// Moments of each peer's own optimizer that the run averages along.

#include "epoch/fragments.hpp"
#include "node/mode.hpp"
#include "optim/stepper.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace collab::optim {

/// Everybody's become their mean, weighted by samples: the part of an epoch, whose turn comes every
/// `Mode::statistics_every` epochs. What own steps changed while a round ran is lost. Where the mode names none,
/// nothing is here. Memory: one vector for each name. Thread safety: `step` may run beside `hand_over` of another
/// epoch's; else none.
class Statistics {
 public:
  /// `stepper` outlives it. Throws `Failure(usage)` when its optimizer has no moment of that name.
  Statistics(Stepper& stepper, const node::Mode& mode);

  std::span<const float> agreed() const noexcept { return agreed_; }
  std::size_t carried() const noexcept { return fragments_.length(); }

  void hand_over(std::uint64_t epoch, std::span<float> out) const;
  void step(std::uint64_t epoch, std::span<const float> averaged);
  void adopt();
  /// Begins anew with those of the others, and with what they have behind them.
  void load(std::span<const float> agreed, std::uint64_t steps);

 private:
  /// Calls visit(where in the vector, values of the optimizer) for each piece of `range`.
  template <class Visit>
  void for_each_piece(Range range, Visit visit) const;

  Stepper* stepper_;
  std::vector<std::span<float>> live_;
  std::vector<float> agreed_;
  epoch::Fragments fragments_;
  std::optional<Range> stepped_;  // agreed, and not adopted yet
};

}  // namespace collab::optim
