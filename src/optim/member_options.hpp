#pragma once
// What a manifest asks of a peer that takes part with tensors of its own.

#include "epoch/member_options.hpp"
#include "node/mode.hpp"
#include "optim/parts.hpp"
#include "tensor/schema.hpp"

#include <optional>
#include <string>

namespace collab::optim {

/// What the run averages. Throws `Failure(incompatible)` when that is unknown here, or other than `wanted`.
node::Mode mode_of(const node::Manifest& manifest, const std::optional<node::Mode>& wanted = {});

/// What groups compare: an average of gradients is of no use to who averages moves, so those never meet in one.
Digest schema_in_mode(const Digest& schema, const node::Mode& mode);

/// The vector that a round carries, for whoever writes it down: one epoch's part of `tensors`, of the statistics that
/// the mode averages along, and all tracked tensors (role `extra`, the last of `tensors`).
Schema round_schema(const Schema& tensors, const node::Mode& mode);

/// `schema`: the parameters, then what is tracked. `codec`: empty: the manifest's. It is for gradients and moves;
/// statistics travel as bfloat16, which has the range of their values, and tracked tensors as they are. Throws
/// `Failure(incompatible)` when the manifest asks for what is not here.
epoch::MemberOptions member_options(const Collaboration::Parts& parts, const Schema& schema,
                                    const std::optional<std::string>& codec = {});

}  // namespace collab::optim
