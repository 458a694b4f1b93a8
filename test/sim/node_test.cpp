#include "node/node.hpp"

#include "base/file.hpp"
#include "support/temp_folder.hpp"
#include "swarm_node.hpp"

#include <algorithm>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using namespace std::chrono_literals;
using test::identity;
using test::SimRun;
using test::SwarmNode;

using Joined = boost::system::result<Manifest, Refusal>;

Task<> join_and_start(SimRun& run, SwarmNode& peer, std::vector<std::string>& problems) {
  const auto joined = co_await peer.node->join(run.in(60s));
  if (!joined) {
    problems.push_back(joined.error().reason);
    FAIL_CHECK(joined.error().reason);
    co_return;
  }
  peer.start();
}

/// How many members `peer` sees that others have dialled.
std::size_t reachable_seen_by(const SwarmNode& peer) {
  const auto members = peer.node->members();
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(), [](const Member& member) { return member.record.reachable; }));
}

bool all_see(const SimRun& run, std::size_t first, std::size_t count) {
  return std::all_of(run.nodes.begin() + static_cast<std::ptrdiff_t>(first), run.nodes.end(),
                     [&](const auto& peer) { return reachable_seen_by(*peer) == count; });
}

/// Founder's `join` of one stranger, and its text.
Joined refused_join(NodeOptions options, std::function<void(Manifest&)> change = {},
                    std::filesystem::path allow_list = {}) {
  SimRun run;
  std::optional<Joined> joined;
  run.run([&]() -> Task<> {
    run.add_coordinator(change, allow_list);
    SwarmNode& peer = run.add(2, "peer", options);
    joined = co_await peer.node->join(run.in(20s));
    CHECK(run.world.clock().now() < TimePoint(25s));
    const Failure failure = peer.node->join_failure(joined->error());
    CHECK(failure.cause().starts_with(joined->error().reason));
  });
  return *joined;
}

/// Counts what its node asks of it.
class CountingRole final : public Role {
 public:
  explicit CountingRole(Clock& clock) : clock_(clock) {}
  std::string_view name() const override { return "count"; }
  Task<> run() override {
    running = true;
    struct Ended {
      bool& value;
      ~Ended() { value = false; }
    };
    const Ended ended{running};
    co_await clock_.sleep_until(TimePoint::max());
  }
  Task<> drain(TimePoint deadline) override {
    drained_while_running = running;
    co_await clock_.sleep_until(std::min(deadline, clock_.now() + 100ms));
  }
  double load() const override { return running ? 1 : 0; }

  bool running = false;
  bool drained_while_running = false;

 private:
  Clock& clock_;
};

}  // namespace

TEST_CASE("sim node: a coordinator and four peers find each other; when it dies the others go on and a fifth joins") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SimRun run(seed);
    run.run([&]() -> Task<> {
      SwarmNode& coordinator = run.add_coordinator();
      std::vector<std::string> problems;
      TaskGroup joining(run.world.executor(), rethrow);
      for (unsigned char i = 2; i <= 5; ++i) {
        SwarmNode& peer = run.add(i, "peer" + std::to_string(i), run.options());
        joining.spawn("join", join_and_start(run, peer, problems));
      }
      co_await joining.join();
      if (!problems.empty()) co_return;
      const auto together_now = [&] { return all_see(run, 0, 5); };
      const auto together = co_await run.until(together_now, 30s);
      CHECK(together < 20s);
      for (const auto& peer : run.nodes) {
        CHECK(peer->node->reachability().state() == nat::State::open);
        CHECK(peer->node->manifest() == coordinator.node->manifest());
        CHECK(peer->node->directory().connected());
      }

      co_await run.kill(coordinator);
      const auto noticed_now = [&] { return all_see(run, 1, 4); };
      const auto noticed = co_await run.until(noticed_now, 180s);
      CHECK(noticed < 150s);  // its record expires
      for (std::size_t i = 1; i < run.nodes.size(); ++i) CHECK(run.nodes[i]->node->directory().connected());

      SwarmNode& late = run.add(6, "late", run.options("peer4:4600"));
      co_await join_and_start(run, late, problems);
      if (!problems.empty()) co_return;
      const auto joined_now = [&] { return all_see(run, 1, 5); };
      const auto joined = co_await run.until(joined_now, 60s);
      CHECK(joined < 45s);
    });
  }
}

TEST_CASE("sim node: what a member says of itself is not signed and sent again while it stays the same") {
  SimRun run;
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator();
    std::vector<std::string> problems;
    TaskGroup joining(run.world.executor(), rethrow);
    for (unsigned char i = 2; i <= 4; ++i) {
      SwarmNode& peer = run.add(i, "peer" + std::to_string(i), run.options());
      joining.spawn("join", join_and_start(run, peer, problems));
    }
    std::map<PeerId, directory::Record> last;
    std::size_t seen = 0;
    const TimePoint renewals = run.in(15s);  // of a record of 60 s
    while (run.world.clock().now() < renewals) {
      const auto records = co_await coordinator.node->directory().get(std::string(directory::kPeerKey), renewals);
      for (const directory::Record& record : records ? *records : std::vector<directory::Record>()) {
        directory::Record& before = last[record.owner];
        if (before.sequence == record.sequence) continue;
        CHECK(before.value != record.value);
        before = record;
        ++seen;
      }
      co_await run.sleep(50ms);
    }
    co_await joining.join();
    CHECK(last.size() == 4);
    CHECK(seen > last.size());  // some were judged meanwhile
  });
}

TEST_CASE("sim node: a peer that comes back finds the run by what its home keeps, without any address") {
  const test::TempFolder folder;
  SimRun run;
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator();
    NodeOptions options = run.options();
    std::vector<std::string> problems;
    SwarmNode& other = run.add(3, "other", options);
    co_await join_and_start(run, other, problems);
    options.home = folder.path() / "home";
    options.run_book = folder.path() / "runs.toml";
    SwarmNode& peer = run.add(2, "peer", options);
    co_await join_and_start(run, peer, problems);
    if (!problems.empty()) co_return;
    co_await run.sleep(90s);  // contacts are written once a minute
    CHECK(read_run_book({options.run_book}).at("demo").authority == identity(1).id());
    co_await peer.stop();
    co_await run.kill(coordinator);

    options.bootstrap.clear();
    options.run_book.clear();
    SwarmNode& again = run.add(2, "peer-again", options);
    CHECK(again.node->stored().has_value());
    co_await join_and_start(run, again, problems);
    if (!problems.empty()) co_return;
    CHECK(again.node->is_member());
  });
}

TEST_CASE("sim node: who leaves in order is missed at once, and the good-bye is short") {
  SimRun run;
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator();
    std::vector<std::string> problems;
    SwarmNode& peer = run.add(2, "peer", run.options());
    co_await join_and_start(run, peer, problems);
    if (!problems.empty()) co_return;
    const auto seen_now = [&] { return reachable_seen_by(coordinator) == 2; };
    const auto seen = co_await run.until(seen_now, 30s);
    CHECK(seen < 30s);
    const TimePoint start = run.world.clock().now();
    co_await peer.node->leave();
    co_await peer.stop();
    CHECK(run.world.clock().now() - start <= 2s);
    const auto missed_now = [&] { return coordinator.node->members().size() == 1; };
    const auto missed = co_await run.until(missed_now, 30s);
    CHECK(missed < 2s);
  });
}

TEST_CASE("sim node: a role runs with its node, and drains before the node leaves") {
  SimRun run;
  run.run([&]() -> Task<> {
    run.add_coordinator();
    std::vector<std::string> problems;
    SwarmNode& peer = run.add(2, "peer", run.options());
    CountingRole role(peer.host.clock());
    peer.node->add(role);
    co_await join_and_start(run, peer, problems);
    if (!problems.empty()) co_return;
    co_await run.sleep(1s);
    CHECK(role.load() == 1);
    co_await peer.node->leave();
    CHECK(role.drained_while_running);
    co_await peer.stop();
    CHECK_FALSE(role.running);
  });
}

TEST_CASE("sim node: a client takes part without being dialled, and says so") {
  SimRun run;
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator();
    std::vector<std::string> problems;
    NodeOptions options = run.options();
    options.client = true;
    SwarmNode& peer = run.add(2, "peer", options);
    co_await join_and_start(run, peer, problems);
    if (!problems.empty()) co_return;
    const auto seen_now = [&] { return coordinator.node->members().size() == 2; };
    const auto seen = co_await run.until(seen_now, 30s);
    CHECK(seen < 5s);
    CHECK(peer.node->reachability().state() == nat::State::outbound_only);
    CHECK(peer.node->endpoint().listening().empty());
    for (const Member& member : coordinator.node->members()) {
      if (member.peer != peer.node->self()) continue;
      CHECK_FALSE(member.record.reachable);
      CHECK(member.record.listen.empty());
    }
  });
}

TEST_CASE("sim node: a newer manifest reaches every member, and what only a new run may change is refused") {
  SimRun run;
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator();
    std::vector<std::string> problems;
    SwarmNode& peer = run.add(2, "peer", run.options());
    co_await join_and_start(run, peer, problems);
    if (!problems.empty()) co_return;
    co_await run.sleep(5s);
    Manifest changed = coordinator.node->manifest();
    changed.sequence = 2;
    changed.target_batch = 8192;
    Manifest other_model = changed;
    other_model.recipe = "{}";
    const auto refused = co_await coordinator.node->manifest_keeper().offer(sign_manifest(identity(1), other_model));
    CHECK(refused.error().code == Errc::bad_request);
    const auto taken = co_await coordinator.node->manifest_keeper().offer(sign_manifest(identity(1), changed));
    CHECK(taken.has_value());
    const auto known_now = [&] { return peer.node->manifest().target_batch == 8192; };
    const auto known = co_await run.until(known_now, 30s);
    CHECK(known < 15s);
  });
}

TEST_CASE("sim node: nobody there: retried until the deadline, then said with each address") {
  SimRun run;
  run.run([&]() -> Task<> {
    run.network.add_host("silent");
    NodeOptions options = run.options("nowhere:4600");
    options.bootstrap.push_back(parse_peer_address("silent:4600"));
    SwarmNode& peer = run.add(2, "peer", options);
    std::size_t told = 0;
    peer.log.observe(
        [&](LogLevel, std::string_view event, Log::Fields) { told += event == "node.run_not_found" ? 1 : 0; });
    const TimePoint start = run.world.clock().now();
    const auto joined = co_await peer.node->join(run.in(150s));
    CHECK_FALSE(joined.has_value());
    if (joined) co_return;
    CHECK(run.world.clock().now() - start > 120s);
    CHECK(joined.error().code == Errc::gone);
    CHECK(joined.error().reason.find("cannot join demo: none of 2 addresses answered (nowhere:4600 refused, "
                                     "silent:4600 refused)") == 0);
    CHECK(told >= 2);
    CHECK(told <= 3);  // once a minute
    CHECK_FALSE(peer.node->is_member());
  });
}

TEST_CASE("sim node: a bit that flips while a peer joins, wherever it does, is no reason to give up") {
  for (int at_ms = 0; at_ms < 400; at_ms += 20) {  // dials, handshakes, hello, question, answer
    CAPTURE(at_ms);
    SimRun run;
    run.run([&]() -> Task<> {
      run.add_coordinator();
      SwarmNode& peer = run.add(2, "peer", run.options());
      TaskGroup faults(run.world.executor(), rethrow);
      const auto flip = [&]() -> Task<> {
        co_await run.world.clock().sleep_until(run.in(1ms * at_ms));
        run.network.corrupt(peer.host);
      };
      faults.spawn("flip", flip());
      const auto joined = co_await peer.node->join(run.in(20s));
      CHECK(joined);
      co_await faults.stop();
    });
  }
}

TEST_CASE("sim node: places that have answered are not dialled again") {
  SimRun run;
  run.run([&]() -> Task<> {
    run.add_coordinator();
    std::vector<std::string> problems;
    for (unsigned char i = 2; i <= 5; ++i) {
      NodeOptions options = run.options();
      for (int peer = 2; peer <= 5; ++peer)
        options.bootstrap.push_back(parse_peer_address("peer" + std::to_string(peer) + ":4600"));
      options.bootstrap.push_back(parse_peer_address("nobody:4600"));
      co_await join_and_start(run, run.add(i, "peer" + std::to_string(i), options), problems);
    }
    if (!problems.empty()) co_return;
    const auto broken_off = [&] {  // by who dialled, since the two are connected
      double count = 0;
      for (const auto& peer : run.nodes)
        count += peer->metrics.value("collab_refused_total", {{"reason", "handshake"}});
      return count;
    };
    co_await run.sleep(15s);
    const double once = broken_off();
    CHECK(once > 0);
    co_await run.sleep(60s);
    CHECK(broken_off() == once);
  });
}

TEST_CASE("sim node: another run, a wrong key and a list without us are told in the words of who said so") {
  SimRun some;
  NodeOptions options = some.options();
  options.run.run_id = "other";
  const Joined other_run = refused_join(options);
  CHECK(other_run.error().reason.find("cannot join other: coordinator:4600 says: run: ") == 0);
  CHECK(other_run.error().reason.find("\"demo\"") != std::string::npos);

  options = some.options();
  options.run.authority = identity(9).id();
  const Joined wrong_key = refused_join(options);
  CHECK(wrong_key.error().code == Errc::denied);
  CHECK(wrong_key.error().reason.find(identity(9).id().text()) != std::string::npos);
  CHECK(wrong_key.error().reason.find(identity(1).id().text()) != std::string::npos);

  options = some.options(identity(9).id().text() + "@coordinator:4600");
  const Joined somebody_else = refused_join(options);
  CHECK(somebody_else.error().reason.find(identity(9).id().text()) != std::string::npos);

  const test::TempFolder folder;
  const auto list = folder.path() / "allowed";
  write_file(list, identity(3).id().text() + "\n");
  const auto by_list = [](Manifest& manifest) { manifest.admission = Admission::allow_list; };
  const Joined unwanted = refused_join(some.options(), by_list, list);
  CHECK(unwanted.error().code == Errc::denied);
  CHECK(unwanted.error().reason.find("cannot join demo: coordinator:4600 says: banned: ") == 0);
}

TEST_CASE("sim node: a home that belongs to another authority is no way in, both keys named") {
  const test::TempFolder folder;
  SimRun run;
  NodeOptions options = run.options();
  options.home = folder.path();
  save_manifest(options.home / "manifest.signed", sign_manifest(identity(9), test::manifest_of(identity(9))));
  const Joined by_sequence = refused_join(options);
  CHECK(by_sequence.error().code == Errc::denied);
  CHECK(by_sequence.error().reason.find(identity(9).id().text()) != std::string::npos);
  options.run.authority = identity(1).id();
  const Joined by_pin = refused_join(options);
  CHECK(by_pin.error().code == Errc::denied);
  CHECK(by_pin.error().reason.find(identity(1).id().text()) != std::string::npos);
}

TEST_CASE("sim node: same seed, same bytes at the same times") {
  const auto fingerprint = [](std::uint64_t seed) {
    SimRun run(seed);
    run.run([&]() -> Task<> {
      run.add_coordinator();
      std::vector<std::string> problems;
      SwarmNode& peer = run.add(2, "peer", run.options());
      co_await join_and_start(run, peer, problems);
      co_await run.sleep(30s);
    });
    return run.network.fingerprint();
  };
  CHECK(fingerprint(7) == fingerprint(7));
  CHECK(fingerprint(7) != fingerprint(8));
}

}  // namespace collab::node
