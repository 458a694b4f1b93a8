#pragma once
// Connections of which one end has another address now: nobody says so, and nothing comes any more.

#include "base/log.hpp"
#include "net/connection.hpp"

#include <span>

namespace collab::net {

/// This machine's end: of the connections of each own address the one is asked from which nothing has come for longest.
/// What its system says of it is reason to doubt them all, and no more: an address may also be on its way back.
void doubt_stranded(std::span<Connection* const> all, TimePoint now, Log& log);

/// The other end: the peer was dialled where it said that it was, and now says that it is at `now`, which is elsewhere.
bool has_left(const Connection& connection, std::span<const Address> before, std::span<const Address> now);

}  // namespace collab::net
