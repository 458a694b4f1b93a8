#include "directory/lease_record.hpp"
#include "support/directory_node.hpp"
#include "unit/directory/records.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "support/doctest.hpp"

namespace collab::directory {
namespace {

using namespace std::chrono_literals;
using test::DirectoryNode;
using test::MessageNetwork;
using test::test_identity;

const std::string kPass = lease_key(0);

SignedRecord lease(unsigned owner, Work work, std::uint64_t sequence = 1, std::int64_t expires_ms = kNow + 30'000) {
  Record draft;
  draft.key = kPass;
  draft.sequence = sequence;
  draft.expires_ms = expires_ms;
  if (!work.empty()) draft.value = encode_lease(work);
  return sign_record(test_identity(owner), "bengali", std::move(draft));
}

Work two_runs(std::uint64_t a, std::uint64_t b) {
  Work work({a, 16});
  work.add({b, 16});
  return work;
}

}  // namespace

TEST_CASE("lease record: it survives the trip, and nothing else is a lease") {
  Work work;
  for (std::uint64_t i = 0; i < kWorkRangesMax; ++i) work.add({1000 * i, 256});
  const Bytes bytes = encode_lease(work);
  CHECK(bytes.size() <= kValueBytesMax);
  CHECK(decode_lease(bytes).value() == work);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto shorter = decode_lease(std::span(bytes).first(size));
    CHECK(shorter.has_value() == (size > 0 && size % 12 == 0));
  }
  Work torn = work;
  for (std::uint64_t i = 0; i < 6; ++i) torn.add({1'000'000 + 1000 * i, 1});
  CHECK(decode_lease(encode_lease(torn)).value() == work);  // the first ones
  CHECK(decode_lease(encode_lease(Work({5, 2 * kLeaseUnitsMax}))).value() == Work({5, kLeaseUnitsMax}));
  Bytes greedy = encode_lease(Work({0, kLeaseUnitsMax}));
  CHECK(decode_lease(greedy).has_value());
  greedy[8] = std::byte(1);
  CHECK(decode_lease(greedy).error() == Errc::bad_request);

  Storage storage(bengali());
  Record draft;
  draft.key = kPass;
  draft.expires_ms = kNow + 1000;
  draft.value = test::text_bytes("all of it");
  const auto offered = storage.offer(sign_record(test_identity(1), "bengali", draft), kNow, Storage::Source::read);
  CHECK(offered.refusal.code == Errc::bad_request);
}

TEST_CASE("storage: a claim on what another has leased is refused, until that is released or expires") {
  Storage storage(bengali());
  const auto put = [&](SignedRecord record, std::int64_t now = kNow) {
    return storage.offer(std::move(record), now, Storage::Source::put);
  };
  CHECK(put(lease(1, two_runs(0, 64))).outcome == Storage::Outcome::stored);
  const auto refused = put(lease(2, two_runs(32, 70)));
  CHECK(refused.outcome == Storage::Outcome::refused);
  CHECK(refused.refusal.code == Errc::denied);
  CHECK(put(lease(2, two_runs(16, 80))).outcome == Storage::Outcome::stored);
  CHECK(put(lease(1, two_runs(0, 80), 2)).refusal.code == Errc::denied);  // what he has stays his
  CHECK(storage.find(slot_of(lease(1, {}).record))->record.sequence == 1);
  CHECK(put(lease(1, Work({0, 16}), 2)).outcome == Storage::Outcome::stored);  // lets 64 go
  CHECK(put(lease(3, Work({64, 16}))).outcome == Storage::Outcome::stored);
  CHECK(put(lease(3, {}, 2)).outcome == Storage::Outcome::stored);  // withdrawn
  CHECK(put(lease(4, Work({64, 16}))).outcome == Storage::Outcome::stored);
  const std::int64_t later = kNow + 31'000;
  CHECK(put(lease(5, Work({0, 16}), 1, later + 30'000), later).outcome == Storage::Outcome::stored);
  // who lets a lease lapse must claim it like everybody
  CHECK(put(lease(1, Work({0, 16}), 3, later + 30'000), later).refusal.code == Errc::denied);
}

TEST_CASE("storage: leases that come by others are kept side by side, and who was first may renew but not widen his") {
  Storage storage(bengali());
  CHECK(storage.offer(lease(1, Work({0, 32})), kNow, Storage::Source::read).outcome == Storage::Outcome::stored);
  CHECK(storage.offer(lease(2, Work({16, 32})), kNow, Storage::Source::handed_on).outcome == Storage::Outcome::stored);
  CHECK(storage.records(kPass, kNow).size() == 2);
  CHECK(storage.offer(lease(1, Work({0, 32}), 2), kNow, Storage::Source::put).outcome == Storage::Outcome::stored);
  CHECK(storage.offer(lease(1, Work({0, 33}), 3), kNow, Storage::Source::put).refusal.code == Errc::denied);
}

TEST_CASE("storage: a claim that failed elsewhere and was handed on here gives its owner no right") {
  Storage storage(bengali());
  CHECK(storage.offer(lease(1, Work({0, 16})), kNow, Storage::Source::put).outcome == Storage::Outcome::stored);
  CHECK(storage.offer(lease(2, Work({8, 16})), kNow, Storage::Source::handed_on).outcome == Storage::Outcome::stored);
  CHECK(storage.offer(lease(2, Work({8, 16})), kNow, Storage::Source::put).refusal.code == Errc::denied);
  CHECK(storage.offer(lease(2, Work({8, 16}), 2), kNow, Storage::Source::put).refusal.code == Errc::denied);
  CHECK(storage.offer(lease(2, Work({16, 8}), 2), kNow, Storage::Source::put).outcome == Storage::Outcome::stored);
  CHECK(storage.offer(lease(1, Work({0, 16}), 2), kNow, Storage::Source::put).outcome == Storage::Outcome::stored);
}

namespace {

/// Peers that claim, hold and let go; who holds what, as they believe.
struct Claims {
  explicit Claims(std::uint64_t seed) : network(world, seed), random(seed) {}

  void add(unsigned servers, unsigned peers) {
    std::vector<PeerId> bootstrap;
    for (unsigned i = 1; i <= servers; ++i) bootstrap.push_back(test_identity(i).id());
    for (unsigned i = 1; i <= servers + peers; ++i) {
      DirectoryNode::Options options;
      options.number = i;
      options.bootstrap = bootstrap;
      options.reachable = i <= servers;
      nodes.push_back(std::make_unique<DirectoryNode>(world, network, options));
      nodes.back()->start();
    }
  }

  Task<> sleep(Duration length) { return world.clock().sleep_until(world.clock().now() + length); }

  Task<> claim_and_hold(DirectoryNode& node, TimePoint end) {
    constexpr Duration kTtl = 20s;
    while (world.clock().now() < end) {
      const Work wanted({8 * random.below(8), 12});  // two neighbours overlap
      const TimePoint start = world.clock().now();
      Bytes value = encode_lease(wanted);
      const auto claimed = co_await node.directory.claim(kPass, "", std::move(value), kTtl, start + 3s);
      ++(claimed ? won : claimed.error() == Errc::denied ? lost : late);
      if (claimed) {
        for (const auto& [other, lease] : held)
          if (lease.second > world.clock().now() && lease.first.overlaps(wanted)) ++broken;
        held[node.id()] = {wanted, start + kTtl};
        co_await sleep(Duration(random.below(15'000'000'000)));
        held.erase(node.id());
        node.directory.withdraw(kPass, "");
      }
      co_await sleep(Duration(random.below(2'000'000'000)));
    }
  }

  sim::Simulation world;
  MessageNetwork network;
  Random random;
  std::vector<std::unique_ptr<DirectoryNode>> nodes;
  std::map<PeerId, std::pair<Work, TimePoint>> held;
  int won = 0;
  int lost = 0;
  int late = 0;
  int broken = 0;
};

}  // namespace

TEST_CASE("claim: no two peers ever hold the same unit, also when the servers are torn apart and joined") {
  int lost = 0;
  int late = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Claims claims(seed);
    const auto scenario = [&]() -> Task<> {
      claims.add(3 + static_cast<unsigned>(seed % 3), 5);
      co_await claims.sleep(3s);
      const TimePoint end = claims.world.clock().now() + 150s;
      TaskGroup tasks(claims.world.executor(), rethrow);
      for (auto& node : claims.nodes) tasks.spawn("claim", claims.claim_and_hold(*node, end));
      while (claims.world.clock().now() < end - 20s) {
        co_await claims.sleep(Duration(claims.random.below(15'000'000'000)));
        std::set<PeerId> side;
        for (const auto& node : claims.nodes)
          if (claims.random.chance(.4)) side.insert(node->id());
        claims.network.partition(side);
        co_await claims.sleep(Duration(claims.random.below(25'000'000'000)));
        claims.network.heal();
      }
      co_await tasks.join();
      for (auto& node : claims.nodes) co_await node->stop();
    };
    claims.world.run(scenario());
    CHECK(claims.broken == 0);
    CHECK(claims.won > 20);
    lost += claims.lost;
    late += claims.late;
  }
  CHECK(lost > 50);
  CHECK(late > 0);
}

TEST_CASE("claim: one that fails leaves what was published before, and without servers nobody can claim") {
  Claims claims(1);
  const auto scenario = [&]() -> Task<> {
    claims.add(3, 2);
    co_await claims.sleep(3s);
    auto& one = claims.nodes[3]->directory;
    auto& two = claims.nodes[4]->directory;
    const auto soon = [&] { return claims.world.clock().now() + 3s; };
    Bytes value = encode_lease(Work({0, 16}));
    const TimePoint first = soon();
    const auto mine = co_await one.claim(kPass, "", std::move(value), 30s, first);
    CHECK(mine.has_value());
    value = encode_lease(Work({16, 16}));
    const TimePoint second = soon();
    const auto theirs = co_await two.claim(kPass, "", std::move(value), 30s, second);
    CHECK(theirs.has_value());
    value = encode_lease(Work({0, 17}));
    const TimePoint third = soon();
    const auto denied = co_await one.claim(kPass, "", std::move(value), 30s, third);
    CHECK(denied.error() == Errc::denied);
    CHECK(claims.world.clock().now() < third - 2s);  // known as soon as half of them have said no
    co_await claims.sleep(1s);
    for (const auto& node : claims.nodes) {
      if (!node->is_bootstrap()) continue;
      const auto kept = node->server.storage().records(kPass, node->server.unix_ms());
      REQUIRE(kept.size() == 2);
      Work all;
      for (const SignedRecord* record : kept) all.add(decode_lease(record->record.value).value());
      CHECK(all == Work({0, 32}));
    }
    for (auto& node : claims.nodes) co_await node->stop();
  };
  claims.world.run(scenario());

  sim::Simulation world;
  MessageNetwork network(world, 1);
  DirectoryNode::Options options;
  options.number = 9;
  options.reachable = false;
  options.bootstrap = {test_identity(1).id()};
  DirectoryNode lonely(world, network, options);
  lonely.start();
  const auto alone = [&]() -> Task<> {
    Bytes value = encode_lease(Work({0, 16}));
    const TimePoint deadline = world.clock().now() + 3s;
    const auto claimed = co_await lonely.directory.claim(kPass, "", std::move(value), 30s, deadline);
    CHECK_FALSE(claimed.has_value());
    CHECK(lonely.sees(kPass) == 0);
    co_await lonely.stop();
  };
  world.run(alone());
}

}  // namespace collab::directory
