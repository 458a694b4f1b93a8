#pragma once
// A search that is given up as soon as it makes no sense any more.

#include "base/error.hpp"
#include "base/task.hpp"
#include "matchmaking/group.hpp"

namespace collab::matchmaking {

/// `search`, until `over` returns why. A group that begins in that very moment counts on this peer all the same, and is
/// returned. Either is cancelled when the other one has ended.
Task<Result<Group>> search_until(Task<Result<Group>> search, Task<boost::system::error_code> over);

}  // namespace collab::matchmaking
