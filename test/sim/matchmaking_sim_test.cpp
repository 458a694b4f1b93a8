#include "sim/matchmaking_swarm.hpp"

#include "support/doctest.hpp"

namespace collab::matchmaking {
namespace {

using namespace std::chrono_literals;
using test::kTarget;
using test::MatchmakingSwarm;
using test::peer;
using test::SwarmLife;

constexpr Duration kLatencyMax = 40ms;
constexpr Duration kBoardDelay = 30ms;

std::vector<unsigned> without(std::vector<unsigned> numbers, unsigned gone) {
  std::erase(numbers, gone);
  return numbers;
}

/// They hold one and the same group, and it has exactly them.
void check_one_group(MatchmakingSwarm& swarm, const std::vector<unsigned>& numbers) {
  for (const unsigned number : numbers) {
    CAPTURE(number);
    REQUIRE(swarm.found[number].group);
    const Group& group = *swarm.found[number].group;
    CHECK(group.id == swarm.found[numbers[0]].group->id);
    CHECK(group.roster.size() == numbers.size());
    CHECK(check(group, peer(number), test::kValues));
  }
}

unsigned peers_for(std::uint64_t seed) {
  return 2 + static_cast<unsigned>(seed % 15);
}

}  // namespace

TEST_CASE("sim: once all have declared, the group begins within two round trips") {
  for (const std::uint64_t seed : test::seeds(120)) {
    CAPTURE(seed);
    MatchmakingSwarm swarm(peers_for(seed), seed, kBoardDelay);
    swarm.add_all();
    swarm.world.run(swarm.find_all(swarm.everybody(), 7));
    check_one_group(swarm, swarm.everybody());
    for (const auto& [number, found] : swarm.found) CHECK(found.at <= TimePoint(kBoardDelay + 4 * kLatencyMax));
  }
}

TEST_CASE("sim: a standing group begins one message after its leader knows that the batch is full, without directory") {
  for (const std::uint64_t seed : test::seeds(120)) {
    CAPTURE(seed);
    MatchmakingSwarm swarm(peers_for(seed), seed, kBoardDelay);
    swarm.add_all();
    TimePoint full_at{};
    const auto epochs = [&]() -> Task<> {
      co_await swarm.find_all(swarm.everybody(), 0);
      for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
        swarm.commit_all(swarm.everybody());
        for (const unsigned number : swarm.everybody()) swarm.board.cut_off(peer(number));
        TaskGroup tasks(swarm.world.executor(), rethrow);
        for (const unsigned number : swarm.everybody()) tasks.spawn("find", swarm.find(number, swarm.wanted(epoch)));
        co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 200ms);
        full_at = swarm.world.clock().now();
        const std::uint64_t share = kTarget / swarm.count + 1;
        for (const unsigned number : swarm.everybody()) swarm.matchmakers.at(number)->samples(epoch, share);
        co_await tasks.join();
        const unsigned leader = swarm.leader_of(epoch, swarm.everybody());
        CHECK(swarm.found[leader].at <= full_at + kLatencyMax);
        for (const auto& [number, found] : swarm.found) {
          CHECK(found.at >= full_at);
          CHECK(found.at <= swarm.found[leader].at + kLatencyMax + 1ms);
        }
        check_one_group(swarm, swarm.everybody());
      }
    };
    swarm.world.run(epochs());
  }
}

TEST_CASE("sim: a predicted batch begins nothing") {
  MatchmakingSwarm swarm(4, 1);
  swarm.add_all();
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(swarm.world.executor(), rethrow);
    for (const unsigned number : swarm.everybody()) tasks.spawn("find", swarm.find(number, swarm.wanted(1, 3s)));
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 500ms);
    swarm.matchmakers.at(2)->samples(1, kTarget - 1);
    co_await tasks.join();
  };
  swarm.world.run(scenario());
  for (const auto& [number, found] : swarm.found) CHECK(found.group.error() == NoGroup::late);
}

TEST_CASE("sim: when the leader dies or freezes while it gathers, the others form a group soon") {
  for (const std::uint64_t seed : test::seeds(120)) {
    CAPTURE(seed);
    const bool standing = seed % 2 == 0;
    const bool dies = (seed / 2) % 2 == 0;
    MatchmakingSwarm swarm(3 + static_cast<unsigned>(seed % 14), seed, kBoardDelay);
    swarm.add_all();
    const unsigned leader = swarm.leader_of(1, swarm.everybody());
    const auto rest = without(swarm.everybody(), leader);
    Random random(seed);
    const Duration moment = std::chrono::microseconds(random.below(300'000));
    TimePoint lost_at{};
    const auto scenario = [&]() -> Task<> {
      if (standing) {
        co_await swarm.find_all(swarm.everybody(), 0);
        swarm.commit_all(swarm.everybody());
      }
      TaskGroup tasks(swarm.world.executor(), rethrow);
      for (const unsigned number : swarm.everybody()) {
        tasks.spawn("find", swarm.find(number, swarm.wanted(1, 6s)));
      }
      co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + moment);
      lost_at = swarm.world.clock().now();
      if (dies) {
        swarm.net.kill(peer(leader));
      } else {
        swarm.net.freeze(peer(leader));
      }
      for (const unsigned number : rest) swarm.matchmakers.at(number)->samples(1, kTarget / rest.size() + 1);
      co_await tasks.join();
    };
    swarm.world.run(scenario());
    check_one_group(swarm, rest);
    for (const unsigned number : rest) CHECK(swarm.found[number].at <= lost_at + (dies ? 1200ms : 1600ms));
  }
}

TEST_CASE("sim: candidates that see different parts of the directory still form one group") {
  for (const std::uint64_t seed : test::seeds(120)) {
    CAPTURE(seed);
    MatchmakingSwarm swarm(peers_for(seed), seed, kBoardDelay);
    swarm.add_all();
    Random random(seed);
    const unsigned sighted = static_cast<unsigned>(random.below(swarm.count));
    for (const unsigned number : swarm.everybody()) {
      if (number != sighted && random.chance(0.5)) swarm.board.cut_off(peer(number));
    }
    const auto scenario = [&]() -> Task<> {
      // one after the other: whoever was early leads for a while
      TaskGroup tasks(swarm.world.executor(), rethrow);
      for (const unsigned number : swarm.everybody()) {
        tasks.spawn("find", swarm.find(number, swarm.wanted(1)));
        swarm.matchmakers.at(number)->samples(1, kTarget / swarm.count + 1);
        const Duration pause = std::chrono::microseconds(random.below(60'000));
        co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + pause);
      }
      co_await tasks.join();
    };
    swarm.world.run(scenario());
    check_one_group(swarm, swarm.everybody());
    for (const auto& [number, found] : swarm.found) CHECK(found.at <= TimePoint(3s));
  }
}

TEST_CASE("sim: a peer with other tensors is refused and told why; the others do not wait for it") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    const auto count = 3 + static_cast<unsigned>(seed % 6);
    MatchmakingSwarm swarm(count, seed, kBoardDelay);
    const unsigned stranger = static_cast<unsigned>(seed) % count;
    for (const unsigned number : swarm.everybody()) {
      auto options = swarm.options();
      if (number == stranger) options.schema[0] = 99;
      swarm.add(number, options);
    }
    for (const unsigned number : swarm.everybody()) swarm.matchmakers.at(number)->samples(1, kTarget / 2);
    swarm.world.run(swarm.find_all(swarm.everybody(), 1, /*full=*/false));
    CHECK(swarm.found[stranger].group.error() == NoGroup::schema_differs);
    CHECK(swarm.found[stranger].group.error().message().starts_with("schema differs"));
    const auto rest = without(swarm.everybody(), stranger);
    check_one_group(swarm, rest);
    for (const unsigned number : rest) CHECK(swarm.found[number].at < TimePoint(kBoardDelay + 6 * kLatencyMax));
  }
}

TEST_CASE("sim: a planned leave of the leader costs messages, not silence") {
  for (const std::uint64_t seed : test::seeds(40)) {
    CAPTURE(seed);
    MatchmakingSwarm swarm(3 + static_cast<unsigned>(seed % 8), seed, kBoardDelay);
    swarm.add_all();
    const unsigned leader = swarm.leader_of(1, swarm.everybody());
    const auto rest = without(swarm.everybody(), leader);
    TimePoint left_at{};  // with seed % 4 == 0 before it has searched at all
    const auto scenario = [&]() -> Task<> {
      co_await swarm.find_all(swarm.everybody(), 0);
      swarm.commit_all(swarm.everybody());
      TaskGroup tasks(swarm.world.executor(), rethrow);
      for (const unsigned number : swarm.everybody()) tasks.spawn("find", swarm.find(number, swarm.wanted(1)));
      const Duration pause = std::chrono::milliseconds(seed % 4 * 30);
      co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + pause);
      left_at = swarm.world.clock().now();
      for (const unsigned number : rest) swarm.matchmakers.at(number)->samples(1, kTarget / rest.size() + 1);
      co_await swarm.matchmakers.at(leader)->leave();
      co_await tasks.join();
    };
    swarm.world.run(scenario());
    check_one_group(swarm, rest);
    CHECK(swarm.found[leader].group.error() == NoGroup::left);
    for (const unsigned number : rest) CHECK(swarm.found[number].at <= left_at + 5 * kLatencyMax);
  }
}

TEST_CASE("sim: clients never lead and own nothing; auxiliaries own and count for no quorum") {
  MatchmakingSwarm swarm(5, 3);
  for (const unsigned number : swarm.everybody()) {
    auto options = swarm.options();
    if (number < 3) options.role = Role::client;
    if (number == 4) options.role = Role::auxiliary;
    swarm.add(number, options);
  }
  swarm.count = 4;  // senders
  for (const unsigned number : {0U, 1U, 2U, 3U}) swarm.matchmakers.at(number)->samples(1, kTarget / 4);
  swarm.world.run(swarm.find_all({0, 1, 2, 3, 4}, 1, /*full=*/false));
  check_one_group(swarm, {0, 1, 2, 3, 4});
  const Group& group = *swarm.found[0].group;
  CHECK(group.roster[0].units == 0);
  CHECK(group.roster[3].units + group.roster[4].units == test::kUnits);
  CHECK(group.roster[4].weight_max == 0);
}

namespace {

void add_two_clients_and_an_auxiliary(MatchmakingSwarm& swarm) {
  for (const unsigned number : swarm.everybody()) {
    auto options = swarm.options();
    options.role = number < 2 ? Role::client : Role::auxiliary;
    swarm.add(number, options);
  }
}

}  // namespace

TEST_CASE("sim: two who only dial and an auxiliary stand together from the second group on") {
  MatchmakingSwarm swarm(3, 4);
  add_two_clients_and_an_auxiliary(swarm);
  swarm.count = 2;  // senders
  for (std::uint64_t epoch = 1; epoch < 6; ++epoch) {
    CAPTURE(epoch);
    const TimePoint start = swarm.world.clock().now();
    for (const unsigned number : {0U, 1U}) swarm.matchmakers.at(number)->samples(epoch, kTarget / 2);
    swarm.world.run(swarm.find_all({0, 1, 2}, epoch, /*full=*/false));
    check_one_group(swarm, {0, 1, 2});
    const std::uint64_t auxiliary = std::uint64_t(1) << swarm.found[2].group->rank_of(peer(2)).value();
    for (const unsigned number : {0U, 1U, 2U}) {
      CHECK((epoch == 1 || swarm.found[number].at <= start + 5 * kLatencyMax));
      swarm.matchmakers.at(number)->committed(*swarm.found[number].group, ~auxiliary);  // it holds no result
    }
  }
}

TEST_CASE("sim: who gives a search up in the moment in which its group begins is in that group") {
  MatchmakingSwarm swarm(3, 5);
  swarm.add_all();
  const unsigned leader = swarm.leader_of(1, swarm.everybody());
  std::vector<unsigned> others = swarm.everybody();
  std::erase(others, leader);
  const auto give_up = [&]() -> Task<boost::system::error_code> {
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 3s);
    swarm.matchmakers.at(leader)->samples(1, kTarget);  // what was awaited: the others are told to begin
    co_return NoGroup::late;
  };
  const auto lead = [&]() -> Task<> {
    swarm.found[leader].group = co_await swarm.matchmakers.at(leader)->find_group(swarm.wanted(1), give_up());
  };
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("find", swarm.find_all(others, 1, /*full=*/false));
    tasks.spawn("lead", lead());
    co_await tasks.join();
  };
  swarm.world.run(scenario());
  check_one_group(swarm, swarm.everybody());
}

TEST_CASE("sim: an auxiliary leads who waits for others; without one nobody leads two who only dial") {
  MatchmakingSwarm swarm(3, 5);
  add_two_clients_and_an_auxiliary(swarm);
  const auto led = [&swarm](unsigned number) { return swarm.matchmakers.at(number)->is_led(); };
  const auto scenario = [&]() -> Task<> {
    swarm.count = 2;  // voters, of whom one is dead
    CHECK_FALSE(led(0));
    TaskGroup waits(swarm.world.executor(), rethrow);
    waits.spawn("find", swarm.find_all({0, 2}, 1));
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 8s);
    CHECK(led(0));
    CHECK(led(2));
    co_await waits.join();
    CHECK_FALSE(swarm.found[0].group);
    co_await swarm.matchmakers.at(2)->stop();
    TaskGroup dial(swarm.world.executor(), rethrow);
    dial.spawn("find", swarm.find_all({0, 1}, 1));
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 8s);
    CHECK_FALSE(led(0));
    CHECK_FALSE(led(1));
    co_await dial.join();
  };
  swarm.world.run(scenario());
}

TEST_CASE(
    "sim: who owns no segments any more, or does again, is in every group, with its new role from the second on") {
  for (unsigned changes = 0; changes < 5; ++changes) {  // each of them is to lead in one of the epochs
    MatchmakingSwarm swarm(5, 40 + changes);
    swarm.add_all();
    const PeerId id = peer(changes);
    const auto all = swarm.everybody();
    std::uint64_t epoch = 0;
    const auto next_epoch = [&](Role role) {
      CAPTURE(changes);
      CAPTURE(epoch);
      const TimePoint start = swarm.world.clock().now();
      swarm.world.run(swarm.find_all(all, epoch));
      for (const unsigned number : all) {
        const auto& found = swarm.found.at(number);
        REQUIRE(found.group);
        REQUIRE(found.group->roster.size() == 5);
        CHECK(found.group->roster[found.group->rank_of(id).value()].role == role);
        if (epoch > 0) CHECK(found.at - start < 500ms);
      }
      swarm.commit_all(all);
      ++epoch;
    };
    next_epoch(Role::node);
    for (unsigned again = 0; again < 4; ++again) {
      swarm.matchmakers.at(changes)->role(Role::client);
      next_epoch(Role::node);
      next_epoch(Role::client);
      swarm.matchmakers.at(changes)->role(Role::node);
      next_epoch(Role::client);
      next_epoch(Role::node);
      // it comes and goes between two searches: nobody is told something that is not so
      swarm.matchmakers.at(changes)->role(Role::client);
      next_epoch(Role::node);
      swarm.matchmakers.at(changes)->role(Role::node);
      next_epoch(Role::node);
      swarm.matchmakers.at(changes)->role(Role::client);
      next_epoch(Role::node);
      swarm.matchmakers.at(changes)->role(Role::node);
      next_epoch(Role::node);
    }
  }
}

TEST_CASE("sim: a group of one only for a peer that is the whole swarm") {
  for (const bool alone : {false, true}) {
    MatchmakingSwarm swarm(1, 1);
    swarm.add_all();
    Wanted wanted = swarm.wanted(1, 2s);
    wanted.alone = alone;
    const auto scenario = [&]() -> Task<> {
      TaskGroup tasks(swarm.world.executor(), rethrow);
      tasks.spawn("find", swarm.find(0, wanted));
      swarm.matchmakers.at(0)->samples(1, kTarget);
      co_await tasks.join();
    };
    swarm.world.run(scenario());
    if (alone) {
      REQUIRE(swarm.found[0].group);
      CHECK(swarm.found[0].group->roster.size() == 1);
      CHECK(swarm.found[0].at == TimePoint{});
    } else {
      CHECK(swarm.found[0].group.error() == NoGroup::alone);
    }
  }
}

TEST_CASE("sim: a group of one also for a peer that only dialled, when its groupmate is gone") {
  MatchmakingSwarm swarm(2, 1);
  for (const unsigned number : swarm.everybody()) {
    auto options = swarm.options();
    options.role = number == 0 ? Role::client : Role::node;
    swarm.add(number, options);
  }
  const auto scenario = [&]() -> Task<> {
    co_await swarm.find_all(swarm.everybody(), 0);
    REQUIRE(swarm.found[0].group);
    swarm.commit_all(swarm.everybody());
    swarm.net.kill(peer(1));
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 10s);
    swarm.matchmakers.at(0)->role(Role::node);
    Wanted wanted = swarm.wanted(1, 5s);
    wanted.alone = true;
    wanted.electorate = 1;
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("find", swarm.find(0, wanted));
    swarm.matchmakers.at(0)->samples(1, kTarget);
    co_await tasks.join();
  };
  swarm.world.run(scenario());
  REQUIRE(swarm.found[0].group);
  CHECK(swarm.found[0].group->roster.size() == 1);
  CHECK(swarm.found[0].group->roster[0].role == Role::node);
}

TEST_CASE("sim: who has searched alone, with another role than its groupmates know, is not presumed any more") {
  MatchmakingSwarm swarm(2, 1);
  for (const unsigned number : swarm.everybody()) {
    auto options = swarm.options();
    options.role = number == 0 ? Role::client : Role::node;
    swarm.add(number, options);
  }
  const auto scenario = [&]() -> Task<> {
    co_await swarm.find_all(swarm.everybody(), 0);
    swarm.commit_all(swarm.everybody());
    Matchmaker& client = *swarm.matchmakers.at(0);
    CHECK(client.is_presumed(1));
    client.role(Role::node);
    CHECK(client.is_presumed(1));  // they stand together as they were
    Wanted wanted = swarm.wanted(1, 1s);
    wanted.alone = true;
    co_await swarm.find(0, wanted);
    CHECK_FALSE(client.is_presumed(1));
  };
  swarm.world.run(scenario());
}

TEST_CASE("sim: an auxiliary that rests is declared no more, until it searches again: nobody asks it to lead") {
  MatchmakingSwarm swarm(3, 1);
  for (const unsigned number : swarm.everybody()) {
    auto options = swarm.options();
    options.role = number == 0 ? Role::client : number == 1 ? Role::node : Role::auxiliary;
    swarm.add(number, options);
  }
  const auto scenario = [&]() -> Task<> {
    const auto find_at = [&swarm](std::uint64_t epoch) -> Task<> {
      for (const unsigned number : {0U, 1U}) swarm.matchmakers.at(number)->samples(epoch, kTarget);
      co_await swarm.find_all(swarm.everybody(), epoch, /*full=*/false);
    };
    co_await find_at(0);
    const auto watch = swarm.board.view_of(peer(0)).watch(swarm.options().key);
    const auto declared = [&watch] {
      const auto records = watch->records();
      const auto is_its = [](const directory::Record& record) {
        return record.owner == peer(2) && !record.value.empty();
      };
      return std::any_of(records.begin(), records.end(), is_its);
    };
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 500ms);
    CHECK(declared());
    swarm.matchmakers.at(2)->rest();
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 500ms);
    CHECK_FALSE(declared());
    co_await find_at(7);
    CHECK(declared());
  };
  swarm.world.run(scenario());
}

TEST_CASE("sim: of two sides of a partition only the one with more than half of the peers begins") {
  for (const std::uint64_t seed : test::seeds(40)) {
    CAPTURE(seed);
    const auto count = 3 + static_cast<unsigned>(seed % 8);
    MatchmakingSwarm swarm(count, seed, kBoardDelay);
    swarm.add_all();
    std::set<PeerId> side;
    const unsigned fewer = (count - 1) / 2;
    for (unsigned i = 0; i < fewer; ++i) side.insert(peer(i));
    const auto scenario = [&]() -> Task<> {
      co_await swarm.find_all(swarm.everybody(), 0);
      swarm.commit_all(swarm.everybody());
      swarm.net.partition(side);
      TaskGroup tasks(swarm.world.executor(), rethrow);
      for (const unsigned number : swarm.everybody()) tasks.spawn("find", swarm.find(number, swarm.wanted(1, 5s)));
      // a batch that is full before the silence is noticed begins a group that cannot commit: averaging's affair
      co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 1500ms);
      for (const unsigned number : swarm.everybody()) swarm.matchmakers.at(number)->samples(1, kTarget);
      co_await tasks.join();
    };
    swarm.world.run(scenario());
    for (const unsigned number : swarm.everybody()) {
      const auto& group = swarm.found[number].group;
      if (number < fewer) {
        CHECK(!group);
        continue;
      }
      REQUIRE(group);
      CHECK(2 * group->roster.size() > count);
      for (const Member& member : group->roster) CHECK(!side.contains(member.id));
    }
  }
}

TEST_CASE("sim: a newcomer is in the group of the next epoch, at the latest of the one after it") {
  for (const std::uint64_t seed : test::seeds(100)) {
    CAPTURE(seed);
    const auto count = 3 + static_cast<unsigned>(seed % 8);
    SwarmLife life(count, seed);
    const unsigned newcomer = static_cast<unsigned>(seed) % count;
    const auto scenario = [&]() -> Task<> {
      TaskGroup tasks(life.swarm.world.executor(), rethrow);
      for (const unsigned number : without(life.swarm.everybody(), newcomer)) tasks.spawn("live", life.live(number, 8));
      co_await life.sleep(600ms + std::chrono::milliseconds(seed % 7 * 50));
      life.joined_at = life.global_epoch();
      tasks.spawn("live", life.live(newcomer, 8));
      co_await tasks.join();
    };
    life.swarm.world.run(scenario());
    CHECK(life.first_group_with(newcomer) <= life.joined_at + 2);
    CHECK(life.global_epoch() == 8);
    CHECK(life.committed_twice() == 0);
  }
}

TEST_CASE("sim: peers that die, freeze and thaw at any moment: no epoch is made twice, and the rest goes on") {
  for (const std::uint64_t seed : test::seeds(100)) {
    CAPTURE(seed);
    const auto count = 5 + static_cast<unsigned>(seed % 8);
    SwarmLife life(count, seed);
    Random random(seed);
    const unsigned dies = static_cast<unsigned>(random.below(count));
    const unsigned sleeps = (dies + 1 + static_cast<unsigned>(random.below(count - 1))) % count;
    const auto scenario = [&]() -> Task<> {
      TaskGroup tasks(life.swarm.world.executor(), rethrow);
      for (const unsigned number : life.swarm.everybody()) tasks.spawn("live", life.live(number, 6));
      co_await life.sleep(std::chrono::microseconds(random.below(1'500'000)));
      life.kill(dies);
      co_await life.sleep(std::chrono::microseconds(random.below(1'000'000)));
      life.swarm.net.freeze(peer(sleeps));
      co_await life.sleep(std::chrono::microseconds(random.below(3'000'000)));
      life.swarm.net.thaw(peer(sleeps));
      co_await tasks.join();
    };
    life.swarm.world.run(scenario());
    CHECK(life.global_epoch() == 6);
    CHECK(life.committed_twice() == 0);
    CHECK(life.swarm.world.clock().now() < TimePoint(30s));
  }
}

TEST_CASE("sim: one seed, one history") {
  const auto history = [](std::uint64_t seed) {
    MatchmakingSwarm swarm(9, seed, kBoardDelay);
    swarm.add_all();
    const auto scenario = [&]() -> Task<> {
      co_await swarm.find_all(swarm.everybody(), 0);
      swarm.commit_all(swarm.everybody());
      swarm.net.freeze(peer(swarm.leader_of(1, swarm.everybody())));
      co_await swarm.find_all(swarm.everybody(), 1);
    };
    swarm.world.run(scenario());
    return std::pair(swarm.net.fingerprint(), swarm.net.frames_delivered());
  };
  CHECK(history(5) == history(5));
  CHECK(history(5) != history(6));
}

}  // namespace collab::matchmaking
