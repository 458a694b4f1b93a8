#include "directory/swarm_directory.hpp"

#include "base/frame.hpp"
#include "directory/introduce_peers.hpp"
#include "directory/wire.hpp"
#include "support/directory_node.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "support/doctest.hpp"

namespace collab::directory {
namespace {

using namespace std::chrono_literals;
using test::DirectoryNode;
using test::MessageNetwork;
using test::text_bytes;

/// A swarm on one network. Numbers of nodes are those of their identities.
struct World {
  explicit World(std::uint64_t seed = 1) : network(simulation, seed) {}

  DirectoryNode& add(unsigned number, std::vector<PeerId> bootstrap, bool reachable = true) {
    DirectoryNode::Options options;
    options.number = number;
    options.bootstrap = std::move(bootstrap);
    options.reachable = reachable;
    nodes.push_back(std::make_unique<DirectoryNode>(simulation, network, options));
    nodes.back()->start();
    return *nodes.back();
  }
  /// `servers` bootstrap nodes and then `peers` others.
  void add_swarm(unsigned servers, unsigned peers, bool reachable = true) {
    std::vector<PeerId> bootstrap;
    for (unsigned i = 1; i <= servers; ++i) bootstrap.push_back(test::test_identity(i).id());
    for (unsigned i = 1; i <= servers + peers; ++i) add(i, bootstrap, reachable || i <= servers);
  }
  Task<> sleep(Duration length) { return simulation.clock().sleep_until(simulation.clock().now() + length); }
  /// How long until `what` holds; `limit` if it does not.
  Task<Duration> until(std::function<bool()> what, Duration limit) {
    const TimePoint start = simulation.clock().now();
    while (!what() && simulation.clock().now() - start < limit) co_await sleep(10ms);
    co_return std::min<Duration>(simulation.clock().now() - start, limit);
  }
  Task<> kill(std::size_t index) {
    network.kill(nodes[index]->id());
    co_await nodes[index]->stop();
  }
  Task<> stop() {
    for (auto& node : nodes) co_await node->stop();
  }
  bool all_see(std::size_t first, const std::string& key, std::size_t count) const {
    return std::all_of(nodes.begin() + static_cast<std::ptrdiff_t>(first), nodes.end(),
                       [&](const auto& node) { return node->sees(key) == count; });
  }
  void run(Task<> scenario) { simulation.run(std::move(scenario)); }

  sim::Simulation simulation;
  MessageNetwork network;
  std::vector<std::unique_ptr<DirectoryNode>> nodes;
};

std::string value_of(const Record& record) {
  return {reinterpret_cast<const char*>(record.value.data()), record.value.size()};
}

Task<> watch_for(World& world, DirectoryNode& node, std::string key, std::string value,
                 std::vector<Duration>& seen_after, TimePoint start) {
  const auto watch = node.directory.watch(key);
  for (;;) {
    const auto& records = watch->records();
    const auto has = [&](const Record& record) { return value_of(record) == value; };
    if (std::any_of(records.begin(), records.end(), has)) break;
    co_await watch->changed_until(TimePoint::max());
  }
  seen_after.push_back(world.simulation.clock().now() - start);
}

/// Counts how often somebody who wants changes of `key` no closer than `pace` sees one.
Task<> count_changes(DirectoryNode& node, std::string key, Duration pace, std::size_t& seen, std::string& last) {
  const auto watch = node.directory.watch(key);
  watch->relax(pace);
  for (;;) {
    co_await watch->changed_until(TimePoint::max());
    ++seen;
    last = value_of(watch->records().front());
  }
}

}  // namespace

TEST_CASE("swarm directory: five peers and two servers know each other within two seconds") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(2, 5, false);
    const auto complete = [&] { return world.all_see(0, "peer", 7); };
    const Duration took = co_await world.until(complete, 10s);
    CHECK(took < 2s);
    for (const auto& node : world.nodes) CHECK(node->directory.connected());
    const TimePoint deadline = world.simulation.clock().now() + 5s;
    const auto got = co_await world.nodes[6]->directory.get("peer", deadline);
    REQUIRE(got);
    CHECK(got->size() == 7);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: a watcher sees a change within a round trip and 200 ms") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(seed);
    std::vector<Duration> seen_after;
    const auto scenario = [&]() -> Task<> {
      world.add_swarm(2, 5, false);
      co_await world.sleep(5s);
      TaskGroup watchers(world.simulation.executor(), rethrow);
      const TimePoint change = world.simulation.clock().now() + 7s;
      for (std::size_t i = 0; i < 7; ++i) {
        watchers.spawn("watch", watch_for(world, *world.nodes[i], "k", "second", seen_after, change));
      }
      world.nodes[3]->directory.publish("k", "", text_bytes("first"), 30s);
      co_await world.simulation.clock().sleep_until(change);
      world.nodes[3]->directory.publish("k", "", text_bytes("second"), 30s);
      co_await watchers.join();
      co_await world.stop();
    };
    world.run(scenario());
    REQUIRE(seen_after.size() == 7);
    CHECK(*std::max_element(seen_after.begin(), seen_after.end()) <= 80ms + 200ms);  // links: 5 to 40 ms one way
  }
}

TEST_CASE("swarm directory: who relaxes reads a busy key less often, and still sees the last change soon") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(1, 3, false);
    co_await world.sleep(5s);
    TaskGroup watchers(world.simulation.executor(), rethrow);
    std::size_t at_once = 0;
    std::size_t relaxed = 0;
    std::string last;
    std::string last_relaxed;
    watchers.spawn("at once", count_changes(*world.nodes[1], "busy", 0s, at_once, last));
    watchers.spawn("relaxed", count_changes(*world.nodes[2], "busy", 500ms, relaxed, last_relaxed));
    for (int i = 1; i <= 100; ++i) {
      world.nodes[3]->directory.publish("busy", "", text_bytes(std::to_string(i)), 30s);
      co_await world.sleep(50ms);
    }
    CHECK(at_once > 25);
    CHECK(relaxed > 4);
    CHECK(relaxed < 14);
    co_await world.sleep(700ms);
    CHECK(last == "100");
    CHECK(last_relaxed == "100");
    co_await watchers.stop();
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: who has the news from their owners does not ask others for each of them once more") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(5, 0);  // each keeps every key
    co_await world.sleep(10s);
    std::vector<std::unique_ptr<Watch>> watches;
    for (const auto& node : world.nodes) watches.push_back(node->directory.watch("busy"));
    const auto asked = [&] {
      std::size_t calls = 0;
      for (const auto& node : world.nodes) calls += world.network.calls_of(node->id(), "directory.watch");
      return calls;
    };
    const auto write = [&](int number) {
      for (const auto& node : world.nodes) node->directory.publish("busy", "", text_bytes(std::to_string(number)), 30s);
    };
    const auto all_have = [&](int number) {
      return std::all_of(watches.begin(), watches.end(), [&](const auto& watch) {
        const auto& records = watch->records();
        return records.size() == 5 && std::all_of(records.begin(), records.end(), [&](const Record& record) {
                 return value_of(record) == std::to_string(number);
               });
      });
    };
    std::size_t before = 0;
    for (int number = 0; number < 100; ++number) {
      if (number == 20) before = asked();
      write(number);
      co_await world.sleep(250ms);
      CHECK(all_have(number));
    }
    CHECK(asked() - before <= 5 * 20);  // once a second each, all their keys together; else four times
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: who has a key's records from one server is told only the rest by another") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(3, 12, false);
    co_await world.sleep(5s);
    for (auto& node : world.nodes) node->directory.publish("k", "", text_bytes("first"), 60s);
    co_await world.sleep(2s);
    DirectoryNode& asker = *world.nodes.back();  // watches the key nowhere
    Contacts contacts;
    Client client(asker.endpoint, world.simulation.clock(), Random(1), asker.server, contacts);
    const auto read = [&](std::size_t server, bool tells) -> Task<Client::Read> {
      Client::Question question;
      question.key = "k";
      question.tells = tells;
      const TimePoint deadline = world.simulation.clock().now() + 5s;
      const auto page = co_await client.read(world.nodes[server]->id(), std::move(question), deadline);
      REQUIRE(page);
      co_return *page;
    };
    const auto first = co_await read(0, true);  // has its own record alone
    CHECK(first.records == 15);
    CHECK(first.news == 14);
    CHECK((co_await read(1, false)).records == 15);
    CHECK((co_await read(1, true)).records == 0);
    world.nodes[4]->directory.publish("k", "", text_bytes("second"), 60s);
    co_await world.sleep(1s);
    const auto rest = co_await read(2, true);
    CHECK(rest.records == 1);
    CHECK(rest.news == 1);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: renewals of many share an answer, and reach the watchers in time") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(1, 31, false);
    co_await world.sleep(30s);
    const auto watch = world.nodes[1]->directory.watch("k");
    for (std::size_t i = 1; i < world.nodes.size(); ++i) {
      world.nodes[i]->directory.publish("k", "", text_bytes("the same"), 12s);
      co_await world.sleep(130ms);  // every node renews its own after 4 s, so there are news 8 times a second
    }
    co_await world.sleep(4s);
    const auto answers = world.network.calls_of(world.nodes[0]->id(), "directory.watch");
    for (int second = 0; second < 60; ++second) {
      co_await world.sleep(1s);
      CHECK(watch->records().size() == 31);
    }
    // of 31 nodes that follow who is there, and one that watches a key
    CHECK(world.network.calls_of(world.nodes[0]->id(), "directory.watch") - answers <= 32 * 60 / 2);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: who was known first does not serve everybody for ever") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(1, 11);  // all of them come by the first, and can serve
    std::vector<std::unique_ptr<Watch>> watches;
    for (const auto& node : world.nodes) watches.push_back(node->directory.watch("k"));
    co_await world.sleep(60s);
    const auto answers = [&](const DirectoryNode& node) {
      return world.network.calls_of(node.id(), "directory.watch");
    };
    std::vector<std::uint64_t> before;
    for (const auto& node : world.nodes) before.push_back(answers(*node));
    for (int i = 0; i < 600; ++i) {
      world.nodes[5]->directory.publish("k", "", text_bytes(std::to_string(i)), 30s);
      co_await world.sleep(200ms);
    }
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < world.nodes.size(); ++i) all += answers(*world.nodes[i]) - before[i];
    CHECK(4 * (answers(*world.nodes[0]) - before[0]) < all);
    watches.clear();
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: one of two servers dies and nothing is lost") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(2, 5, false);
    for (std::size_t i = 2; i < 7; ++i) world.nodes[i]->directory.publish("k", "", text_bytes("x"), 30s);
    co_await world.sleep(5s);
    co_await world.kill(0);
    for (int second = 0; second < 60; ++second) {
      co_await world.sleep(1s);
      CHECK(world.all_see(1, "peer", second < 30 ? world.nodes[1]->sees("peer") : 6));
      const TimePoint deadline = world.simulation.clock().now() + 3s;
      const auto got = co_await world.nodes[5]->directory.get("k", deadline);
      REQUIRE(got);
      CHECK(got->size() == 5);
    }
    std::vector<Duration> seen_after;
    world.nodes[4]->directory.publish("k", "", text_bytes("new"), 30s);
    co_await watch_for(world, *world.nodes[6], "k", "new", seen_after, world.simulation.clock().now());
    CHECK(seen_after[0] < 10s);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: all bootstrap nodes die and the standing servers go on") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    World world(seed);
    const auto scenario = [&]() -> Task<> {
      world.add_swarm(2, 12);
      co_await world.sleep(10s);
      co_await world.kill(0);
      co_await world.kill(1);
      co_await world.sleep(45s);
      CHECK(world.all_see(2, "peer", 12));
      for (std::size_t i = 2; i < world.nodes.size(); ++i) {
        CHECK(world.nodes[i]->directory.connected());
        std::size_t standing = 0;
        for (const PeerId& id : world.nodes[i]->server.servers().ids()) {
          standing += world.nodes[i]->server.servers().is_bootstrap(id) ? 0U : 1U;
        }
        CHECK(standing == 8);
      }
      // news still travel as fast as ever
      std::vector<Duration> seen_after;
      world.nodes[4]->directory.publish("k", "", text_bytes("new"), 30s);
      co_await watch_for(world, *world.nodes[9], "k", "new", seen_after, world.simulation.clock().now());
      CHECK(seen_after[0] < 1s);
      co_await world.stop();
    };
    world.run(scenario());
  }
}

TEST_CASE("swarm directory: one contact between two halves joins them within 30 s") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(seed);
    const auto scenario = [&]() -> Task<> {
      const PeerId first = test::test_identity(1).id();
      const PeerId second = test::test_identity(2).id();
      world.add(1, {first});
      world.add(2, {second});
      const bool reachable = seed % 2 == 0;
      for (unsigned i = 3; i < 13; ++i) world.add(i, {i % 2 == 0 ? first : second}, reachable);
      co_await world.sleep(20s);
      CHECK(world.all_see(0, "peer", 6));
      Contact contact;
      contact.id = seed % 4 < 2 ? second : world.nodes[6]->id();  // a server of the other half, or just a peer
      contact.addresses.push_back({"192.0.2.2", 4600});
      world.nodes[seed % 2 == 0 ? 3 : 5]->directory.meet(contact);
      const auto joined = [&] { return world.all_see(0, "peer", 12); };
      const Duration took = co_await world.until(joined, 60s);
      CHECK(took <= 30s);
      world.nodes[11]->directory.publish("k", "", text_bytes("x"), 30s);
      co_await world.sleep(15s);
      for (const auto& node : world.nodes) {
        const TimePoint deadline = world.simulation.clock().now() + 5s;
        const auto got = co_await node->directory.get("k", deadline);
        REQUIRE(got);
        CHECK(got->size() == 1);
      }
      co_await world.stop();
    };
    world.run(scenario());
  }
}

TEST_CASE("swarm directory: what is withdrawn is gone at once and stays gone") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(2, 5, false);
    const auto watch = world.nodes[2]->directory.watch("k");
    for (std::size_t i = 2; i < 7; ++i) world.nodes[i]->directory.publish("k", "", text_bytes("x"), 30s);
    co_await world.sleep(5s);
    CHECK(watch->records().size() == 5);
    world.nodes[3]->directory.withdraw("k", "");
    CHECK(co_await watch->changed_until(world.simulation.clock().now() + 500ms));
    CHECK(watch->records().size() == 4);
    for (int second = 0; second < 120; ++second) {
      co_await world.sleep(1s);
      CHECK(watch->records().size() == 4);
    }
    CHECK_FALSE(co_await watch->changed_until(world.simulation.clock().now() + 60s));  // renewals are no changes
    co_await world.kill(6);
    CHECK(co_await watch->changed_until(world.simulation.clock().now() + 31s));  // its record expires
    CHECK(watch->records().size() == 3);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: a node whose clock went back goes above what the servers keep of it") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(2, 3, false);
    world.nodes[4]->directory.publish("k", "", text_bytes("before"), 100s);
    co_await world.sleep(5s);
    co_await world.nodes[4]->stop();

    DirectoryNode::Options again;
    again.number = 50;
    again.bootstrap = {world.nodes[0]->id(), world.nodes[1]->id()};
    again.clock_behind_ms = 20'000;
    DirectoryNode restarted(world.simulation, world.network, again);
    // the same key pair as node 4, in a process that started with its clock 20 s behind
    SwarmDirectory directory(restarted.endpoint, world.simulation.clock(), Random(5), restarted.log,
                             world.simulation.executor(), world.simulation.executor(), world.nodes[4]->identity,
                             restarted.server, restarted.contacts, {});
    TaskGroup tasks(world.simulation.executor(), rethrow);
    tasks.spawn("directory", directory.run());
    directory.publish("k", "", text_bytes("after"), 100s);
    std::vector<Duration> seen_after;
    co_await watch_for(world, *world.nodes[2], "k", "after", seen_after, world.simulation.clock().now());
    CHECK(seen_after[0] < 2s);
    co_await tasks.stop();
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: the only server restarts with nothing, and soon has what others say") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(1, 3, false);
    world.nodes[1]->directory.publish("k", "", text_bytes("by one"), 100s);
    world.nodes[2]->directory.publish("k", "", text_bytes("by another"), 100s);
    co_await world.sleep(5s);
    REQUIRE(world.nodes[0]->sees("k") == 2);
    co_await world.nodes[0]->stop();
    DirectoryNode::Options again;
    again.number = again.life = 1;
    DirectoryNode restarted(world.simulation, world.network, again);
    restarted.start();
    const auto has_both = [&] { return restarted.sees("k") == 2; };
    const Duration took = co_await world.until(has_both, 60s);
    CHECK(took < 6s);  // what was asked of its former life ends after 5 s here; renewed they would be after 33 s
    co_await restarted.stop();
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: the only server is away for a while, and has what others say as soon as it can be met") {
  for (unsigned away = 12; away < 20; ++away) {
    CAPTURE(away);
    World world(away);
    const auto scenario = [&]() -> Task<> {
      world.add_swarm(1, 2, false);
      world.nodes[1]->directory.publish("k", "", text_bytes("by one"), 100s);
      world.nodes[2]->directory.publish("k", "", text_bytes("by another"), 100s);
      co_await world.sleep(5s);
      co_await world.kill(0);
      co_await world.sleep(std::chrono::seconds(away));
      DirectoryNode::Options again;
      again.number = again.life = 1;
      DirectoryNode restarted(world.simulation, world.network, again);
      restarted.start();
      world.network.revive(restarted.id());
      const auto has_both = [&] { return restarted.sees("k") == 2; };
      const Duration took = co_await world.until(has_both, 60s);
      CHECK(took < 1s);  // who was last in vain waits up to eight
      co_await restarted.stop();
      co_await world.stop();
    };
    world.run(scenario());
  }
}

TEST_CASE("server: what no honest peer puts is refused with its reason, what is malformed as a whole too") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(1, 1, false);
    co_await world.sleep(2s);
    DirectoryNode& evil = *world.nodes[1];
    const PeerId server = world.nodes[0]->id();
    const std::int64_t now_ms = world.simulation.clock().unix_ms();
    const auto make = [&](std::uint64_t sequence, std::int64_t expires_ms, std::string run) {
      Record draft;
      draft.key = "k";
      draft.sequence = sequence;
      draft.expires_ms = expires_ms;
      draft.value = text_bytes("x");
      return sign_record(evil.identity, std::move(run), std::move(draft));
    };
    std::vector<SignedRecord> records = {make(5, now_ms + 1000, "bengali"),   make(4, now_ms + 9000, "bengali"),
                                         make(6, now_ms - 9000, "bengali"),   make(6, now_ms + 200'000, "bengali"),
                                         make(6, now_ms + 1000, "other run"), make(6, now_ms + 1000, "bengali")};
    records[5].record.owner = world.nodes[0]->id();
    std::vector<const SignedRecord*> list;
    for (const SignedRecord& record : records) list.push_back(&record);
    wire::Put put;
    put.records = 6;
    const TimePoint deadline = world.simulation.clock().now() + 5s;
    Frame request = frame::encode(wire::Header(put), wire::pack_records(list));
    const auto answer = co_await evil.endpoint.call(server, "directory.put", request, deadline);
    REQUIRE(answer.has_value());
    const auto stored = frame::decode<wire::Header>(**answer);
    REQUIRE(stored);
    std::vector<int> codes;
    for (const auto& outcome : std::get<wire::Stored>(stored->header).outcomes) codes.push_back(outcome.code);
    const auto code = [](Errc errc) { return 1 + static_cast<int>(errc); };
    CHECK(codes ==
          std::vector<int>{0, 1, code(Errc::stale), code(Errc::bad_request), code(Errc::denied), code(Errc::denied)});

    for (const std::string method : {"directory.put", "directory.get", "directory.watch", "directory.exchange"}) {
      CAPTURE(method);
      Frame garbage = std::make_shared<const Buffer>(text_bytes("no frame at all"));
      const auto refused = co_await evil.endpoint.call(server, method, garbage, deadline);
      CHECK(refused.error().code == Errc::bad_request);
      Frame other = frame::encode(wire::Header(wire::Fetched()));
      const auto wrong = co_await evil.endpoint.call(server, method, other, deadline);
      CHECK(wrong.error().code == Errc::bad_request);
    }
    wire::Get get;
    get.key = "k";
    get.known.resize(3);
    Frame torn = frame::encode(wire::Header(get));
    CHECK((co_await evil.endpoint.call(server, "directory.get", torn, deadline)).error().reason == "known");
    put.records = 7;  // one more than there are
    Frame short_list = frame::encode(wire::Header(put), wire::pack_records(list));
    const auto refused = co_await evil.endpoint.call(server, "directory.put", short_list, deadline);
    CHECK(refused.error().code == Errc::bad_request);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("server: one peer has at most 32 watches, the next is busy") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(1, 1, false);
    std::size_t busy = 0;
    std::size_t answered = 0;
    const auto watch = [&]() -> Task<> {
      wire::Get get;
      get.key = "nothing here";
      get.wait_ms = 20'000;
      const TimePoint deadline = world.simulation.clock().now() + 30s;
      Frame request = frame::encode(wire::Header(get));
      const auto answer =
          co_await world.nodes[1]->endpoint.call(world.nodes[0]->id(), "directory.watch", request, deadline);
      if (answer) ++answered;
      if (!answer && answer.error().code == Errc::busy) ++busy;
    };
    TaskGroup tasks(world.simulation.executor(), rethrow);
    for (int i = 0; i < 40; ++i) tasks.spawn("watch", watch());
    co_await tasks.join();
    CHECK(answered + busy == 40);
    CHECK(answered <= 32);
    CHECK(answered >= 30);  // the node's own watch counts too
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("server: one that missed everything has it after a comparison") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(2, 5, false);
    for (std::size_t i = 2; i < 7; ++i) world.nodes[i]->directory.publish("k", "", text_bytes("x"), 90s);
    co_await world.sleep(5s);
    const std::size_t records = world.nodes[0]->server.storage().size();
    const PeerId third = test::test_identity(77).id();
    DirectoryNode& late = world.add(77, {world.nodes[0]->id(), world.nodes[1]->id(), third});
    const auto caught_up = [&] { return late.server.storage().size() >= records; };
    const Duration took = co_await world.until(caught_up, 20s);
    CHECK(took <= 12s);
    CHECK(late.sees("k") == 5);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("server: a bucket of any size is compared in pieces that fit an answer") {
  World world;
  const auto scenario = [&]() -> Task<> {
    world.add_swarm(2, 0);
    co_await world.sleep(1s);
    Server& full = world.nodes[0]->server;
    std::size_t in_one_bucket = 0;
    for (unsigned owner = 1000; in_one_bucket < wire::kVersionsMax + 300; ++owner) {
      const Identity identity = test::test_identity(owner);
      unsigned of_owner = 0;
      for (unsigned i = 0; of_owner < 60; ++i) {  // whoever makes records chooses where they lie
        Record draft;
        draft.key = "k";
        draft.owner = identity.id();
        draft.subkey = std::to_string(i);
        draft.sequence = 1;
        draft.expires_ms = full.unix_ms() + 60'000;
        if (slot_of(draft)[0] >= 256 / kBuckets) continue;
        const auto kept = full.accept(sign_record(identity, "bengali", draft), Storage::Source::read);
        REQUIRE(kept.outcome == Storage::Outcome::stored);
        ++of_owner;
        ++in_one_bucket;
      }
    }
    const std::size_t records = full.storage().size();
    const auto equal = [&] { return world.nodes[1]->server.storage().size() >= records; };
    const Duration took = co_await world.until(equal, 30s);
    CHECK(took < 30s);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: without any server nothing is founded, get says gone, nobody is connected") {
  World world;
  const auto scenario = [&]() -> Task<> {
    const PeerId nobody = test::test_identity(99).id();
    world.add(3, {nobody});
    co_await world.sleep(30s);
    CHECK_FALSE(world.nodes[0]->directory.connected());
    const TimePoint deadline = world.simulation.clock().now() + 5s;
    const auto got = co_await world.nodes[0]->directory.get("k", deadline);
    CHECK(got.error() == Errc::gone);
    co_await world.stop();
  };
  world.run(scenario());
}

TEST_CASE("swarm directory: equal seeds, equal messages") {
  const auto fingerprint = [] {
    World world(42);
    std::size_t calls = 0;
    const auto scenario = [&]() -> Task<> {
      world.add_swarm(2, 4);
      co_await world.sleep(60s);
      for (const auto& node : world.nodes) calls = calls * 31 + node->server.storage().latest("peer");
      co_await world.stop();
    };
    world.run(scenario());
    return calls;
  };
  CHECK(fingerprint() == fingerprint());
}

}  // namespace collab::directory
