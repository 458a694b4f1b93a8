#pragma once
// Two servers make each other whole: both halves of directory.exchange.

#include "base/clock.hpp"
#include "directory/wire.hpp"
#include "net/endpoint.hpp"

namespace collab::directory {

class Server;

struct Reconciled {
  std::size_t taken = 0;  ///< records that the other had and we lacked, and that we accepted
  std::size_t given = 0;  ///< the reverse, sent
};

/// Takes from `other` what is newer there and puts what is newer here, a hash per bucket first: two equal storages cost
/// 600 bytes. Errors: those of `Endpoint::call`; `bad_request` for an answer that no correct server gives. What was
/// taken before an error stays.
Task<Result<Reconciled>> reconcile(net::Endpoint& net, Server& server, PeerId other, TimePoint deadline);

/// The answer to Compare or Fetch. Pure.
net::Answer answer_exchange(const Storage& storage, std::span<const std::byte> request);

}  // namespace collab::directory
