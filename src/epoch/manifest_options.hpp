#pragma once
// What a manifest asks of who takes part, with tensors of its own or for others'.

#include "epoch/fragments.hpp"
#include "epoch/member_options.hpp"
#include "node/manifest.hpp"
#include "node/mode.hpp"
#include "tensor/schema.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace collab::epoch {

/// What the run averages. Throws `Failure(incompatible)` when that is unknown here, or other than `wanted`.
node::Mode mode_of(const node::Manifest& manifest, const std::optional<node::Mode>& wanted = {});

/// What groups compare: an average of gradients is of no use to who averages moves, so those never meet in one.
Digest schema_in_mode(const Digest& schema, const node::Mode& mode);

/// The vector that a round carries, for whoever writes it down: one epoch's part of `tensors`, of the statistics that
/// the mode averages along, and all tracked tensors (role `extra`, the last of `tensors`).
Schema round_schema(const Schema& tensors, const node::Mode& mode);

/// Values of the statistics that the mode averages along, for a model of so many parameters.
inline std::size_t statistic_values(std::size_t parameters, const node::Mode& mode) {
  return parameters * mode.statistics.size();
}
/// Values of them that a round carries.
inline std::size_t statistics_carried(std::size_t parameters, const node::Mode& mode) {
  return Fragments(statistic_values(parameters, mode), std::max<std::uint64_t>(1, mode.statistics_every)).length();
}

/// `schema`: the parameters, then what is tracked. `codec`: empty: the manifest's. It is for gradients and moves;
/// statistics travel as bfloat16, which has the range of their values, and tracked tensors as they are. Throws
/// `Failure(incompatible)` when the manifest asks for what is not here.
MemberOptions member_options(const node::Manifest& manifest, const Schema& schema,
                             const std::optional<std::string>& codec = {});

}  // namespace collab::epoch
