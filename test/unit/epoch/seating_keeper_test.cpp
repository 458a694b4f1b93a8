#include "epoch/seating_keeper.hpp"

#include "support/notice_board.hpp"
#include "support/peers.hpp"

#include <algorithm>
#include <memory>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

using namespace std::chrono_literals;
using test::peer;
using Radices = std::vector<std::uint32_t>;

/// Keepers of peers that all see each other's records 10 ms later, and say in step that an epoch began.
class Peers {
 public:
  explicit Peers(std::size_t count, SeatingOptions given = small_groups()) : options_(std::move(given)) {
    for (unsigned char i = 1; i <= count; ++i) add(i);
  }
  ~Peers() {
    const auto stop = [this]() -> Task<> { co_await tasks_.stop(); };
    world_.run(stop());
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  static SeatingOptions small_groups() {
    SeatingOptions options;
    options.group_size_max = 4;
    return options;
  }

  void add(unsigned char number) {
    ids.push_back(peer(number));
    keepers.push_back(std::make_unique<SeatingKeeper>(
        SeatingKeeper::Needs{board_.view_of(ids.back()), world_.clock(), log_, ids.back(), world_.executor()},
        options_));
    tasks_.spawn("keeper", keepers.back()->run());
  }
  /// Somebody's word, whether true or not.
  void write(unsigned char number, const matchmaking::Seating& seating) {
    board_.view_of(peer(number))
        .publish(std::string(matchmaking::kSeatingKey), matchmaking::seating_subkey(0, 0),
                 matchmaking::encode(seating).front(), 60s);
    settle();
  }
  /// From here on it averages for others.
  void offer(unsigned char number) {
    board_.view_of(peer(number))
        .publish(std::string(matchmaking::kSeatingKey), std::string(matchmaking::kAuxiliarySubkey), Bytes(1), 60s);
    settle();
  }
  /// The last ones are not there any more, as far as the others can see.
  void lose(std::size_t count) { ids.resize(ids.size() - count); }
  /// Everybody sees everybody; the turn goes round.
  void epoch(std::uint64_t number, Duration lasted = 1s, bool stuck = false, Duration batch_full_in = 0s) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      keepers[i]->look_at({number, stuck, lasted, ids, joined(ids, silent), clients, number % ids.size() == i, false,
                           batch_full_in, averaging, others_average});
    settle();
  }
  void settle() {
    const auto wait = [this]() -> Task<> { co_await world_.clock().sleep_until(world_.clock().now() + 100ms); };
    world_.run(wait());
  }
  Radices in_force(std::size_t of, std::uint64_t epoch) const {
    const auto* seating = keepers[of]->in_force(epoch);
    return seating == nullptr ? Radices() : seating->radices;
  }

  static std::vector<PeerId> joined(std::vector<PeerId> some, const std::vector<PeerId>& others) {
    some.insert(some.end(), others.begin(), others.end());
    return some;
  }

  std::vector<PeerId> ids;
  std::vector<PeerId> silent;   ///< for a moment
  std::vector<PeerId> clients;  ///< sorted
  bool averaging = false;
  bool others_average = false;
  std::vector<std::unique_ptr<SeatingKeeper>> keepers;

 private:
  SeatingOptions options_;
  sim::Simulation world_;
  Log log_;
  test::NoticeBoard board_{world_, 10ms};
  TaskGroup tasks_{world_.executor(), rethrow};
};

TEST_CASE("seating keeper: while one group holds everybody nothing is written") {
  Peers peers(4);
  for (std::uint64_t epoch = 1; epoch < 6; ++epoch) peers.epoch(epoch);
  for (std::size_t i = 0; i < 4; ++i) CHECK(peers.keepers[i]->in_force(6) == nullptr);
}

TEST_CASE(
    "seating keeper: with more peers one of them writes, all read the same, and it holds from the epoch it names") {
  Peers peers(7);
  peers.epoch(1);
  CHECK(peers.keepers[0]->in_force(100) == nullptr);  // seen for the first time
  peers.epoch(2);
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(peers.in_force(i, 3).empty());
    REQUIRE(peers.in_force(i, 4) == Radices{3, 2});
    CHECK(*peers.keepers[i]->in_force(4) == *peers.keepers[0]->in_force(4));
    for (const PeerId& id : peers.ids) CHECK(peers.keepers[i]->in_force(4)->has(id));
  }
  const auto written = *peers.keepers[0]->in_force(4);
  for (std::uint64_t epoch = 3; epoch < 9; ++epoch) peers.epoch(epoch);
  CHECK(*peers.keepers[0]->in_force(9) == written);  // it fits, so it stays
}

TEST_CASE("seating keeper: who comes gets a seat, who goes loses it, and few enough are one group again") {
  Peers peers(12);
  for (std::uint64_t epoch = 1; epoch < 5; ++epoch) peers.epoch(epoch);
  peers.add(100);
  for (std::uint64_t epoch = 5; epoch < 9; ++epoch) peers.epoch(epoch);
  for (std::size_t i = 0; i < 13; ++i) {
    REQUIRE(peers.keepers[i]->in_force(8) != nullptr);
    CHECK(peers.keepers[i]->in_force(8)->has(peer(100)));
  }
  peers.lose(10);
  for (std::uint64_t epoch = 9; epoch < 13; ++epoch) peers.epoch(epoch);
  for (std::size_t i = 0; i < 3; ++i) CHECK(peers.keepers[i]->in_force(12)->one_group());
}

TEST_CASE("seating keeper: who is silent for a moment, or during a round, keeps its seat, unless the epoch is stuck") {
  Peers peers(9);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) peers.epoch(epoch);
  const auto seats = [&](std::uint64_t epoch) { return peers.keepers[0]->in_force(epoch)->seats.size(); };
  REQUIRE(seats(9) == 9);
  const auto silent = peers.ids.back();
  peers.lose(1);
  peers.silent = {silent};
  for (std::uint64_t epoch = 5; epoch < 8; ++epoch) peers.epoch(epoch);
  CHECK(seats(99) == 9);
  peers.silent = {};
  peers.averaging = true;  // then it is not known who is gone
  for (std::uint64_t epoch = 5; epoch < 8; ++epoch) peers.epoch(epoch);
  CHECK(seats(99) == 9);
  for (unsigned look = 0; look < 9; ++look) peers.epoch(8, 1s, true);
  CHECK(seats(8) == 8);
}

TEST_CASE("seating keeper: where too few can be dialled everybody is in one group, larger than groups usually are") {
  Peers peers(9);
  peers.clients = {peers.ids.begin(), peers.ids.end() - 2};
  std::sort(peers.clients.begin(), peers.clients.end());
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) peers.epoch(epoch);
  for (std::size_t i = 0; i < 9; ++i) {
    CHECK(peers.in_force(i, 9) == Radices{64});
    CHECK(peers.keepers[i]->group_size_max(9) == 64);
  }
  peers.clients.clear();
  for (std::uint64_t epoch = 5; epoch < 9; ++epoch) peers.epoch(epoch);
  CHECK(peers.in_force(0, 12) == Radices{3, 3});
  CHECK(peers.keepers[0]->group_size_max(12) == 4);  // should all of them have to gather again
}

TEST_CASE("seating keeper: who can be dialled no more has the list written anew, and one more who can does not") {
  Peers peers(16);
  std::sort(peers.ids.begin(), peers.ids.end());
  peers.clients = {peers.ids.begin(), peers.ids.begin() + 6};
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) peers.epoch(epoch);
  const auto* seating = peers.keepers[0]->in_force(9);
  REQUIRE(seating != nullptr);
  CHECK(seating->radices == Radices{4, 4});
  CHECK(seating->clients.size() == 6);
  const auto from = seating->from;
  peers.clients.pop_back();
  for (std::uint64_t epoch = 5; epoch < 9; ++epoch) peers.epoch(epoch);
  CHECK(peers.keepers[0]->in_force(99)->from == from);
  peers.clients = {peers.ids.begin(), peers.ids.begin() + 2};
  for (std::uint64_t epoch = 9; epoch < 12; ++epoch) peers.epoch(epoch);
  CHECK(peers.keepers[0]->in_force(99)->clients.size() == 2);  // of many more, though
  peers.clients = {peers.ids.begin() + 1, peers.ids.begin() + 3};
  for (std::uint64_t epoch = 12; epoch < 15; ++epoch) peers.epoch(epoch);
  CHECK(peers.keepers[0]->in_force(99)->clients.back() == matchmaking::seat_of(peers.ids[2]));
}

TEST_CASE(
    "seating keeper: of a group of another size, of the last word, or of an epoch far ahead no writer is believed") {
  Peers peers(3);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) peers.epoch(epoch);
  peers.write(99, {5, 0, {2}, {}});
  peers.write(99, {5, 0xffff'ffff, {4}, {}});
  peers.write(99, {500'000, 0, {4}, {}});
  for (std::uint64_t epoch = 5; epoch < 8; ++epoch) peers.epoch(epoch);
  for (const auto& keeper : peers.keepers) CHECK(keeper->in_force(1'000'000) == nullptr);
  peers.write(99, {9, 0, {64}, {}});  // too few can be dialled, says who writes
  for (const auto& keeper : peers.keepers) CHECK(keeper->group_size_max(9) == 64);
}

TEST_CASE("seating keeper: when grid after grid of an epoch is in vain, all meet in one group") {
  Peers peers(9);
  peers.epoch(0);
  peers.epoch(1);
  REQUIRE(peers.in_force(0, 9) == Radices{3, 3});
  for (std::uint64_t epoch = 2; epoch < 4; ++epoch) peers.epoch(epoch);
  unsigned looks = 0;
  const auto look_hopeless = [&] {
    for (std::size_t i = 0; i < 9; ++i)
      peers.keepers[i]->look_at({4, true, 1s, peers.ids, peers.ids, {}, looks % 9 == i, true});
    peers.settle();
    ++looks;
  };
  while (looks < 60 && peers.in_force(0, 4) != Radices{64}) look_hopeless();
  for (std::size_t i = 0; i < 9; ++i) CHECK(peers.in_force(i, 4) == Radices{64});
  for (std::uint64_t epoch = 5; epoch < 9; ++epoch) peers.epoch(epoch);
  CHECK(peers.in_force(0, 12) == Radices{3, 3});
}

TEST_CASE("seating keeper: short epochs get notice by time, and a forced grid stays") {
  SeatingOptions forced;
  forced.forced = {4, 4};
  Peers peers(16, forced);
  peers.epoch(1, 100ms);
  peers.epoch(2, 100ms);
  CHECK(peers.in_force(3, 21).empty());
  CHECK(peers.in_force(3, 22) == Radices{4, 4});
}

TEST_CASE("seating keeper: a forced grid that fewer peers do not fill is not theirs, and again once they do") {
  SeatingOptions forced = Peers::small_groups();
  forced.forced = {3, 3};
  Peers peers(8, forced);
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) peers.epoch(epoch);
  CHECK(peers.in_force(0, 9) == matchmaking::radices_for(8, 4));  // values of three would not come to three others
  peers.add(9);
  for (std::uint64_t epoch = 4; epoch < 8; ++epoch) peers.epoch(epoch);
  CHECK(peers.in_force(0, 12) == Radices{3, 3});
}

TEST_CASE("seating keeper: with an auxiliary more peers than one group holds are on a grid, though they only dial") {
  Peers peers(65, SeatingOptions());
  peers.clients = peers.ids;
  std::sort(peers.clients.begin(), peers.clients.end());
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) peers.epoch(epoch);
  CHECK(peers.in_force(0, 9).empty());  // one group
  peers.offer(200);
  CHECK(peers.keepers[0]->auxiliaries() == std::vector<PeerId>{peer(200)});
  for (std::uint64_t epoch = 4; epoch < 8; ++epoch) peers.epoch(epoch);
  CHECK(peers.in_force(0, 12) == matchmaking::radices_for(65, 62));
}

TEST_CASE("seating keeper: who says to help and does not is not counted on, for a while") {
  Peers peers(65, SeatingOptions());
  peers.clients = peers.ids;
  std::sort(peers.clients.begin(), peers.clients.end());
  peers.offer(200);
  for (std::uint64_t epoch = 1; epoch < 5; ++epoch) peers.epoch(epoch);
  REQUIRE(peers.in_force(0, 5) == matchmaking::radices_for(65, 62));
  const auto stuck_for_good = [&](unsigned turn) {
    for (std::size_t i = 0; i < peers.ids.size(); ++i)
      peers.keepers[i]->look_at({5, true, 1s, peers.ids, peers.ids, peers.clients, turn % peers.ids.size() == i, true});
    peers.settle();
  };
  for (unsigned look = 0; look < 12; ++look) stuck_for_good(look);
  CHECK(peers.in_force(0, 5) == Radices{64});
  CHECK(!peers.keepers[0]->helped());
  for (std::uint64_t epoch = 6; epoch < 10; ++epoch) peers.epoch(epoch);
  CHECK(peers.in_force(0, 12) == Radices{64});
  for (std::uint64_t epoch = 70; epoch < 74; ++epoch) peers.epoch(epoch);
  CHECK(peers.keepers[0]->helped());
}

TEST_CASE("seating keeper: when passes fail because of who is gone, the seating changes within the epoch") {
  Peers peers(12);
  for (std::uint64_t epoch = 1; epoch < 5; ++epoch) peers.epoch(epoch);
  peers.lose(2);
  for (int look = 0; look < 2; ++look) peers.epoch(5, 1s, true);
  for (std::size_t i = 0; i < 10; ++i) {
    REQUIRE(peers.keepers[i]->in_force(5) != nullptr);
    CHECK(peers.keepers[i]->in_force(5)->seats.size() == 10);
  }
  peers.lose(1);
  for (int look = 0; look < 3; ++look) peers.epoch(5, 1s, true);
  for (std::size_t i = 0; i < 9; ++i) CHECK(peers.keepers[i]->in_force(5)->seats.size() == 9);
}

TEST_CASE("seating keeper: when half of all have no seat they get one within the epoch, and fewer wait for the next") {
  Peers peers(8);
  for (int look = 0; look < 2; ++look) peers.epoch(0);
  REQUIRE(peers.in_force(0, 0) == matchmaking::radices_for(8, 4));
  for (unsigned char late = 100; late < 107; ++late) peers.add(late);
  for (int look = 0; look < 3; ++look) peers.epoch(0);
  for (std::size_t i = 0; i < 8; ++i) CHECK(peers.keepers[i]->in_force(0)->seats.size() == 8);
  peers.add(120);
  for (int look = 0; look < 3; ++look) peers.epoch(0);
  for (std::size_t i = 0; i < 16; ++i) {
    REQUIRE(peers.keepers[i]->in_force(0) != nullptr);
    for (const PeerId& id : peers.ids) CHECK(peers.keepers[i]->in_force(0)->has(id));
  }
}

TEST_CASE("seating keeper: long before the batch is full a few without a seat get one, later they wait") {
  Peers peers(8);
  for (int look = 0; look < 2; ++look) peers.epoch(0);
  for (unsigned char late = 100; late < 102; ++late) peers.add(late);
  for (int look = 0; look < 3; ++look) peers.epoch(0, 1s, false, 1s);  // too late for all to read another
  for (std::size_t i = 0; i < 8; ++i) CHECK(peers.keepers[i]->in_force(0)->seats.size() == 8);
  for (int look = 0; look < 2; ++look) peers.epoch(0, 1s, false, 5s);
  for (std::size_t i = 0; i < 10; ++i) {
    REQUIRE(peers.keepers[i]->in_force(0) != nullptr);
    CHECK(peers.keepers[i]->in_force(0)->seats.size() == 10);
  }
}

TEST_CASE("seating keeper: who has made a key with another's seat takes that seat, and ends nobody") {
  Peers peers(12);
  PeerId twin = peer(3);
  twin.key[31] = 1;
  std::vector<PeerId> seen = peers.ids;
  seen.push_back(twin);
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
    for (std::size_t i = 0; i < 12; ++i) peers.keepers[i]->look_at({epoch, false, 1s, seen, seen, {}, epoch % 12 == i});
    peers.settle();
  }
  REQUIRE(peers.keepers[0]->in_force(5) != nullptr);
  CHECK(peers.keepers[0]->in_force(5)->seats.size() == 12);
}

TEST_CASE("seating keeper: when the last ones leave nobody is seated, and nothing is written") {
  Peers peers(12);
  for (std::uint64_t epoch = 1; epoch < 5; ++epoch) peers.epoch(epoch);
  const auto before = *peers.keepers[0]->in_force(5);
  for (int look = 0; look < 3; ++look) {
    peers.keepers[0]->look_at({5, look > 0, 1s, {}, {}, {}, true});
    peers.settle();
  }
  CHECK(*peers.keepers[0]->in_force(5) == before);
}

TEST_CASE("seating keeper: who comes while a seating is still to begin is seated in it, as long as all can read it") {
  SeatingOptions options = Peers::small_groups();
  options.group_size_max = 8;
  Peers peers(9, options);
  peers.epoch(1);
  peers.epoch(2);  // written for epoch 4
  REQUIRE(peers.in_force(0, 4) == Radices{3, 3});
  for (unsigned char late = 100; late < 106; ++late) peers.add(late);
  for (int look = 0; look < 2; ++look) peers.epoch(2);
  for (std::size_t i = 0; i < 15; ++i) {
    REQUIRE(peers.in_force(i, 4) == matchmaking::radices_for(15, 8));
    CHECK(peers.keepers[i]->in_force(4)->revision == 1);
    for (const PeerId& id : peers.ids) CHECK(peers.keepers[i]->in_force(4)->has(id));
    CHECK(peers.in_force(i, 3).empty());
  }
  peers.add(120);
  for (int look = 0; look < 2; ++look) peers.epoch(3);  // by now it is too soon for that
  for (std::size_t i = 0; i < 16; ++i) CHECK_FALSE(peers.keepers[i]->in_force(5)->has(peer(120)));
  for (int look = 0; look < 2; ++look) peers.epoch(4);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(peers.keepers[i]->in_force(5)->seats.size() == 15);  // the one in force is not written over
    CHECK(peers.keepers[i]->in_force(6)->has(peer(120)));
  }
}

TEST_CASE("seating keeper: a newcomer who cannot count yet follows no absurd seating once it can") {
  Peers peers(3);
  peers.epoch(1);
  matchmaking::Seating absurd;
  absurd.from = 2;
  absurd.radices = {8, 8};
  for (matchmaking::Seat seat = 1; seat <= 64; ++seat) absurd.seats.push_back(seat);
  peers.write(200, absurd);
  peers.add(4);
  peers.settle();
  CHECK(peers.in_force(0, 2).empty());
  CHECK(peers.in_force(3, 2) == Radices{8, 8});  // for all it knows
  peers.epoch(1);
  CHECK(peers.in_force(3, 2).empty());
  Peers many(7);
  for (const std::uint64_t epoch : {1, 2}) many.epoch(epoch);
  many.add(100);
  many.epoch(3);
  CHECK(many.in_force(7, 4) == Radices{3, 2});  // it counts as many
}

TEST_CASE("seating keeper: what a newcomer read that begins long after it could count is its seating all the same") {
  Peers peers(7);
  for (const std::uint64_t epoch : {1, 2}) peers.epoch(epoch, 70ms);
  REQUIRE(peers.in_force(0, 31) == Radices{3, 2});
  REQUIRE(peers.in_force(0, 30).empty());
  peers.add(100);
  peers.settle();
  for (std::uint64_t epoch = 3; epoch < 30; ++epoch) {
    // who knows no more of epochs than that there are some takes two for the notice
    peers.keepers[7]->look_at({epoch, false, 0s, peers.ids, peers.ids, {}, false});
    peers.settle();
  }
  CHECK(peers.in_force(7, 31) == Radices{3, 2});
}

TEST_CASE("seating keeper: of two lists for one epoch all keep the one that seats most of a swarm that has grown") {
  const auto [small, large] =
      matchmaking::goes_before(peer(200), peer(201), 0) ? std::pair(200, 201) : std::pair(201, 200);
  Peers peers(8);
  const auto seat_all = [&](int writer) {
    matchmaking::Seating seating;
    seating.revision = 5;
    seating.radices = {4, 2};
    for (const PeerId& id : peers.ids) seating.seats.push_back(matchmaking::seat_of(id));
    std::sort(seating.seats.begin(), seating.seats.end());
    peers.write(static_cast<unsigned char>(writer), seating);
  };
  const auto look = [&] {  // it is nobody's turn to write
    for (const auto& keeper : peers.keepers)
      keeper->look_at({0, false, 1s, peers.ids, peers.ids, {}, false, false, 60s});
    peers.settle();
  };
  look();  // all count eight
  seat_all(small);
  for (std::size_t i = 0; i < 8; ++i) REQUIRE(peers.keepers[i]->in_force(0)->seats.size() == 8);
  for (unsigned char late = 100; late < 112; ++late) peers.add(late);
  seat_all(large);  // absurd to who counts eight, and its writer comes second
  look();
  for (const auto& keeper : peers.keepers) {
    REQUIRE(keeper->in_force(0) != nullptr);
    CHECK(keeper->in_force(0)->seats.size() == 20);
  }
}

TEST_CASE("seating keeper: who has outgrown a list writes a later one, and during a pass nobody leaves it") {
  Peers peers(8);
  for (int look = 0; look < 2; ++look) peers.epoch(0, 1s, false, 60s);
  const auto before = *peers.keepers[0]->in_force(0);
  for (unsigned char late = 100; late < 112; ++late) peers.add(late);
  peers.epoch(0, 1s, false, 1s);  // some may have begun
  CHECK(*peers.keepers[0]->in_force(0) == before);
  peers.epoch(0, 1s, false, 60s);
  for (std::size_t i = 0; i < 20; ++i) {
    REQUIRE(peers.keepers[i]->in_force(0) != nullptr);
    CHECK(peers.keepers[i]->in_force(0)->seats.size() == 20);
    CHECK(peers.keepers[i]->in_force(0)->revision > before.revision);
  }
}

TEST_CASE("seating keeper: while others are in a pass only who is stuck seats a swarm that has doubled anew") {
  for (const bool stuck : {false, true}) {
    CAPTURE(stuck);
    Peers peers(8);
    for (int look = 0; look < 2; ++look) peers.epoch(0, 1s, false, 60s);
    REQUIRE(peers.keepers[0]->in_force(0) != nullptr);
    const auto before = *peers.keepers[0]->in_force(0);
    for (unsigned char late = 100; late < 112; ++late) peers.add(late);
    peers.others_average = true;
    for (int look = 0; look < 3; ++look) peers.epoch(0, 1s, stuck, 60s);
    REQUIRE(peers.keepers[0]->in_force(0) != nullptr);
    CHECK((*peers.keepers[0]->in_force(0) == before) == !stuck);
    for (int look = 0; look < 55; ++look) peers.epoch(0, 1s, false, 60s);  // 5.5 s: they only say so
    REQUIRE(peers.keepers[0]->in_force(0) != nullptr);
    CHECK(peers.keepers[0]->in_force(0)->seats.size() == 20);
  }
}

TEST_CASE("seating keeper: a list for an epoch to come, of a swarm that has doubled since, is not gone by") {
  Peers peers(7);
  for (const std::uint64_t epoch : {1, 2}) peers.epoch(epoch);
  REQUIRE(peers.keepers[0]->in_force(4)->seats.size() == 7);
  for (unsigned char late = 100; late < 112; ++late) peers.add(late);
  for (const std::uint64_t swarm : {4, 3}) {
    CAPTURE(swarm);                        // 4: this peer is late, and others may be in a pass by that list
    for (std::size_t i = 0; i < 7; ++i) {  // in a round, and it is nobody's turn to write
      peers.keepers[i]->look_at({3, false, 1s, peers.ids, peers.ids, {}, false, false, 0s, true, false, 5s, swarm});
      CHECK((peers.keepers[i]->in_force(4) == nullptr) == (swarm == 3));
    }
    peers.settle();
  }
  peers.lose(12);
  for (const auto& keeper : peers.keepers) {  // they were here for a moment only
    keeper->look_at({3, false, 1s, peers.ids, peers.ids, {}, false, false, 0s, true});
    CHECK(keeper->in_force(4) != nullptr);
  }
}

TEST_CASE("seating keeper: who writes a list writes a later one than any that it has passed over") {
  Peers peers(9);
  const auto look = [&](std::size_t turn) {
    for (std::size_t i = 0; i < peers.ids.size(); ++i)
      peers.keepers[i]->look_at({2, true, 1s, peers.ids, peers.ids, {}, i == turn, false, 60s});
    peers.settle();
  };
  look(9);
  matchmaking::Seating old;  // of when they were few
  old.from = 2;
  old.revision = 3;
  old.radices = {2, 2};
  for (const int number : {1, 2, 3, 4})
    old.seats.push_back(matchmaking::seat_of(peer(static_cast<unsigned char>(number))));
  std::sort(old.seats.begin(), old.seats.end());
  peers.write(200, old);
  REQUIRE(peers.in_force(0, 2).empty());
  for (int again = 0; again < 2; ++again) look(5);
  REQUIRE(peers.keepers[0]->in_force(2) != nullptr);
  CHECK(peers.keepers[0]->in_force(2)->seats.size() == 9);
  CHECK(peers.keepers[0]->in_force(2)->revision > old.revision);
}

TEST_CASE(
    "seating keeper: where a pass is hopeless the same seats are another grid, where it is only stuck they stay") {
  Peers peers(12);
  for (std::uint64_t epoch = 1; epoch < 5; ++epoch) peers.epoch(epoch);
  const auto before = *peers.keepers[0]->in_force(5);
  for (const bool hopeless : {false, true}) {
    for (int look = 0; look < 3; ++look) {
      peers.keepers[0]->look_at({5, true, 1s, peers.ids, peers.ids, {}, true, hopeless});
      peers.settle();
    }
    const auto& now = *peers.keepers[1]->in_force(5);
    CHECK(now.seats == before.seats);
    CHECK((now.grid().id == before.grid().id) == !hopeless);
  }
}

TEST_CASE(
    "seating keeper: a seating that an epoch got stuck on was given up, one of a swarm that still gathered was not") {
  Peers peers(8);
  for (int look = 0; look < 2; ++look) peers.epoch(0);
  for (unsigned char late = 100; late < 103; ++late) {
    peers.add(late);
    peers.add(late + 10);
    for (int look = 0; look < 3; ++look) peers.epoch(0, 1s, false, 5s);
  }
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(peers.keepers[i]->in_force(0)->revision > 1);
    CHECK(peers.keepers[i]->given_up() == 0);
  }
  peers.lose(3);
  for (int look = 0; look < 3; ++look) peers.epoch(0, 1s, true);
  for (std::size_t i = 0; i < peers.ids.size(); ++i) CHECK(peers.keepers[i]->given_up() == 1);
  peers.epoch(1);
  for (std::size_t i = 0; i < peers.ids.size(); ++i) CHECK(peers.keepers[i]->given_up() == 0);
}

TEST_CASE("seating keeper: who comes reads the seating of the first epoch, also when its writer has written another") {
  Peers peers(12);
  for (int look = 0; look < 2; ++look)
    for (std::size_t i = 0; i < peers.ids.size(); ++i) {
      peers.keepers[i]->look_at({0, false, 1s, peers.ids, peers.ids, {}, i == 0});
      peers.settle();
    }
  REQUIRE(peers.in_force(1, 0) == matchmaking::radices_for(12, 4));
  peers.lose(3);
  for (int look = 0; look < 2; ++look) {
    peers.keepers[0]->look_at({0, false, 1s, peers.ids, peers.ids, {}, true});
    peers.settle();
  }
  REQUIRE(peers.keepers[1]->in_force(9)->seats.size() == 9);
  peers.add(100);
  peers.settle();
  const auto& newcomer = *peers.keepers.back();
  REQUIRE(newcomer.in_force(0) != nullptr);
  CHECK(newcomer.in_force(0)->seats.size() == 12);
}

TEST_CASE("seating keeper: of two writers for one epoch all follow the same one") {
  Peers peers(12);
  peers.epoch(1);
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<PeerId> seen = peers.ids;
    if (i == 1) seen.pop_back();  // it knows of one peer less
    peers.keepers[i]->look_at({2, false, 1s, seen, seen, {}, true});
  }
  peers.epoch(3);
  REQUIRE(peers.keepers[0]->in_force(4) != nullptr);
  for (std::size_t i = 1; i < 12; ++i) CHECK(*peers.keepers[i]->in_force(4) == *peers.keepers[0]->in_force(4));
}

}  // namespace
}  // namespace collab::epoch
