#pragma once
// A stranger's first steps: dial the places where the run may be, and bring home its manifest. Nothing is served yet.

#include "base/log.hpp"
#include "net/endpoint.hpp"
#include "node/find_run.hpp"
#include "node/manifest.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace collab::node {

/// What has to be true of a manifest to be this run's.
struct Expected {
  std::string run_id;
  std::optional<PeerId> authority;  ///< pinned; none: the first one seen
  std::uint64_t sequence_min = 0;   ///< of the one this home has seen last
};

/// The manifest, and who gave it.
struct Found {
  Signed statement;
  Manifest manifest;
  PeerId member{};
  net::Address address;
  Source source = Source::given;  ///< of that address
};

struct SearchOptions {
  Duration dial_time = std::chrono::seconds(5);  ///< for one place to answer
  Duration ask_time = std::chrono::seconds(10);  ///< for its manifest
  std::size_t at_once = 8;                       ///< places
};

/// One round: what came of each place until the first member was found, and that.
struct Round {
  std::vector<Attempt> attempts;  ///< in the order of the places; those that were cut short are missing
  std::optional<Found> found;
};

/// First contact with an address: `PeerEndpoint::connect`.
using Connect = std::function<Task<boost::system::result<PeerId, Refusal>>(net::Address, TimePoint)>;

using Tell = std::function<void(const Found&)>;

/// Tries `places`, some at once. `endpoint`: asked for the manifest over what `connect` has connected. With `tell` the
/// round does not end with the first member: each place is looked at, and whoever is found is told of as it answers.
Task<Round> search(net::Endpoint& endpoint, Connect connect, Clock& clock, std::vector<Place> places, Expected expected,
                   SearchOptions options, Tell tell = {});

/// Whether `statement` is acceptable; else what to say about the place it came from.
boost::system::result<Manifest, Refusal> check_manifest(const Signed& statement, const Expected& expected);

}  // namespace collab::node
