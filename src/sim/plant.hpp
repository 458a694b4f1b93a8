#pragma once
// Bugs planted on purpose: an invariant that never finds one is no invariant.

#include "averaging/rule.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace collab::sim {

enum class Plant : std::uint8_t {
  none,
  no_quorum,      ///< who is cut off takes itself for the whole swarm, and steps alone
  arrival_order,  ///< parts are summed in float32, in the order in which they happen to come
  keep_partial,   ///< a failed round leaves something in the parameters
  sum_twice,      ///< samples of an epoch that ended without their peer are kept for the next one
  skip_ledger,    ///< the units of a round that was missed and fetched are not entered in the ledger
  begin_early,    ///< an epoch begins with three quarters of its target batch
};

std::string_view name(Plant plant) noexcept;
std::optional<Plant> plant_named(std::string_view name) noexcept;

/// The rule of `arrival_order`: right up to float rounding, and another one at each call.
class ArrivalOrder final : public averaging::Rule {
 public:
  std::string_view name() const noexcept override { return "arrival_order"; }
  bool streaming() const noexcept override { return true; }
  void reduce(std::span<const averaging::WeightedPart> parts, std::span<float> out) const override;

 private:
  mutable std::size_t calls_ = 0;
};

}  // namespace collab::sim
