#include "matchmaking/leader.hpp"

#include "unit/matchmaking/terms.hpp"

#include <limits>
#include <set>

#include "support/doctest.hpp"

namespace collab::matchmaking {

TEST_CASE("leader: it begins when the batch is full, and not on a sample less") {
  const Terms terms = terms_of(1);
  Leader leader(terms);
  CHECK(!leader.on_join(peer(2), join_of(2, 30), kStart));
  CHECK(!leader.on_join(peer(3), join_of(3, 30), kStart));
  CHECK(!leader.begin(39, false, kStart));
  CHECK(!leader.begin(39, false, terms.wanted.deadline));
  wire::Samples told;
  told.total = 31;
  leader.on_samples(peer(3), told);
  told.total = 1000;
  leader.on_samples(peer(9), told);  // no member
  const auto group = leader.begin(39, false, kStart);
  REQUIRE(group);
  CHECK(group->roster.size() == 3);
  CHECK(group->weight_min == terms.wanted.weight_min);
  CHECK(check(*group, peer(2), terms.options.values));
}

TEST_CASE("leader: of the other groups it believes what it has read, or more than half of its group, and no liars") {
  Terms terms = terms_of(1);
  for (const unsigned other : {2, 3, 4, 5}) terms.wanted.expected.push_back({peer(other), Role::node});
  Leader leader(terms);
  for (const unsigned other : {2, 3, 4}) CHECK(!leader.on_join(peer(other), join_of(other, 0), kStart));
  const auto tell = [&](unsigned other, std::uint64_t elsewhere) {
    wire::Samples told;
    told.elsewhere = elsewhere;
    leader.on_samples(peer(other), told);
  };
  leader.on_samples_elsewhere(10);
  CHECK(leader.elsewhere() == 10);
  tell(2, std::numeric_limits<std::uint64_t>::max());
  tell(3, kTarget);
  CHECK(leader.elsewhere() == 10);
  CHECK(!leader.begin(kTarget - 11, false, kStart));
  tell(4, 60);
  CHECK(leader.elsewhere() == 60);  // two of five are not more than half
  CHECK(!leader.on_join(peer(4), join_of(4, 0), kStart));
  CHECK(leader.elsewhere() == 60);  // asked again, it has not forgotten
  CHECK(!leader.begin(kTarget - 61, false, kStart));
  CHECK(leader.begin(kTarget - 60, false, kStart));
  leader.on_samples_elsewhere(70);
  CHECK(leader.elsewhere() == 70);
  leader.drop(peer(4));
  leader.drop(peer(3));
  tell(2, kTarget);
  CHECK(leader.elsewhere() == 70);  // who is not there is no liar's voice
  terms.wanted.expected.clear();    // one group of everybody
  Leader of_all(terms);
  for (const unsigned other : {2, 3}) {
    CHECK(!of_all.on_join(peer(other), join_of(other, 0), kStart));
    wire::Samples told;
    told.elsewhere = kTarget;
    of_all.on_samples(peer(other), told);
  }
  CHECK(of_all.elsewhere() == 0);
}

TEST_CASE("leader: on a grid it takes auxiliaries that nobody expects, as many as leave room for those who are") {
  Terms terms = terms_of(1, 1);
  terms.wanted.expected = {{peer(2), Role::client}, {peer(3), Role::client}};
  terms.wanted.group_size_max = 4;
  terms.wanted.auxiliaries = {peer(9), peer(10)};
  Leader leader(terms);
  CHECK(leader.on_join(peer(9), join_of(9, 0), kStart) == RefusalReason::other_round);
  wire::Join lends = join_of(9, 0);
  lends.role = static_cast<std::uint8_t>(Role::auxiliary);
  lends.previous = hash_bytes("test group", {});                                // it says to speak for somebody
  CHECK(leader.on_join(peer(8), lends, kStart) == RefusalReason::other_round);  // nobody knows that it averages
  CHECK(!leader.on_join(peer(9), lends, kStart));
  CHECK(!leader.has_senders());
  CHECK(leader.on_join(peer(10), lends, kStart) == RefusalReason::full);
  CHECK(!leader.on_join(peer(9), lends, kStart));  // again
  for (const unsigned expected : {2, 3}) CHECK(!leader.on_join(peer(expected), join_of(expected, 0), kStart));
  CHECK(leader.has_senders());
  const auto group = leader.begin(kTarget, false, kStart);
  REQUIRE(group);
  CHECK(group->roster.size() == 4);
  CHECK(group->roster[*group->rank_of(peer(9))].weight_max == 0);
  CHECK(group->roster[*group->rank_of(peer(9))].previous == Digest{});
}

TEST_CASE("leader: it plans for the round of the pass that it leads") {
  for (const std::uint32_t round : {1U, 3U}) {
    Terms terms = terms_of(1, 1);
    terms.wanted.round = round;
    terms.options.plan = [round](const std::vector<Applicant>& roster, std::uint32_t of) {
      CHECK(of == round);
      return everything_to_first_node(roster, of);
    };
    Leader leader(terms);
    wire::Join join = join_of(2, 0);
    join.round = round;
    CHECK(!leader.on_join(peer(2), join, kStart));
    CHECK(leader.begin(kTarget, false, kStart));
  }
}

TEST_CASE("leader: it takes the coarse codecs that it plans with, where there are any") {
  Terms terms = terms_of(1, 1);
  terms.options.plan = [](const std::vector<Applicant>& roster, std::uint32_t round) {
    Plan plan = everything_to_first_node(roster, round);
    plan.coarse = true;
    return plan;
  };
  for (const bool has : {false, true}) {
    if (has) terms.options.coarse_codec_map.emplace()[0] = 9;
    Leader leader(terms);
    CHECK(!leader.on_join(peer(2), join_of(2, 0), kStart));
    const auto group = leader.begin(kTarget, false, kStart);
    REQUIRE(group);
    CHECK(group->codec_map == (has ? *terms.options.coarse_codec_map : terms.options.codec_map));
  }
}

TEST_CASE("leader: members that tell more samples than there can be neither begin the epoch nor hold it up") {
  Terms terms = terms_of(1);
  terms.options.samples_believed = [](const PeerId&) { return std::uint64_t(10); };
  Leader leader(terms);
  wire::Samples told;
  told.total = std::numeric_limits<std::uint64_t>::max();
  for (unsigned i = 2; i < 4; ++i) {
    CHECK(!leader.on_join(peer(i), join_of(i, 0), kStart));
    leader.on_samples(peer(i), told);
  }
  CHECK(!leader.begin(kTarget - 21, false, kStart));
  CHECK(leader.begin(kTarget - 20, false, kStart));
}

TEST_CASE("leader: it waits for who is expected until it is full or out of time") {
  Terms terms = terms_of(1, 2);
  terms.wanted.group_size_max = 3;
  Leader leader(terms);
  CHECK(!leader.on_join(peer(2), join_of(2, kTarget), kStart));
  CHECK(!leader.begin(0, true, kStart));
  CHECK(leader.begin(0, true, leader.gather_deadline()));
  CHECK(!leader.on_join(peer(3), join_of(3, 0), kStart));
  CHECK(leader.begin(0, true, kStart));
  CHECK(leader.on_join(peer(4), join_of(4, 0), kStart) == RefusalReason::full);
  CHECK(!leader.on_join(peer(3), join_of(3, 5), kStart));  // a member may join again
}

TEST_CASE("leader: half of the current peers are too few, auxiliaries do not count") {
  const Terms terms = terms_of(1, 4);
  Leader leader(terms);
  CHECK(!leader.on_join(peer(2), join_of(2, kTarget), kStart));
  wire::Join auxiliary = join_of(3, kTarget);
  auxiliary.role = static_cast<std::uint8_t>(Role::auxiliary);
  CHECK(!leader.on_join(peer(3), auxiliary, kStart));
  CHECK(!leader.begin(0, false, kStart));
  CHECK(leader.lacking() == NoGroup::no_quorum);
  CHECK(!leader.on_join(peer(4), join_of(4, 0), kStart));
  CHECK(leader.begin(0, false, kStart));
}

TEST_CASE("leader: who counts twice as many peers as there are here would refuse, and is left out or waited for") {
  const Terms terms = terms_of(1, 5);
  Leader leader(terms);
  wire::Join counts_more = join_of(2, kTarget);
  counts_more.electorate = 8;
  CHECK(!leader.on_join(peer(2), counts_more, kStart));
  for (unsigned i = 3; i < 5; ++i) CHECK(!leader.on_join(peer(i), join_of(i, kTarget), kStart));
  CHECK(leader.refusing() == std::set<PeerId>{peer(2)});  // four of eight are no majority
  const auto without = leader.begin(0, false, kStart);
  REQUIRE(without);
  CHECK(without->roster.size() == 3);
  CHECK(!without->rank_of(peer(2)));
  CHECK(leader.samples(0) == 2 * kTarget);

  // without it the group is too small for who counts six of them as well, and then for the leader
  wire::Samples told;
  told.total = kTarget;
  told.electorate = 6;
  leader.on_samples(peer(3), told);
  CHECK(leader.refusing() == std::set<PeerId>{peer(2), peer(3)});
  CHECK(!leader.begin(kTarget, false, kStart));
  CHECK(leader.lacking() == NoGroup::no_quorum);

  // it hears of the dead
  told.electorate = 7;
  leader.on_samples(peer(2), told);
  CHECK(leader.refusing().empty());
  const auto all = leader.begin(0, false, kStart);
  REQUIRE(all);
  CHECK(all->roster.size() == 4);
}

TEST_CASE("leader: one alone begins no group of its own while somebody has joined it") {
  Terms terms = terms_of(1, 1);
  terms.wanted.alone = true;
  Leader leader(terms);
  wire::Join counts_more = join_of(2, kTarget);
  counts_more.electorate = 4;
  CHECK(!leader.on_join(peer(2), counts_more, kStart));
  CHECK(!leader.begin(kTarget, false, kStart));
  leader.drop(peer(2));
  CHECK(leader.begin(kTarget, false, kStart));
}

TEST_CASE("leader: nobody is believed more samples than its bound") {
  Terms terms = terms_of(1, 2);
  terms.options.weight_max = [](const PeerId&) { return 7; };
  Leader leader(terms);
  CHECK(!leader.on_join(peer(2), join_of(2, ~std::uint64_t(0)), kStart));
  CHECK(leader.samples(10) == 17);
  terms.options.weight_max = [](const PeerId&) { return ~std::uint64_t(0); };
  CHECK(leader.samples(10) == 10 + kTargetsPerPeer * kTarget);
}

TEST_CASE("leader: samples that are not believed begin nothing, and nobody's weight is cut below what it may bring") {
  Terms terms = terms_of(1, 2);
  terms.options.weight_max = [](const PeerId&) { return 40; };
  terms.options.samples_believed = [](const PeerId&) { return 20; };
  Leader leader(terms);
  CHECK(!leader.on_join(peer(2), join_of(2, 1'000'000'000'000), kStart));
  CHECK(leader.samples(0) == 20);
  CHECK(!leader.begin(kTarget - 21, false, terms.wanted.deadline));
  const auto group = leader.begin(kTarget - 20, false, kStart);
  REQUIRE(group);
  CHECK(group->roster[*group->rank_of(peer(2))].weight_max == 40);
}

TEST_CASE("leader: each reason to refuse a Join") {
  const Terms terms = terms_of(1);
  Leader leader(terms);
  const auto answer = [&](auto change) {
    wire::Join join = join_of(2, 1);
    join.incarnation = 5;
    change(join);
    return leader.on_join(peer(2), join, kStart);
  };
  CHECK(answer([](wire::Join& j) { j.key = "run/other/0/-"; }) == RefusalReason::other_round);
  CHECK(answer([](wire::Join& j) { j.epoch = 6; }) == RefusalReason::other_round);
  CHECK(answer([](wire::Join& j) { j.round = 2; }) == RefusalReason::other_round);
  CHECK(answer([](wire::Join& j) { j.attempt = kAttemptsAhead + 1; }) == RefusalReason::other_round);
  CHECK(answer([](wire::Join& j) { j.schema[9] = 1; }) == RefusalReason::schema_differs);
  CHECK(answer([](wire::Join& j) { j.codec_map[9] = 1; }) == RefusalReason::codec_map_differs);
  CHECK(answer([](wire::Join& j) { j.role = 3; }) == RefusalReason::bad_plan);
  CHECK(!leader.has(peer(2)));
  CHECK(!answer([](wire::Join&) {}));
  CHECK(answer([](wire::Join& j) { j.incarnation = 4; }) == RefusalReason::former_life);
  for (int reason = 1; reason <= 10; ++reason) {
    CHECK(!sentence(static_cast<RefusalReason>(reason)).starts_with("a reason that"));
  }
}

TEST_CASE("leader: a group has the highest attempt that one of its members has tried") {
  const Terms terms = terms_of(1, 2);
  Leader leader(terms);
  wire::Join join = join_of(2, kTarget);
  join.attempt = 4;
  CHECK(!leader.on_join(peer(2), join, kStart));
  CHECK(leader.begin(0, false, kStart)->attempt == 4);
}

TEST_CASE("leader: alone it begins only when its peer is the whole swarm and nobody is expected") {
  Terms terms = terms_of(1, 1);
  {
    const Leader leader(terms);
    CHECK(!leader.begin(kTarget, false, kStart));
    CHECK(leader.lacking() == NoGroup::alone);
  }
  terms.wanted.alone = true;
  const Leader leader(terms);
  CHECK(!leader.begin(kTarget - 1, false, kStart));
  CHECK(!leader.begin(kTarget, true, terms.wanted.deadline));
  CHECK(leader.begin(kTarget, false, kStart)->roster.size() == 1);
}

TEST_CASE("leader: on a grid nobody has a place but who is expected") {
  Terms terms = terms_of(1, 1);
  terms.wanted.expected = {{peer(2), Role::node}};
  Leader leader(terms);
  CHECK(leader.on_join(peer(3), join_of(3, kTarget), kStart) == RefusalReason::other_round);
  CHECK(!leader.on_join(peer(2), join_of(2, kTarget), kStart));
  CHECK(leader.begin(0, false, kStart)->roster.size() == 2);

  PeerId longer = peer(2);  // of an expected peer perhaps only the seat is known
  longer.key[20] = 9;
  CHECK(!leader.on_join(longer, join_of(2, 0), kStart));
}

TEST_CASE("leader: a group that is of no use without a voice for every digit does not begin without one") {
  Terms terms = terms_of(1, 3);
  terms.wanted.round = 2;
  terms.wanted.previous = hash_bytes("test group", {});
  terms.wanted.dropped = 0;
  terms.wanted.expected = {{peer(2), Role::node, 0}, {peer(3), Role::node, 1}, {peer(4), Role::node, 1}};
  const auto join = [&](unsigned place, std::uint32_t digit, bool speaks) {
    wire::Join out = join_of(place, kTarget);
    out.round = 2;
    out.dropped = digit;
    if (speaks) out.previous = hash_bytes("test group", {});
    return out;
  };
  for (const bool voiced : {false, true}) {
    CAPTURE(voiced);
    terms.wanted.voiced = voiced;
    Leader leader(terms);
    CHECK(!leader.on_join(peer(2), join(2, 0, true), kStart));
    CHECK(!leader.on_join(peer(3), join(3, 1, false), kStart));  // it only listens
    CHECK(leader.begin(0, false, kStart).has_value() == !voiced);
    CHECK(leader.begin(0, true, terms.wanted.deadline).has_value() == !voiced);
    CHECK(!leader.on_join(peer(4), join(4, 1, true), kStart));
    CHECK(leader.begin(0, false, kStart).has_value());
  }
}

}  // namespace collab::matchmaking
