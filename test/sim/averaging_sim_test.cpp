#include "base/frame.hpp"
#include "support/rounds.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include "support/doctest.hpp"

namespace collab::test {
namespace {

using namespace std::chrono_literals;
using averaging::Fault;
using averaging::LeftOut;
using averaging::RoundReport;
using averaging::wire::Header;
using averaging::wire::Part;
using matchmaking::Role;

bool all_committed(const Rounds& rounds) {
  for (std::size_t rank = 0; rank < rounds.size(); ++rank)
    if (!rounds.dead(rank) && !rounds.committed(rank)) return false;
  return true;
}

Duration last_finish(const Rounds& rounds) {
  Duration last{};
  for (std::size_t rank = 0; rank < rounds.size(); ++rank)
    if (!rounds.dead(rank)) last = std::max(last, rounds.finished_at(rank));
  return last;
}

}  // namespace

TEST_CASE("all-reduce: a calm round ends with everybody's weighted mean, in two trips and a commit") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    Rounds rounds(seed, draw_players(random, 2 + random.below(7), true), {});
    rounds.run();
    CHECK(rounds.broken() == "");
    CHECK(all_committed(rounds));
    CHECK(last_finish(rounds) < 200ms);  // four messages of at most 40 ms each
    for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
      const RoundReport& report = rounds.report(rank);
      CHECK(report.views == 1);
      CHECK(report.bad_frames == 0);
      if (rounds.player(rank).role == Role::auxiliary) continue;
      std::uint64_t weight = 0;
      for (std::size_t other = 0; other < rounds.size(); ++other)
        if (rounds.player(other).role != Role::auxiliary) weight += rounds.player(other).weight;
      CHECK(report.weight == weight);
      CHECK(report.weight_runs.size() == 1);
      const auto proof = rounds.proof(rank);
      const auto frames = proof->frames();
      CHECK(averaging::CommittedRound::verify(proof->group(), proof->proof(), frames, rounds.codecs()));
    }
  }
}

TEST_CASE("all-reduce: with every codec, all peers end with the same bytes") {
  for (const CodecId codec : kCodecIds) {
    CAPTURE(static_cast<int>(codec));
    Random random(7);
    RoundsOptions options;
    options.codecs = CodecOptions::all(codec);
    options.codecs.coarse_values_min = 0;
    options.chunk_units = 2;
    Rounds rounds(7, draw_players(random, 5, false), options);
    rounds.run();
    CHECK(rounds.broken() == "");
    CHECK(all_committed(rounds));
  }
}

TEST_CASE(
    "all-reduce: when a peer dies at any moment, a round is all or nothing and those who finish hold the same bytes") {
  for (const std::uint64_t seed : seeds(1000)) {
    CAPTURE(seed);
    Random random(seed);
    Rounds rounds(seed, draw_players(random, 2 + random.below(7), true), {});
    const std::size_t deaths = 1 + random.below(2);
    for (std::size_t i = 0; i < deaths; ++i)
      rounds.kill_at(Duration(random.below(180'000'000)), random.below(rounds.size()));
    rounds.run();
    CHECK(rounds.broken() == "");
    if (!rounds.live_quorum()) continue;
    CHECK(all_committed(rounds));
    CHECK(last_finish(rounds) < 1s);
  }
}

TEST_CASE("all-reduce: a frozen peer is left out within five seconds, and one that thaws in time has the same bytes") {
  std::size_t thawed = 0;
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random random(seed);
    Rounds rounds(seed, draw_players(random, 3 + random.below(6), true), {});
    const std::size_t victim = random.below(rounds.size());
    const PeerId id = rounds.id(victim);
    const auto frozen_at = Duration(random.below(150'000'000));
    rounds.at(frozen_at, [id](MessageNetwork& network) { network.freeze(id); });
    rounds.at(frozen_at + 300ms + Duration(random.below(4'000'000'000)),
              [id](MessageNetwork& network) { network.thaw(id); });
    rounds.run();
    CHECK(rounds.broken() == "");
    averaging::Ranks others = 0;
    for (std::size_t rank = 0; rank < rounds.size(); ++rank) others |= rank == victim ? 0 : averaging::bit(rank);
    if (!rounds.members().is_quorum(others) || (others & rounds.members().reachable) == 0) continue;
    for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
      if (rank == victim) continue;
      CAPTURE(rank);
      CHECK(rounds.committed(rank));
      CHECK(rounds.finished_at(rank) < frozen_at + 5s);
    }
    // alone for longer than its patience, it gives up for itself
    const auto reason = rounds.report(victim).reason;
    CHECK((rounds.committed(victim) || reason == RoundReport::Reason::nobody_reachable ||
           reason == RoundReport::Reason::no_quorum));
    thawed += rounds.committed(victim);
  }
  CHECK(thawed > 0);
}

TEST_CASE("all-reduce: for a groupmate that is in another group nobody waits, whatever it had to read or to say") {
  struct Absent {
    Role role = Role::node;
    bool owns = false;  ///< a segment
  };
  for (const bool streams : {false, true}) {
    for (const Absent& absentee : {Absent{Role::node, true}, Absent{Role::node, false}, Absent{Role::client, false},
                                   Absent{Role::auxiliary, true}}) {
      CAPTURE(streams);
      CAPTURE(static_cast<unsigned>(absentee.role));
      CAPTURE(absentee.owns);
      Random random(1);
      std::vector<Player> players = draw_players(random, 5, false);
      const auto fewer = [](const Player& a, const Player& b) { return a.units < b.units; };
      const auto [least, most] = std::minmax_element(players.begin(), players.end(), fewer);
      REQUIRE(least->units == 0);
      std::swap(players[2].units, absentee.owns ? most->units : least->units);
      players[2].role = absentee.role;
      if (absentee.role == Role::auxiliary) players[2].values.clear();
      RoundsOptions options;
      options.streams = streams;
      Rounds rounds(1, std::move(players), options);
      const std::size_t absent = rounds.rank_of_player(2);
      rounds.goes_elsewhere(absent);
      rounds.run();
      CHECK(rounds.broken() == "");
      for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
        if (rank == absent) continue;
        CHECK(rounds.committed(rank));
        CHECK(rounds.finished_at(rank) < 700ms);  // two looks, a round trip, and the round without it
        CHECK(rounds.report(rank).peers[absent].counted == 0);
      }
    }
  }
}

TEST_CASE("all-reduce: a partition commits on at most one side, and nobody ends with other bytes") {
  std::size_t one_side = 0;
  std::size_t undecided = 0;
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    Rounds rounds(seed, draw_players(random, 3 + random.below(6), true), {});
    std::set<PeerId> side;
    averaging::Ranks ranks = 0;
    for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
      if (!random.chance(.4)) continue;
      side.insert(rounds.id(rank));
      ranks |= averaging::bit(rank);
    }
    rounds.at(Duration(random.below(120'000'000)), [side](MessageNetwork& network) { network.partition(side); });
    const auto healed = 1s + Duration(random.below(8'000'000'000));
    rounds.at(healed, [](MessageNetwork& network) { network.heal(); });
    rounds.run();
    CHECK(rounds.broken() == "");
    bool inside = false;
    bool outside = false;
    for (std::size_t rank = 0; rank < rounds.size(); ++rank)
      if (rounds.committed(rank)) (averaging::contains(ranks, rank) ? inside : outside) = true;
    one_side += inside != outside;

    averaging::Ranks free = 0;  // to take part in another group of this round
    for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
      undecided += rounds.report(rank).undecided;
      const bool failed = rounds.report(rank).outcome == RoundReport::Outcome::failed;
      if (failed && !rounds.report(rank).undecided) free |= averaging::bit(rank) & rounds.members().voters;
    }
    if (inside || outside) CHECK(!rounds.members().is_quorum(free));
  }
  CHECK(one_side > 0);  // some were long enough to matter
  CHECK(undecided > 0);
}

namespace {

/// A group of four nodes, in which player 0 lies as told.
std::vector<Player> three_and_a_liar(std::function<std::vector<Frame>(const PeerId&, Frame)> rewrite) {
  Random random(3);
  std::vector<Player> players = draw_players(random, 4, false);
  std::size_t units = 0;
  for (Player& player : players) units += player.units = 2;
  for (Player& player : players) player.values.resize(units * kUnitValues, 0.5F);
  players[0].rewrite = std::move(rewrite);
  return players;
}

/// The same frame if it is no Part; else what `change` makes of it.
template <class Change>
std::function<std::vector<Frame>(const PeerId&, Frame)> lie_in_parts(Change change) {
  return [change](const PeerId&, Frame frame) -> std::vector<Frame> {
    const auto message = frame::decode<Header>(*frame).value();
    const auto* part = std::get_if<Part>(&message.header);
    if (part == nullptr) return {frame};
    return change(frame, *part, message.payload);
  };
}

void check_left_out(Rounds& rounds, Fault fault) {
  rounds.run();
  CHECK(rounds.broken() == "");
  CHECK(all_committed(rounds));
  const std::size_t liar = rounds.rank_of_player(0);
  for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
    if (rank == liar) continue;
    CHECK(rounds.report(rank).peers[liar].fault == fault);
    CHECK(rounds.report(rank).peers[liar].left_out == LeftOut::refused);
    CHECK(rounds.report(rank).peers[liar].counted < 0.5);  // its own segment alone
  }
}

}  // namespace

TEST_CASE("all-reduce: a sender of values that are not finite is left out, and the others commit") {
  const auto lie = [](const Frame&, const Part& part, std::span<const std::byte> payload) -> std::vector<Frame> {
    std::vector<std::byte> bytes(payload.begin(), payload.end());
    const float poison = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + 4 * 17, &poison, 4);
    return {frame::encode(Header(part), bytes)};
  };
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    CAPTURE(seed);
    Rounds rounds(seed, three_and_a_liar(lie_in_parts(lie)), {});
    check_left_out(rounds, Fault::not_finite);
  }
}

TEST_CASE("all-reduce: a sender with more weight than anyone can have is left out") {
  const auto lie = [](const Frame&, Part part, std::span<const std::byte> payload) -> std::vector<Frame> {
    part.weight = 1001;
    return {frame::encode(Header(part), payload)};
  };
  Rounds rounds(1, three_and_a_liar(lie_in_parts(lie)), {});
  check_left_out(rounds, Fault::weight_refused);
}

TEST_CASE("all-reduce: a sender that sends a chunk twice with other bytes is left out; the same bytes are ignored") {
  const auto other = [](const Frame& frame, const Part& part,
                        std::span<const std::byte> payload) -> std::vector<Frame> {
    std::vector<std::byte> bytes(payload.begin(), payload.end());
    bytes[3] ^= std::byte(1);
    return {frame, frame::encode(Header(part), bytes)};
  };
  auto players = three_and_a_liar(lie_in_parts(other));
  // the second copy must meet an open chunk: another sender comes late
  RoundsOptions options;
  options.links.latency_min = 5ms;
  options.links.latency_max = 5ms;
  players[3].rewrite = nullptr;
  Rounds rounds(1, players, options);
  const PeerId late = rounds.id(rounds.rank_of_player(3));
  rounds.at(0s, [late](MessageNetwork& network) { network.freeze(late); });
  rounds.at(300ms, [late](MessageNetwork& network) { network.thaw(late); });
  rounds.run();
  CHECK(rounds.broken() == "");
  CHECK(all_committed(rounds));
  const std::size_t liar = rounds.rank_of_player(0);
  CHECK(rounds.report(rounds.rank_of_player(1)).peers[liar].fault == Fault::conflict);

  const auto same = [](const Frame& frame, const Part&, std::span<const std::byte>) -> std::vector<Frame> {
    return {frame, frame};
  };
  Rounds twice(1, three_and_a_liar(lie_in_parts(same)), {});
  twice.run();
  CHECK(twice.broken() == "");
  CHECK(twice.report(0).peers[twice.rank_of_player(0)].counted == doctest::Approx(1));
}

TEST_CASE("all-reduce: a voter that keeps back its Hold costs seconds, not the round") {
  const auto mute = [](const PeerId&, Frame frame) -> std::vector<Frame> {
    const auto message = frame::decode<Header>(*frame).value();
    if (std::holds_alternative<averaging::wire::Hold>(message.header)) return {};
    return {frame};
  };
  for (std::size_t liar = 0; liar < 2; ++liar) {
    auto players = three_and_a_liar(nullptr);
    players[2 + liar].rewrite = mute;
    Rounds rounds(1, players, {});
    rounds.run();
    CHECK(rounds.broken() == "");
    CHECK(all_committed(rounds));
    for (std::size_t rank = 0; rank < rounds.size(); ++rank) CHECK(rounds.finished_at(rank) < 6s);
  }
}

TEST_CASE("all-reduce: who is not told of the commit, as by a line that broke there, hears it from the others") {
  auto players = three_and_a_liar(nullptr);
  const Rounds same(1, players, {});
  const PeerId victim = same.id(3);
  for (std::size_t i = 0; i < players.size(); ++i) {
    if (same.rank_of_player(i) != 0) continue;  // the coordinator's
    players[i].rewrite = [victim](const PeerId& to, Frame frame) -> std::vector<Frame> {
      const auto message = frame::decode<Header>(*frame).value();
      if (to == victim && std::holds_alternative<averaging::wire::Commit>(message.header)) return {};
      return {frame};
    };
  }
  Rounds rounds(1, players, {});
  rounds.run();
  CHECK(rounds.broken() == "");
  CHECK(all_committed(rounds));
  CHECK(rounds.finished_at(3) > 500ms);
  CHECK(last_finish(rounds) < 2s);
}

TEST_CASE("all-reduce: an owner whose averages are no averages is replaced") {
  const auto lie = [](const PeerId&, Frame frame) -> std::vector<Frame> {
    const auto message = frame::decode<Header>(*frame).value();
    const auto* average = std::get_if<averaging::wire::Average>(&message.header);
    if (average == nullptr) return {frame};
    return {frame::encode(Header(*average), message.payload.first(message.payload.size() - 4))};
  };
  Rounds rounds(1, three_and_a_liar(lie), {});
  rounds.run();
  const std::size_t liar = rounds.rank_of_player(0);
  for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
    if (rank != liar) CHECK(rounds.committed(rank));
  }
}

TEST_CASE("all-reduce: an owner whose averages differ from peer to peer commits nothing false") {
  // each receiver gets another mean; nobody can tell alone, but their Holds do not agree
  std::uint64_t told = 0;
  const auto lie = [&told](const PeerId&, Frame frame) -> std::vector<Frame> {
    const auto message = frame::decode<Header>(*frame).value();
    const auto* average = std::get_if<averaging::wire::Average>(&message.header);
    if (average == nullptr) return {frame};
    std::vector<std::byte> bytes(message.payload.begin(), message.payload.end());
    bytes[0] = static_cast<std::byte>(++told);
    return {frame::encode(Header(*average), bytes)};
  };
  RoundsOptions options;
  options.all_reduce.round_slack = 3s;
  Rounds rounds(1, three_and_a_liar(lie), options);
  rounds.run();
  std::optional<std::vector<float>> committed;
  for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
    if (rank == rounds.rank_of_player(0)) continue;
    if (!rounds.committed(rank)) {
      CHECK(rounds.values(rank) == rounds.before(rank));
      continue;
    }
    if (committed) CHECK(rounds.values(rank) == *committed);
    committed = rounds.values(rank);
  }
}

TEST_CASE(
    "all-reduce: what the senders computed is proven with the result, and of two who computed one unit one counts") {
  auto players = three_and_a_liar(nullptr);
  for (std::size_t i = 0; i < players.size(); ++i) {
    players[i].weight = 40 + (i + 1) % 2;
    players[i].work = Work({30 * i, 40});  // ten units with each neighbour; the one in the middle weighs less
  }
  players[3].work = {};  // a free-form loop
  Rounds rounds(1, players, {});
  rounds.run();
  CHECK(rounds.broken() == "");
  CHECK(all_committed(rounds));
  std::uint64_t units = 0;
  for (const auto& peer : rounds.report(0).peers) units += peer.work;
  CHECK(units == 80);
  CHECK(rounds.report(0).weight == 82 + 40);
  const auto& left_out = rounds.report(0).peers[rounds.rank_of_player(1)];
  CHECK(left_out.fault == averaging::Fault::overlap);
  CHECK(left_out.counted == 0);
  CHECK(rounds.report(0).peers[rounds.rank_of_player(3)].work == 0);

  // whoever was not in the round gets the same from anyone's hands
  const auto* proof = rounds.proof(0);
  auto frames = proof->frames();
  const auto verified = averaging::CommittedRound::verify(proof->group(), proof->proof(), frames, rounds.codecs());
  REQUIRE(verified);
  Work counted({0, 40});
  counted.add({60, 40});
  CHECK((*verified)->work().all() == counted);
  std::size_t bent = 0;
  for (Frame& frame : frames) {
    const auto message = frame::decode<Header>(*frame).value();
    auto average = std::get<averaging::wire::Average>(message.header);
    if (average.work.empty()) continue;
    const Frame honest = frame;
    average.work.pop_back();
    frame = frame::encode(Header(average), message.payload);
    CHECK_FALSE(averaging::CommittedRound::verify(proof->group(), proof->proof(), frames, rounds.codecs()));
    frame = honest;
    ++bent;
  }
  CHECK(bent == proof->proof().manifest.size());
}

TEST_CASE("all-reduce: own values that are not finite listen only") {
  auto players = three_and_a_liar(nullptr);
  players[2].values[9000] = std::numeric_limits<float>::infinity();
  Rounds rounds(1, players, {});
  rounds.run();
  const std::size_t silent = rounds.rank_of_player(2);
  CHECK(all_committed(rounds));
  CHECK(rounds.values(silent) == rounds.values(rounds.rank_of_player(1)));
  CHECK(rounds.report(0).peers[silent].counted == 0);
}

TEST_CASE("all-reduce: too few samples, or none, and nothing changes") {
  RoundsOptions options;
  options.weight_min = 1'000'000;
  Rounds few(1, three_and_a_liar(nullptr), options);
  few.run();
  CHECK(few.broken() == "");
  for (std::size_t rank = 0; rank < few.size(); ++rank) {
    CHECK_FALSE(few.committed(rank));
    CHECK(few.report(rank).reason == RoundReport::Reason::weight_low);
  }
  auto players = three_and_a_liar(nullptr);
  for (Player& player : players) {
    player.weight = 0;
    player.work = {};
  }
  Rounds none(1, players, {});
  none.run();
  CHECK(none.broken() == "");
  for (std::size_t rank = 0; rank < none.size(); ++rank)
    CHECK(none.report(rank).reason == RoundReport::Reason::no_weight);
}

TEST_CASE("all-reduce: of a previous group one voice is sent, and another member stands in when it dies") {
  const auto build = [](bool with_death, std::uint64_t seed) {
    Random random(seed);
    std::vector<Player> players = draw_players(random, 6, false);
    std::size_t units = 0;
    for (Player& player : players) units += player.units = 2;
    for (Player& player : players) {
      player.values.resize(units * kUnitValues, 1.0F);
      player.weight = 3;
    }
    RoundsOptions options;
    for (std::size_t i = 0; i < players.size(); ++i) {
      options.previous.push_back(Hasher("previous").add(i / 2).finish());
      players[i].values = players[i / 2 * 2].values;  // who committed together holds equal bytes
      players[i].work = Work({i / 2 * 3, 3});
    }
    auto rounds = std::make_unique<Rounds>(seed, players, options);
    if (with_death) rounds->kill_at(Duration(random.below(60'000'000)), random.below(6));
    return rounds;
  };
  const auto calm = build(false, 1);
  calm->run();
  CHECK(calm->broken() == "");
  CHECK(calm->report(0).weight == 9);  // three groups, one voice each
  for (const std::uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    const auto rounds = build(true, seed);
    rounds->run();
    CHECK(rounds->broken() == "");
    CHECK(all_committed(*rounds));
    for (std::size_t rank = 0; rank < rounds->size(); ++rank)
      if (!rounds->dead(rank)) CHECK(rounds->report(rank).weight == 9);  // a voice that died had a stand-in
  }
}

TEST_CASE("all-reduce: when what a voice sends is refused, the next member of its previous group speaks at once") {
  const auto poison = [](const Frame&, const Part& part, std::span<const std::byte> payload) -> std::vector<Frame> {
    std::vector<std::byte> bytes(payload.begin(), payload.end());
    const float not_a_number = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + 4 * 17, &not_a_number, 4);
    return {frame::encode(Header(part), bytes)};
  };
  auto players = three_and_a_liar(nullptr);
  for (Player& player : players) {
    player.weight = 3;
    player.work = {};
  }
  RoundsOptions options;  // the first two committed together, so they hold the same and one of them speaks
  for (const std::uint64_t group : {1, 1, 2, 3}) options.previous.push_back(Hasher("previous").add(group).finish());
  players[1].values = players[0].values;
  const Rounds ranks(1, players, options);
  const std::size_t voice = ranks.rank_of_player(0) < ranks.rank_of_player(1) ? 0 : 1;
  players[voice].rewrite = lie_in_parts(poison);
  Rounds rounds(1, players, options);
  rounds.run();
  CHECK(rounds.broken() == "");
  CHECK(all_committed(rounds));
  CHECK(last_finish(rounds) < 500ms);
  for (std::size_t rank = 0; rank < rounds.size(); ++rank) CHECK(rounds.report(rank).weight == 9);
}

TEST_CASE("all-reduce: the same seed gives the same messages at the same times") {
  const auto fingerprint = [](std::uint64_t seed) {
    Random random(seed);
    Rounds rounds(seed, draw_players(random, 6, true), {});
    rounds.kill_at(60ms, 2);
    rounds.run();
    return rounds.fingerprint();
  };
  CHECK(fingerprint(11) == fingerprint(11));
  CHECK(fingerprint(11) != fingerprint(12));
}

}  // namespace collab::test
