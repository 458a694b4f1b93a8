#include "node/membership.hpp"

#include "swarm_node.hpp"

#include "support/doctest.hpp"

namespace collab::node {

using namespace std::chrono_literals;

TEST_CASE("membership: a record with more addresses than fit is published without any, and the node lives on") {
  Log log;
  directory::PeerRecord record;
  record.role = "peer";
  for (std::uint16_t port = 1; port <= directory::kListenAddressesMax; ++port)
    record.listen.push_back(net::Address{"192.0.2.1", port});
  CHECK(directory::decode_peer_record(publishable(record, log))->listen == record.listen);
  record.listen.push_back(net::Address{"192.0.2.1", 443, net::Leg::wss});
  const auto published = directory::decode_peer_record(publishable(record, log));
  REQUIRE(published);
  CHECK(published->listen.empty());
  CHECK(published->role == "peer");
}

TEST_CASE("membership: a taken port for WebSockets is told as that, not as all the bare ports being taken") {
  test::SimRun run;
  sim::Host& host = run.network.add_host("peer");
  const auto taken = host.listen(net::Address{"::", 443, net::Leg::wss});
  REQUIRE(taken);
  const Identity identity = test::identity(2);
  Log log;
  Metrics metrics;
  const NodeNeeds needs{run.world.executor(), run.world.executor(), host.clock(), host, Random(1), log, metrics};
  NodeOptions options = run.options("");
  options.wss_port = 443;
  std::string cause;
  try {
    const Manifest manifest = test::manifest_of(test::identity(1));
    const Membership member(needs, identity, options, sign_manifest(test::identity(1), manifest), manifest,
                            directory::Contacts(1), {});
  } catch (const Failure& failure) {
    cause = failure.cause();
  }
  CHECK(cause == "cannot listen at wss://[::]:443/collab/v1: the port is taken");
}

}  // namespace collab::node
