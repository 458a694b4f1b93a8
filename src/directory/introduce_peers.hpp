#pragma once
// Tells the endpoint where the members of the run may be dialled.

#include "base/log.hpp"
#include "directory/directory.hpp"
#include "net/endpoint.hpp"

namespace collab::directory {

/// Follows the key "peer" and introduces everyone but this node to `net`, again whenever the addresses change. Until
/// cancelled. A member whose record expired stays introduced: he may be back, and dialling has its own back-off. A node
/// that can only dial takes addresses that others have dialled, no guesses: two of its kind never meet.
Task<> introduce_peers(Directory& directory, net::Endpoint& net, Log& log);

}  // namespace collab::directory
