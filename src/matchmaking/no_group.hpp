#pragma once
// Why a search ended without a group.

#include "base/error.hpp"

namespace collab::matchmaking {

/// Ordinary outcomes of find_group(): nothing has changed, the samples stay. `message()` is a sentence for a person.
enum class NoGroup {
  late = 1,           ///< the deadline passed: the batch is not full, or the leader never began
  alone,              ///< nobody else is here, and the caller did not say that it is the whole swarm
  no_quorum,          ///< too few of the current peers were found
  begun,              ///< the others' group began without this peer: wait for the next epoch, fetch its result
  schema_differs,     ///< the others train other tensors
  codec_map_differs,  ///< the others encode otherwise
  left,               ///< this peer left while it searched
};

boost::system::error_code make_error_code(NoGroup) noexcept;

}  // namespace collab::matchmaking

template <>
struct boost::system::is_error_code_enum<collab::matchmaking::NoGroup> : std::true_type {};
