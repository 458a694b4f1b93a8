#include "node/node.hpp"
#include "swarm_node.hpp"

#include <algorithm>
#include <set>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using namespace std::chrono_literals;
using test::SimRun;
using test::SwarmNode;

constexpr unsigned char kPeers = 44;  // that can be dialled: more than 2 k, so records lie at the nodes nearest to them

Task<> join_and_start(SimRun& run, SwarmNode& peer, std::size_t& failures) {
  const auto joined = co_await peer.node->join(run.in(60s));
  if (!joined) ++failures;
  if (joined) peer.start();
}

/// Whether its directory finds keys by their places.
bool routes(SwarmNode& peer) {
  return peer.node->directory().router().totals().look_ups > 0;
}

std::size_t members_seen_by(const SwarmNode& peer) {
  return peer.node->members().size();
}

}  // namespace

TEST_CASE("sim node: a large swarm outlives its only coordinator, and who knows one old peer's address gets in") {
  SimRun run(7);
  run.run([&]() -> Task<> {
    SwarmNode& coordinator = run.add_coordinator();
    std::size_t failures = 0;
    TaskGroup joining(run.world.executor(), rethrow);
    for (unsigned char i = 2; i < 2 + kPeers; ++i) {
      SwarmNode& peer = run.add(i, "peer" + std::to_string(i), run.options());
      joining.spawn("join", join_and_start(run, peer, failures));
    }
    co_await joining.join();
    REQUIRE(failures == 0);
    const auto all_route = [&] {
      return std::all_of(run.nodes.begin(), run.nodes.end(), [](const auto& node) { return routes(*node); });
    };
    const auto took = co_await run.until(all_route, 120s);
    CHECK(took < 60s);
    const auto all_know_all = [&] {
      return std::all_of(run.nodes.begin(), run.nodes.end(),
                         [](const auto& node) { return members_seen_by(*node) == kPeers + 1U; });
    };
    const auto complete = co_await run.until(all_know_all, 120s);
    CHECK(complete < 60s);

    co_await run.kill(coordinator);
    co_await run.sleep(20s);
    for (std::size_t i = 1; i < run.nodes.size(); ++i) CHECK(run.nodes[i]->node->directory().connected());
    run.nodes[9]->node->directory().publish("said later", "", Bytes(3, std::byte(1)), 60s);
    co_await run.sleep(3s);
    const auto read = co_await run.nodes[30]->node->directory().get("said later", run.in(10s));
    REQUIRE(read);
    CHECK(read->size() == 1);

    SwarmNode& late = run.add(200, "late", run.options("peer17:4600"));
    co_await join_and_start(run, late, failures);
    REQUIRE(failures == 0);
    const auto is_known = [&] {
      return members_seen_by(*run.nodes[40]) > kPeers && routes(late) && members_seen_by(late) >= kPeers;
    };
    const auto in = co_await run.until(is_known, 90s);
    CHECK(in < 60s);
    const auto again = co_await late.node->directory().get("said later", run.in(10s));
    REQUIRE(again);
    CHECK(again->size() == 1);
  });
}

}  // namespace collab::node
