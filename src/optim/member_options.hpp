#pragma once
// What a manifest asks of a peer that takes part with tensors of its own.

#include "epoch/member_options.hpp"
#include "optim/parts.hpp"
#include "tensor/schema.hpp"

#include <optional>
#include <string>

namespace collab::optim {

/// `codec`: empty: the manifest's. Throws `Failure(incompatible)` when the manifest asks for what is not here.
epoch::MemberOptions member_options(const Collaboration::Parts& parts, const Schema& schema,
                                    const std::optional<std::string>& codec = {});

}  // namespace collab::optim
