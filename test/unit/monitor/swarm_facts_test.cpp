#include "monitor/swarm_facts.hpp"

#include "directory/peer_record.hpp"
#include "support/peers.hpp"

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

using test::peer;

constexpr std::int64_t kNow = 1'700'000'000'000;

directory::Record member(unsigned char number, bool reachable) {
  directory::PeerRecord fields;
  fields.reachable = reachable;
  fields.role = "full";
  fields.name = "peer " + std::to_string(number);
  fields.software = "collab-peer 0.1";
  directory::Record record;
  record.key = directory::kPeerKey;
  record.owner = peer(number);
  record.value = directory::encode(fields).value();
  return record;
}

progress::Standing standing(unsigned char number, std::uint64_t epoch, unsigned char parameters) {
  progress::Standing standing;
  standing.peer = peer(number);
  standing.record.epoch = epoch;
  standing.record.samples = 100;
  standing.record.samples_per_s = 5;
  standing.record.unix_ms = kNow;
  standing.record.period_ms = 1000;
  standing.record.parameters[0] = parameters;
  standing.record.taking_part = true;
  return standing;
}

}  // namespace

TEST_CASE("swarm facts: records, standings and links become one view, also of a node that computes nothing") {
  std::vector<directory::Record> members = {member(1, true), member(2, false), member(3, true)};
  members[2].value = Bytes(7, std::byte(0xFF));  // of a version we cannot read
  const std::vector<progress::Standing> standings = {standing(1, 7, 1), standing(2, 7, 1), standing(3, 7, 9)};
  const auto link = [](const PeerId& id) {
    net::LinkState state;
    state.connected = id == peer(1);
    state.rtt = std::chrono::milliseconds(20);
    state.path = state.connected ? "tcp" : "";
    state.bulk_bytes = id == peer(2) ? 77 : 0;
    return state;
  };
  RunView known;
  known.run_id = "demo";
  known.target_batch_samples = 450;
  const FactSources sources{members, standings, link, kNow};
  const SwarmView view = view_swarm(gather_facts(known, sources));
  CHECK(view.run.run_id == "demo");
  CHECK(view.run.epoch == 7);
  CHECK(view.run.samples == 300);
  CHECK(view.run.eta_s == 10.0);
  REQUIRE(view.peers.size() == 3);
  CHECK(view.peers[0].name == "peer 1");
  CHECK(view.peers[0].reachability == "open");
  CHECK(view.peers[0].rtt_s == 0.02);
  CHECK(view.peers[0].path == "tcp");
  CHECK(view.peers[0].hash_ok == true);
  CHECK(view.peers[1].reachability == "outbound_only");
  directory::PeerRecord led = directory::decode_peer_record(members[1].value).value();
  led.relays = {net::Address{"203.0.113.9", 4600, net::Leg::relay, peer(1)}};
  members[1].value = encode(led).value();
  CHECK(view_swarm(gather_facts(known, sources)).peers[1].reachability == "relayed");
  CHECK_FALSE(view.peers[1].rtt_s == view.peers[1].rtt_s);  // not connected: not a number
  CHECK(view.peers[1].path.empty());
  CHECK(view.peers[1].bulk_bytes == 77);  // of a connection before
  CHECK(view.peers[2].name == peer(3).short_text());
  CHECK(view.peers[2].hash_ok == false);
}

TEST_CASE("swarm facts: of an empty swarm nothing is known") {
  const std::vector<directory::Record> members;
  const std::vector<progress::Standing> standings;
  const FactSources sources{members, standings, [](const PeerId&) { return net::LinkState(); }, kNow};
  const SwarmFacts facts = gather_facts(RunView(), sources);
  CHECK_FALSE(facts.majority_hash);
  CHECK_FALSE(facts.run.eta_s == facts.run.eta_s);
  CHECK(facts.run.samples == 0);
}

}  // namespace collab::monitor
