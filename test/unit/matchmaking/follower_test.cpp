#include "matchmaking/follower.hpp"

#include "unit/matchmaking/terms.hpp"

#include "support/doctest.hpp"

namespace collab::matchmaking {
namespace {

using Next = Follower::Next;

wire::Begin begin_for(unsigned self) {
  const Terms terms = terms_of(1);
  Leader leader(terms);
  (void)leader.on_join(peer(self), join_of(self, kTarget), kStart);
  return wire::to_wire(*leader.begin(0, false, kStart));
}

RefusalReason reason_of(const Terms& terms, const wire::Begin& begin) {
  const auto verdict = judge(terms, begin);
  const auto* reason = std::get_if<RefusalReason>(&verdict);
  return reason == nullptr ? RefusalReason(0) : *reason;
}

}  // namespace

TEST_CASE("follower: a leader that is dead, frozen or does not answer is struck, each in its time") {
  const Terms terms = terms_of(2);
  FakeLinks world;
  Follower follower(terms);
  (void)follower.ask(peer(1), 0, kStart + 500ms);
  std::string_view why;
  const auto at = [&](Duration since_start) {
    world.now = kStart + since_start;
    return follower.on_time(world.links(), world.now, why);
  };
  CHECK(at(2400ms) == Next::wait);  // alive, but not there yet
  CHECK(at(2500ms) == Next::strike);
  CHECK(why == "no answer");
  world.frozen.insert(peer(1));
  CHECK(at(1499ms) == Next::wait);
  CHECK(at(1500ms) == Next::strike);
  CHECK(why == "silent");
  world.frozen.clear();
  world.dead.insert(peer(1));
  CHECK(at(1010ms) == Next::strike);
}

TEST_CASE("follower: a leader whose line broke and is back is asked again, once") {
  const Terms terms = terms_of(2);
  FakeLinks world;
  Follower follower(terms);
  (void)follower.ask(peer(1), 0, kStart);
  follower.on_accepted(wire::Accepted{9000}, kStart);
  std::string_view why;
  world.now = kStart + 1100ms;
  CHECK(follower.on_time(world.links(), world.now, why) == Next::wait);
  world.mended.insert(peer(1));
  CHECK(follower.on_time(world.links(), world.now, why) == Next::ask_again);
  (void)follower.ask(peer(1), 0, world.now);
  CHECK(follower.on_time(world.links(), world.now, why) == Next::wait);
}

TEST_CASE("follower: who turns to nobody has been accepted by nobody") {
  const Terms terms = terms_of(2);
  Follower follower(terms);
  (void)follower.ask(peer(1), 0, kStart);
  follower.on_accepted(wire::Accepted{3000}, kStart);
  CHECK(follower.accepted());
  follower.forget();
  CHECK_FALSE(follower.accepted());
  CHECK_FALSE(follower.leader());
}

TEST_CASE("follower: a leader that accepted must begin by its deadline, and is struck when it falls silent") {
  const Terms terms = terms_of(2);
  FakeLinks world;
  Follower follower(terms);
  (void)follower.ask(peer(1), 0, kStart);
  wire::Accepted accepted;
  accepted.deadline_ms = 3000;
  follower.on_accepted(accepted, kStart);
  std::string_view why;
  world.now = kStart + 3400ms;
  CHECK(follower.on_time(world.links(), world.now, why) == Next::wait);
  world.now = kStart + 3500ms;
  CHECK(follower.on_time(world.links(), world.now, why) == Next::strike);
  CHECK(why == "never began");
  world.frozen.insert(peer(1));
  CHECK(follower.on_time(world.links(), kStart + 999ms, why) == Next::wait);
  CHECK(follower.on_time(world.links(), kStart + 1000ms, why) == Next::strike);
}

TEST_CASE("follower: silence is measured against the round trip where that is long") {
  const Patience patience;
  net::LinkState link;
  link.rtt = 400ms;
  CHECK(silence_limit(link, patience) == Duration(1600ms));
}

TEST_CASE("follower: it takes a good Begin") {
  const Terms terms = terms_of(2);
  const auto verdict = judge(terms, begin_for(2));
  REQUIRE(std::holds_alternative<Group>(verdict));
  CHECK(std::get<Group>(verdict).rank_of(peer(2)));
}

TEST_CASE("follower: a leader may choose the coarse codecs, where there are any") {
  Terms terms = terms_of(2);
  wire::Begin begin = begin_for(2);
  begin.codec_map[4] = 4;
  CHECK(reason_of(terms, begin) == RefusalReason::codec_map_differs);
  terms.options.coarse_codec_map = begin.codec_map;
  CHECK(std::get<Group>(judge(terms, begin)).codec_map == begin.codec_map);
  CHECK(std::get<Group>(judge(terms, begin_for(2))).codec_map == terms.options.codec_map);
  begin.codec_map[4] = 5;
  CHECK(reason_of(terms, begin) == RefusalReason::codec_map_differs);
}

TEST_CASE("follower: each reason to refuse a Begin") {
  const Terms terms = terms_of(2);
  const auto answer = [&](auto change) {
    wire::Begin begin = begin_for(2);
    change(begin);
    return reason_of(terms, begin);
  };
  CHECK(answer([](wire::Begin& b) { b.epoch = 6; }) == RefusalReason::other_round);
  CHECK(answer([](wire::Begin& b) { b.round = 2; }) == RefusalReason::other_round);
  CHECK(answer([](wire::Begin& b) { b.topic[4] = 4; }) == RefusalReason::other_round);
  CHECK(answer([](wire::Begin& b) { b.schema[4] = 4; }) == RefusalReason::schema_differs);
  CHECK(answer([](wire::Begin& b) { b.codec_map[4] = 4; }) == RefusalReason::codec_map_differs);
  CHECK(answer([](wire::Begin& b) { b.units[0] += 1; }) == RefusalReason::bad_plan);
  CHECK(answer([](wire::Begin& b) { b.roles[0] = 1; }) == RefusalReason::bad_plan);  // a client owns
  CHECK(answer([](wire::Begin& b) { b.roles[1] = 1; }) == RefusalReason::other_role);
  CHECK(answer([](wire::Begin& b) { std::swap(b.roster[0], b.roster[1]); }) == RefusalReason::bad_plan);
  CHECK(answer([](wire::Begin& b) { b.roster[1] = peer(3).key; }) == RefusalReason::bad_plan);  // without me
  CHECK(answer([](wire::Begin& b) { b.order[0] = 1; }) == RefusalReason::bad_plan);
  CHECK(answer([](wire::Begin& b) { b.weight_min = 0; }) == RefusalReason::bad_plan);
  CHECK(answer([](wire::Begin& b) { b.attempt = kAttemptsAhead + 1; }) == RefusalReason::bad_plan);
  CHECK(answer([](wire::Begin& b) { b.incarnations[1] = 7; }) == RefusalReason::former_life);
  CHECK(answer([](wire::Begin& b) { b.incarnations.pop_back(); }) == RefusalReason::bad_plan);
  Terms many = terms;
  many.wanted.electorate = 4;
  CHECK(reason_of(many, begin_for(2)) == RefusalReason::too_few);
  CHECK(answer([](wire::Begin& b) { b.weights[0] = kTargetsPerPeer * kTarget + 1; }) == RefusalReason::weight_refused);
}

TEST_CASE("follower: a Begin with somebody whom the grid does not send is no plan") {
  Terms terms = terms_of(2);
  terms.wanted.electorate = 1;
  terms.wanted.expected = {{peer(1), Role::node}};
  CHECK(reason_of(terms, begin_for(2)) == RefusalReason(0));
  terms.wanted.expected = {{peer(5), Role::node}};
  CHECK(reason_of(terms, begin_for(2)) == RefusalReason::bad_plan);
}

TEST_CASE("follower: an expected leader may be slow to come, a dead one may not") {
  Terms terms = terms_of(2);
  terms.wanted.expected = {{peer(1), Role::node}};
  FakeLinks world;
  Follower follower(terms);
  (void)follower.ask(peer(1), 0, kStart);
  std::string_view why;
  world.now = kStart + 4900ms;
  CHECK(follower.on_time(world.links(), world.now, why) == Next::wait);
  world.now = kStart + 5s;
  CHECK(follower.on_time(world.links(), world.now, why) == Next::strike);
  world.dead.insert(peer(1));
  world.now = kStart + 2s;
  CHECK(follower.on_time(world.links(), world.now, why) == Next::strike);
}

}  // namespace collab::matchmaking
