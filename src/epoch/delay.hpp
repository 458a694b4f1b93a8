#pragma once
// What of an epoch's end a trainer does not wait for.

#include <cstdint>

namespace collab::epoch {

/// Each peer's own matter: whatever the others do, all hold equal parameters after each step. What differs is which
/// parameters its gradients were computed on (delayed parameter update: arXiv:2101.06840).
enum class Delay : std::uint8_t {
  none,       ///< it waits for round and step: gradients are of the parameters that they change
  step,       ///< it waits for the round; microbatches that pass during the step are of the parameters before it
  gradients,  ///< it waits for neither: gradients are of the parameters one step before those that they change
};

}  // namespace collab::epoch
