#pragma once
// What matchmaking needs of its node.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "directory/directory.hpp"
#include "net/endpoint.hpp"

namespace collab::matchmaking {

/// Everything a matchmaker needs of its node. All outlive it.
struct Context {
  net::Endpoint& net;
  Clock& clock;
  directory::Directory& directory;
  Log& log;
};

}  // namespace collab::matchmaking
