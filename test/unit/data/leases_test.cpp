#include "data/leases.hpp"

#include "base/random.hpp"
#include "base/task_group.hpp"
#include "data/lease_plan.hpp"
#include "directory/lease_record.hpp"
#include "support/notice_board.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "support/doctest.hpp"

namespace collab::data {
namespace {

using namespace std::chrono_literals;

PeerId peer(unsigned number) {
  PeerId id;
  id.key[0] = static_cast<unsigned char>(number * 37);
  id.key[1] = static_cast<unsigned char>(number);
  return id;
}

std::vector<PeerId> peers(unsigned count) {
  std::vector<PeerId> ids;
  for (unsigned i = 1; i <= count; ++i) ids.push_back(peer(i));
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

TEST_CASE("lease plan: peers that choose in turn share out a pass exactly, in small runs at its end, then the next") {
  const auto ids = peers(5);
  const std::uint64_t pass = 10'007;
  const Ledger ledger;
  Work taken;
  std::uint64_t last = kRunUnitsMax;
  for (std::size_t turn = 0; taken.common(Work({0, pass})).count() < pass; ++turn) {
    const LeaseView view{ledger, taken, ids, ids[turn % ids.size()], pass};
    const Work run = choose_run(view, 1000);
    REQUIRE(run.count() > 0);
    REQUIRE(run.count() <= kRunUnitsMax);
    CHECK_FALSE(run.overlaps(taken));
    CHECK(run.ranges().front().end() <= pass);
    taken.add(run);
    last = run.count();
    CHECK(taken.ranges().size() <= 4 * ids.size());  // the ledger stays short
  }
  CHECK(last <= kRunUnitsMin);
  const LeaseView view{ledger, taken, ids, ids[0], pass};
  const Work next = choose_run(view, 100);
  CHECK(next.ranges().front().first >= pass);
  CHECK(next.ranges().front().first < 3 * pass);
}

TEST_CASE("lease plan: peers that choose at the same moment rarely choose the same") {
  const auto ids = peers(8);
  Ledger ledger;
  ledger.add(Work({0, 4000}));
  const Work nothing;
  Work chosen;
  std::uint64_t wanted = 0;
  for (const PeerId& self : ids) {
    const LeaseView view{ledger, nothing, ids, self, 1'000'000};
    const Work run = choose_run(view, 256);
    wanted += run.count();
    chosen.add(run);
  }
  CHECK(chosen.count() * 10 >= wanted * 7);
}

TEST_CASE("lease plan: without storers, peers who know the same peers never choose the same") {
  const auto ids = peers(6);
  const Ledger ledger;
  Work all;
  for (const PeerId& self : ids) {
    Work mine;
    for (int i = 0; i < 20; ++i) {
      const LeaseView view{ledger, mine, ids, self, 5000};
      const Work run = choose_own_run(view, 256);
      REQUIRE_FALSE(run.empty());
      mine.add(run);
    }
    CHECK_FALSE(mine.overlaps(all));
    all.add(mine);
  }
}

TEST_CASE("lease plan: without storers each has units of its own in every pass, so nobody goes ahead of the others") {
  constexpr std::uint64_t kPass = 13'000;
  const auto ids = peers(12);
  const Ledger ledger;
  for (std::uint64_t pass = 0; pass < 100; ++pass) {
    CAPTURE(pass);
    const Work over(WorkRange{0, pass * kPass});
    for (const PeerId& self : ids) {
      const Work run = choose_own_run(LeaseView{ledger, over, ids, self, kPass}, 256);
      REQUIRE_FALSE(run.empty());
      CHECK(run.ranges().front().first / kPass == pass);
    }
  }
}

namespace {

/// Peers that compute what they lease, and commit it in rounds that some of them miss.
struct Workers {
  explicit Workers(unsigned count) : ids(peers(count)), board(world, 30ms) {
    for (const PeerId& id : ids) {
      LeaseOptions options;
      options.units_per_pass = 3001;
      const auto unknown = [] { return 0.0; };
      const Leases::Needs needs{board.view_of(id),      world.clock(), log, world.executor(), id,
                                [this] { return ids; }, unknown};
      leases.push_back(std::make_unique<Leases>(needs, options));
    }
  }
  Task<> sleep(Duration length) { return world.clock().sleep_until(world.clock().now() + length); }
  /// Nobody asks in vain, and nobody gets what another has.
  Task<> take_in_turn(int times, Duration pause) {
    Work all;
    for (int i = 0; i < times; ++i) {
      co_await sleep(pause);
      for (auto& each : leases) {
        const Work mine = each->take(40);
        CHECK_FALSE(mine.empty());
        CHECK_FALSE(mine.overlaps(all));
        all.add(mine);
      }
    }
  }

  std::vector<PeerId> ids;
  sim::Simulation world;
  Log log;
  test::NoticeBoard board;
  std::vector<std::unique_ptr<Leases>> leases;
  Ledger ledger;
};

}  // namespace

TEST_CASE("leases: over many rounds that drop and miss peers, no unit is committed twice and none is skipped") {
  for (const std::uint64_t seed : test::seeds(5)) {
    CAPTURE(seed);
    Workers workers(4);
    Random random(seed);
    const auto scenario = [&]() -> Task<> {
      TaskGroup tasks(workers.world.executor(), rethrow);
      for (auto& leases : workers.leases) {
        leases->advance(workers.ledger);
        tasks.spawn("leases", leases->run());
      }
      for (int round = 0; round < 400; ++round) {
        co_await workers.sleep(Duration(random.below(400'000'000)));
        Work committed;
        std::vector<Work> lost;
        for (auto& leases : workers.leases) {
          Work mine = leases->take(1 + random.below(64));
          CHECK_FALSE(mine.overlaps(committed));
          for (const Work& other : lost) CHECK_FALSE(mine.overlaps(other));
          if (random.chance(.2)) {
            lost.push_back(std::move(mine));
          } else {
            lost.emplace_back();
            committed.add(mine);
          }
        }
        const auto added = workers.ledger.add(committed);
        CHECK(added.duplicates == 0);
        for (std::size_t i = 0; i < workers.leases.size(); ++i) {
          workers.leases[i]->advance(workers.ledger);
          workers.leases[i]->give_back(lost[i]);
        }
      }
      co_await tasks.stop();
    };
    workers.world.run(scenario());
    CHECK(workers.ledger.committed().count() > 3 * 3001);
    CHECK(workers.ledger.first_free() + 4 * 3001 > workers.ledger.committed().count());
    CHECK(workers.ledger.committed().ranges().size() < 40);
    for (const auto& leases : workers.leases) CHECK(leases->unleased() == 0);
  }
}

TEST_CASE("leases: units that another leaves are leased when its lease is gone, and nobody takes them meanwhile") {
  Workers workers(3);
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(workers.world.executor(), rethrow);
    for (auto& leases : workers.leases) {
      tasks.spawn("leases", leases->run());
      leases->advance(workers.ledger);
      CHECK(leases->take(16).empty());  // from now on units are wanted here
    }
    co_await workers.sleep(2s);
    const Work left = workers.leases[0]->take(40);
    REQUIRE(left.count() > 0);
    const Work handed_out = workers.leases[2]->take(4);
    Work ready = workers.leases[2]->held();
    ready.subtract(handed_out);
    CHECK_FALSE(workers.leases[2]->is_of_others_than(workers.ids[2], ready));
    CHECK(workers.leases[2]->is_of_others_than(workers.ids[2], handed_out));
    CHECK_FALSE(workers.leases[1]->is_of_others_than(workers.ids[0], left));
    CHECK(workers.leases[1]->is_of_others_than(workers.ids[2], left));
    workers.leases[1]->inherit(left);
    CHECK(workers.leases[1]->is_of_others_than(workers.ids[0], left));
    CHECK(workers.leases[1]->held().common(left) == left);
    workers.leases[0]->leave();
    Work others;
    for (int i = 0; i < 60; ++i) {
      co_await workers.sleep(300ms);
      const Work own = workers.leases[1]->take(16);
      CHECK_FALSE(own.overlaps(left));
      others = workers.leases[2]->take(64);
      CHECK_FALSE(others.overlaps(left));
      workers.ledger.add(own);
      workers.ledger.add(others);
      if (i == 2) workers.ledger.add(left);  // the heir's round; a withdrawn notice hides the one before for a second
      for (auto& leases : workers.leases) leases->advance(workers.ledger);
    }
    CHECK(workers.ledger.duplicates() == 0);
    CHECK_FALSE(workers.leases[1]->held().overlaps(left));
    co_await tasks.stop();
  };
  workers.world.run(scenario());
}

TEST_CASE("leases: of units that two have leased the heir computes none that are left to it") {
  Workers workers(1);
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(workers.world.executor(), rethrow);
    Leases& heir = *workers.leases[0];
    tasks.spawn("leases", heir.run());
    heir.advance(workers.ledger);
    CHECK(heir.take(16).empty());
    co_await workers.sleep(2s);
    const Work handed_out = heir.take(4);
    Work left = heir.held();
    left.subtract(handed_out);
    left = left.take(8);
    REQUIRE(left.count() == 8);
    heir.inherit(left);
    CHECK_FALSE(heir.take(1000).overlaps(left));
    CHECK(heir.held().common(left) == left);
    co_await tasks.stop();
  };
  workers.world.run(scenario());
}

TEST_CASE("leases: what a dead peer held is leased again, and who leaves gives it back at once") {
  Workers workers(3);
  const auto scenario = [&]() -> Task<> {
    TaskGroup dying(workers.world.executor(), rethrow);
    TaskGroup tasks(workers.world.executor(), rethrow);
    dying.spawn("leases", workers.leases[0]->run());
    for (std::size_t i = 1; i < 3; ++i) tasks.spawn("leases", workers.leases[i]->run());
    for (auto& leases : workers.leases) {
      leases->advance(workers.ledger);
      CHECK(leases->held().empty());
      CHECK(leases->take(16).empty());  // from now on units are wanted here
    }
    co_await workers.sleep(2s);
    const Work dead = workers.leases[0]->held();
    CHECK_FALSE(dead.empty());
    co_await dying.stop();  // the board renews nothing, so its record ends
    const Work left = workers.leases[1]->held();
    workers.leases[1]->leave();
    for (int i = 0; i < 120; ++i) {
      co_await workers.sleep(300ms);
      workers.ledger.add(workers.leases[2]->take(64));
      workers.leases[2]->advance(workers.ledger);
    }
    CHECK(workers.ledger.duplicates() == 0);
    CHECK(workers.ledger.committed().common(left) == left);
    CHECK(workers.ledger.committed().common(dead) == dead);
    co_await tasks.stop();
  };
  workers.world.run(scenario());
}

TEST_CASE("leases: what others have torn to more pieces than a record names is still computed") {
  Workers workers(1);
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(workers.world.executor(), rethrow);
    Leases& leases = *workers.leases[0];
    tasks.spawn("leases", leases.run());
    leases.advance(workers.ledger);
    for (int i = 0; i < 4; ++i) {
      (void)leases.take(256);  // never computed: wanted, and far ahead
      co_await workers.sleep(1s);
    }
    const Work held = leases.held();
    REQUIRE(held.count() > 6 * kWorkRangesMax);
    Work done;  // two of three
    for (const WorkRange& range : held.ranges())
      for (std::uint64_t unit = range.first; unit < range.end(); ++unit)
        if (unit % 3 != 0) done.add({unit, 1});
    workers.ledger.add(done);
    leases.advance(workers.ledger);
    CHECK(leases.held().ranges().size() > kWorkRangesMax);
    leases.give_back(held);
    co_await workers.sleep(1s);
    CHECK_FALSE(leases.take(64).empty());
    co_await tasks.stop();
  };
  workers.world.run(scenario());
}

TEST_CASE("leases: cut off from the storers, work goes on by hash and is told") {
  Workers workers(3);
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(workers.world.executor(), rethrow);
    for (const PeerId& id : workers.ids) workers.board.cut_off(id);
    for (auto& leases : workers.leases) {
      leases->advance(workers.ledger);
      leases->take(40);
      tasks.spawn("leases", leases->run());
    }
    co_await workers.take_in_turn(30, 200ms);
    for (const auto& leases : workers.leases) CHECK(leases->unleased() > 0);
    co_await tasks.stop();
  };
  workers.world.run(scenario());
}

TEST_CASE("leases: who has nothing left does not wait for storers that have died") {
  Workers workers(3);
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(workers.world.executor(), rethrow);
    for (const PeerId& id : workers.ids) workers.board.stall(id);
    for (auto& leases : workers.leases) {
      leases->advance(workers.ledger);
      CHECK(leases->take(40).empty());
      tasks.spawn("leases", leases->run());
    }
    co_await workers.sleep(2900ms);
    for (auto& leases : workers.leases) CHECK(leases->take(40).empty());  // a claim may yet succeed
    co_await workers.take_in_turn(20, 400ms);
    for (const auto& leases : workers.leases) CHECK(leases->unleased() > 0);
    co_await tasks.stop();
  };
  workers.world.run(scenario());
}

TEST_CASE("leases: who stood still for longer than leases last hands out none of the old ones") {
  Workers workers(2);
  const auto scenario = [&]() -> Task<> {
    TaskGroup before(workers.world.executor(), rethrow);
    TaskGroup tasks(workers.world.executor(), rethrow);
    before.spawn("leases", workers.leases[0]->run());
    tasks.spawn("leases", workers.leases[1]->run());
    for (auto& leases : workers.leases) {
      leases->advance(workers.ledger);
      CHECK(leases->take(16).empty());
    }
    co_await workers.sleep(2s);
    const Work old = workers.leases[0]->held();
    CHECK_FALSE(old.empty());
    co_await before.stop();  // nothing runs there,
    Work others;
    for (int i = 0; i < 60; ++i) {
      co_await workers.sleep(300ms);
      others.add(workers.leases[1]->take(32));
    }
    CHECK(others.overlaps(old));
    tasks.spawn("leases", workers.leases[0]->run());  // and then goes on
    co_await workers.sleep(100ms);
    const Work mine = workers.leases[0]->take(16);
    CHECK_FALSE(mine.empty());
    CHECK_FALSE(mine.overlaps(others));
    co_await tasks.stop();
  };
  workers.world.run(scenario());
}

}  // namespace collab::data
