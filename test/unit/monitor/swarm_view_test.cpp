#include "monitor/swarm_view.hpp"

#include "monitor/events.hpp"
#include "monitor/json.hpp"
#include "sim/simulation.hpp"
#include "support/peers.hpp"

#include <nlohmann/json.hpp>

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

using test::peer;

Digest hash(unsigned char number) {
  Digest digest{};
  digest[0] = number;
  return digest;
}

ProgressFacts progress(unsigned char number, std::uint64_t epoch, unsigned char parameters) {
  ProgressFacts facts;
  facts.id = peer(number);
  facts.epoch = epoch;
  facts.samples = 10;
  facts.samples_per_s = 2.5;
  facts.parameter_hash = hash(parameters);
  facts.unix_ms = 100'000;
  return facts;
}

SwarmFacts facts_of_three() {
  SwarmFacts facts;
  facts.unix_ms = 103'500;
  facts.run.run_id = "demo";
  facts.run.self = peer(2);
  facts.run.epoch = 7;
  facts.run.target_batch_samples = 4096;
  facts.majority_hash = hash(1);
  facts.members.push_back({peer(2), "Asha", "full", "open", "collab 0.1"});
  facts.members.push_back({peer(1), "", "", "", ""});
  facts.progress = {progress(2, 7, 1), progress(3, 7, 9), progress(4, 6, 1)};
  LinkFacts link;
  link.id = peer(2);
  link.rtt_s = 0.02;
  link.path = "tcp, punched";
  link.bulk_bytes = 4096;
  facts.links = {link};
  return facts;
}

}  // namespace

TEST_CASE("swarm view: everybody with a record appears once, sorted, with what is known") {
  const SwarmView view = view_swarm(facts_of_three());
  REQUIRE(view.peers.size() == 4);
  CHECK(view.peers[0].id == peer(1));
  CHECK(view.peers[0].name == peer(1).short_text());
  CHECK(view.peers[0].role == "unknown");
  CHECK_FALSE(view.peers[0].epoch);
  CHECK(view.peers[1].name == "Asha");
  CHECK(view.peers[1].rtt_s == 0.02);
  CHECK(view.peers[1].path == "tcp, punched");
  CHECK(view.peers[1].bulk_bytes == 4096);
  CHECK(view.peers[1].last_seen_s == 3.5);
  CHECK(view.samples_per_s == 5.0);  // of the two at epoch 7
}

TEST_CASE("swarm view: a hash is judged against the majority of its own epoch only") {
  SwarmFacts facts = facts_of_three();
  const SwarmView view = view_swarm(facts);
  CHECK(view.peers[1].hash_ok == true);
  CHECK(view.peers[2].hash_ok == false);
  CHECK_FALSE(view.peers[3].hash_ok.has_value());
  facts.majority_hash.reset();
  CHECK_FALSE(view_swarm(facts).peers[1].hash_ok.has_value());
}

TEST_CASE("swarm view: what others claim is bounded") {
  SwarmFacts facts = facts_of_three();
  facts.members[0].name = std::string(63, 'a') + "\xC3\xA9";  // 65 bytes: an e with an accent across the limit
  facts.progress[0].samples_per_s = std::numeric_limits<double>::infinity();
  facts.progress[1].samples_per_s = -4;
  facts.progress[1].unix_ms = 999'999;  // ahead of our clock
  LinkFacts stranger;
  stranger.id = peer(9);
  facts.links.push_back(stranger);
  const SwarmView view = view_swarm(facts);
  CHECK(view.peers.size() == 4);
  CHECK(view.peers[1].name == std::string(63, 'a'));
  CHECK(view.samples_per_s == 0);
  CHECK(view.peers[2].last_seen_s == 0.0);
}

TEST_CASE("swarm view: beyond the most peers that are shown, the rest is counted") {
  SwarmFacts facts;
  for (std::size_t i = 0; i < kPeersMax + 3; ++i) {
    MemberFacts member;
    member.id.key[0] = static_cast<unsigned char>(i >> 8U);
    member.id.key[1] = static_cast<unsigned char>(i);
    facts.members.push_back(member);
  }
  const SwarmView view = view_swarm(facts);
  CHECK(view.peers.size() == kPeersMax);
  CHECK(view.peers_left_out == 3);
}

TEST_CASE("json: the state has its fields with units, and null for what is unknown") {
  Rounds rounds;
  for (std::uint64_t epoch = 1; epoch <= 60; ++epoch) {
    RoundView round;
    round.epoch = epoch;
    round.result = "failed";
    round.reason = "no_quorum";
    RoundMember member;
    member.id = peer(3);
    member.left_out = "frozen";
    round.members.push_back(member);
    rounds.add(round);
  }
  SwarmFacts facts = facts_of_three();
  facts.run.eta_s = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(state_json(view_swarm(facts), rounds.kept()));
  CHECK(json["version"] == 1);
  CHECK(json["time"] == "1970-01-01T00:01:43.500Z");
  CHECK(json["run"]["run_id"] == "demo");
  CHECK(json["run"]["epoch"] == 7);
  CHECK(json["run"]["target_batch_samples"] == 4096);
  CHECK(json["run"]["eta_s"].is_null());
  CHECK(json["run"]["loss_train"].is_null());
  CHECK(json["run"]["peers"] == 4);
  CHECK(json["peers"].size() == 4);
  CHECK(json["peers"][0]["epoch"].is_null());
  CHECK(json["peers"][0]["rtt_s"].is_null());
  CHECK(json["peers"][1]["id"] == peer(2).text());
  CHECK(json["peers"][1]["hash_ok"] == true);
  CHECK(json["peers"][1]["rtt_s"] == 0.02);
  CHECK(json["rounds"].size() == kRoundsMax);
  CHECK(json["rounds"][0]["epoch"] == 60);
  CHECK(json["rounds"][0]["members"][0]["left_out"] == "frozen");
}

TEST_CASE("json: names that are no UTF-8 or full of markup stay valid JSON") {
  SwarmFacts facts = facts_of_three();
  facts.members[0].name = "a\xFF\"</script>\n";
  const auto json = nlohmann::json::parse(state_json(view_swarm(facts), {}));
  CHECK(json["peers"][1]["name"] == "a\xEF\xBF\xBD\"</script>\n");
}

TEST_CASE("json: times are RFC 3339 in UTC, leap days included") {
  CHECK(rfc3339(0) == "1970-01-01T00:00:00.000Z");
  CHECK(rfc3339(951'827'696'789) == "2000-02-29T12:34:56.789Z");
  CHECK(rfc3339(-1) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("events: one line of JSON each, in the words of the interface") {
  sim::Simulation world;
  Events events(world.executor(), world.clock());
  CHECK(events.last_id() == 0);
  CHECK(events.after(0) == nullptr);
  NewEvent event;
  event.type = EventType::round_committed;
  event.epoch = 1204;
  event.peer = peer(5);
  event.data = {{"duration_s", 1.5}, {"peers", std::uint64_t(12)}, {"note", "two\nlines"}, {"rate", kUnknown}};
  CHECK(events.add(event) == 1);
  NewEvent alert;
  alert.data = {{"reason", std::string(5000, 'x')}};
  events.add(alert);

  const Events::Encoded* first = events.after(0);
  REQUIRE(first);
  CHECK(first->json.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(first->json);
  CHECK(json["id"] == 1);
  CHECK(json["time"] == rfc3339(world.clock().unix_ms()));
  CHECK(json["type"] == "round.committed");
  CHECK(json["epoch"] == 1204);
  CHECK(json["peer"] == peer(5).text());
  CHECK(json["data"]["duration_s"] == 1.5);
  CHECK(json["data"]["note"] == "two\nlines");
  CHECK(json["data"]["rate"].is_null());

  const auto second = nlohmann::json::parse(events.after(1)->json);
  CHECK(second["type"] == "alert");
  CHECK(second["epoch"].is_null());
  CHECK(second["peer"].is_null());
  CHECK(second["data"]["reason"].get<std::string>().size() == kEventTextBytesMax);
  CHECK(events.after(2) == nullptr);
}

TEST_CASE("events: each type has a name of its own") {
  CHECK(name(EventType::peer_joined) == "peer.joined");
  CHECK(name(EventType::round_failed) == "round.failed");
  CHECK(name(EventType::eval_done) == "eval.done");
  CHECK(name(EventType::alert) == "alert");
}

}  // namespace collab::monitor
