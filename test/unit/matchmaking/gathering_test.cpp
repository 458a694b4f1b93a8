#include "matchmaking/gathering.hpp"

#include "unit/matchmaking/terms.hpp"

#include "support/doctest.hpp"

namespace collab::matchmaking {
namespace {

const std::vector<unsigned> kPlaces = by_place();

std::vector<Candidate> declared(std::initializer_list<unsigned> numbers) {
  std::vector<Candidate> candidates;
  for (const unsigned number : numbers) candidates.push_back({peer(number), true, Sureness::declared});
  return candidates;
}

struct One {
  explicit One(unsigned self, Start start = {}, std::size_t electorate = 3)
      : gathering(terms_of(self, electorate), world.links(), std::move(start), {}, kStart) {}
  One(const FakeLinks& links, Terms terms, Start start, Gathering::Carried carried)
      : world(links), gathering(std::move(terms), world.links(), std::move(start), std::move(carried), kStart) {}

  void runs(TimePoint until) {
    while (world.now < until) gathering.on_time(world.now += 100ms);
  }
  template <class Message>
  void hears(unsigned from, const Message& message, TimePoint now = kStart) {
    gathering.on_message(peer(from), wire::Header(message), now);
  }
  /// The last message to `to`, if it is of this kind.
  template <class Message>
  std::optional<Message> said_to(unsigned to) {
    std::optional<Message> last;
    for (auto& [receiver, message] : gathering.take_outgoing()) {
      if (receiver != peer(to)) continue;
      last.reset();
      if (auto* body = std::get_if<Message>(&message)) last = std::move(*body);
    }
    return last;
  }

  FakeLinks world;
  Gathering gathering;
};

Start knowing(std::initializer_list<unsigned> numbers) {
  Start start;
  start.candidates = declared(numbers);
  return start;
}

wire::Redirect redirect_to(unsigned number) {
  wire::Redirect redirect;
  redirect.leader = peer(number).key;
  return redirect;
}

wire::Accepted accepted_for(std::chrono::milliseconds time) {
  wire::Accepted accepted;
  accepted.deadline_ms = static_cast<std::uint32_t>(time.count());
  return accepted;
}

RefusalReason reason_in(const std::optional<wire::Refused>& refused) {
  return refused ? static_cast<RefusalReason>(refused->reason) : RefusalReason(0);
}

}  // namespace

TEST_CASE("gathering: who could not be reached before its address was known is asked as soon as it is connected") {
  One second(kPlaces[1], knowing({kPlaces[0]}));
  CHECK(second.said_to<wire::Join>(kPlaces[0]));
  second.world.dead = {peer(kPlaces[0])};
  second.world.now = kStart + 2s;
  second.gathering.on_unreachable(peer(kPlaces[0]), kStart);
  CHECK(second.gathering.leading());
  second.gathering.on_time(kStart + 200ms);
  CHECK(!second.said_to<wire::Join>(kPlaces[0]));
  second.world.dead.clear();
  second.gathering.on_time(kStart + 400ms);
  CHECK(second.gathering.following() == peer(kPlaces[0]));
  CHECK(second.said_to<wire::Join>(kPlaces[0]));
}

TEST_CASE("gathering: who could not be reached and is distrusted since then is not forgiven for a connection") {
  One follower(kPlaces[2], knowing({kPlaces[0], kPlaces[1]}));
  follower.world.dead = {peer(kPlaces[0])};
  follower.gathering.on_unreachable(peer(kPlaces[0]), kStart);
  follower.world.dead.clear();
  wire::Begin bad_plan;
  bad_plan.epoch = 5;
  bad_plan.schema[0] = 1;
  bad_plan.codec_map[0] = 2;
  follower.hears(kPlaces[0], bad_plan);
  CHECK(follower.said_to<wire::Refused>(kPlaces[0]));
  follower.gathering.on_time(kStart + 100ms);
  CHECK(follower.gathering.following() == peer(kPlaces[1]));
  CHECK(!follower.said_to<wire::Redirect>(kPlaces[1]));
}

TEST_CASE("gathering: the smallest place leads, the others ask it") {
  One first(kPlaces[0], knowing({kPlaces[1], kPlaces[2]}));
  CHECK(first.gathering.leading());
  One second(kPlaces[1], knowing({kPlaces[0], kPlaces[2]}));
  CHECK(second.gathering.following() == peer(kPlaces[0]));
  CHECK(second.said_to<wire::Join>(kPlaces[0]));
}

TEST_CASE(
    "gathering: who is asked and does not lead answers at once with a smaller place, before its own join is answered") {
  One middle(kPlaces[3], knowing({kPlaces[1]}));
  middle.hears(kPlaces[5], join_of(kPlaces[5], 1));
  const auto answer = middle.said_to<wire::Redirect>(kPlaces[5]);
  REQUIRE(answer);
  CHECK(PeerId{answer->leader} == peer(kPlaces[1]));
}

TEST_CASE("gathering: a leader that learns of a smaller place sends its followers there and joins") {
  One leader(kPlaces[1]);
  leader.hears(kPlaces[4], join_of(kPlaces[4], 1));
  CHECK(leader.said_to<wire::Accepted>(kPlaces[4]));
  leader.gathering.on_candidates(declared({kPlaces[0]}), kStart);
  CHECK(leader.gathering.following() == peer(kPlaces[0]));
  const auto sent = leader.gathering.take_outgoing();
  REQUIRE(sent.size() == 2);
  CHECK(PeerId{std::get<wire::Redirect>(sent[0].second).leader} == peer(kPlaces[0]));
  CHECK(std::holds_alternative<wire::Join>(sent[1].second));
}

TEST_CASE("gathering: a smaller place never joins a larger one") {
  One leader(kPlaces[4]);
  leader.hears(kPlaces[2], join_of(kPlaces[2], 1));
  CHECK(reason_in(leader.said_to<wire::Refused>(kPlaces[2])) == RefusalReason::not_leading);
}

TEST_CASE("gathering: a redirect upwards is distrusted, nine downwards are too many") {
  One follower(kPlaces[12], knowing({kPlaces[10]}));
  follower.hears(kPlaces[10], redirect_to(kPlaces[11]));
  CHECK(follower.gathering.leading());
  CHECK(follower.gathering.take_struck().at(0).second == "redirects to a larger place");

  One patient(kPlaces[12], knowing({kPlaces[10]}));
  for (unsigned i = 10; i > 2; --i) {
    CHECK(patient.gathering.following() == peer(kPlaces[i]));
    patient.hears(kPlaces[i], redirect_to(kPlaces[i - 1]));
  }
  CHECK(patient.gathering.following() == peer(kPlaces[2]));
  patient.hears(kPlaces[2], redirect_to(kPlaces[1]));
  CHECK(patient.gathering.take_struck().at(0).second == "too many redirects");

  One accepted(kPlaces[12], knowing({kPlaces[10]}));
  for (unsigned i = 10; i > 2; --i) accepted.hears(kPlaces[i], redirect_to(kPlaces[i - 1]));
  accepted.hears(kPlaces[2], accepted_for(10s));
  accepted.hears(kPlaces[2], redirect_to(kPlaces[1]));
  CHECK(accepted.gathering.following() == peer(kPlaces[1]));
}

TEST_CASE("gathering: hearsay from one peer makes it wander eight times at most") {
  One leader(kPlaces[19]);
  for (unsigned i = 18; i > 0; --i) leader.hears(kPlaces[0], redirect_to(kPlaces[i]));
  CHECK(leader.gathering.following().has_value());
  const auto sent = leader.gathering.take_outgoing();
  CHECK(sent.size() <= 2 * 8);
}

TEST_CASE("gathering: a bad plan strikes its leader for all tries of the round") {
  One follower(kPlaces[2], knowing({kPlaces[0], kPlaces[1]}));
  wire::Begin begin;
  begin.epoch = 5;
  begin.topic = topic(terms_of(0).options.key, begin.epoch, begin.round);
  begin.schema[0] = 1;
  begin.codec_map[0] = 2;
  follower.hears(kPlaces[0], begin);
  CHECK(follower.gathering.following() == peer(kPlaces[1]));
  auto carried = follower.gathering.take_carried();
  REQUIRE(carried.distrusted.contains(peer(kPlaces[0])));

  Gathering again(terms_of(kPlaces[2]), follower.world.links(), knowing({kPlaces[0], kPlaces[1]}), std::move(carried),
                  kStart);
  CHECK(again.following() == peer(kPlaces[1]));
  again.on_message(peer(kPlaces[0]), wire::Header(redirect_to(kPlaces[0])), kStart);
  CHECK(again.following() == peer(kPlaces[1]));
}

TEST_CASE("gathering: who lied gets another chance, the later the more often it lied") {
  One follower(kPlaces[2], knowing({kPlaces[0]}));
  wire::Begin bad_plan;
  bad_plan.epoch = 5;
  bad_plan.schema[0] = 1;
  bad_plan.codec_map[0] = 2;
  const Duration once = Patience().distrust;
  TimePoint now = kStart;
  for (unsigned lies = 0; lies < 3; ++lies) {
    CAPTURE(lies);
    REQUIRE(follower.gathering.following() == peer(kPlaces[0]));
    follower.gathering.on_message(peer(kPlaces[0]), wire::Header(bad_plan), now);
    CHECK(follower.gathering.leading());
    const TimePoint again = now + once * (1 << lies);
    for (; now < again; now += 100ms) {
      follower.gathering.on_time(now);
      CHECK(follower.gathering.leading());
    }
    follower.gathering.on_time(now);
  }
}

TEST_CASE("gathering: one is promised to one leader: the Begin of another is refused") {
  One follower(kPlaces[5], knowing({kPlaces[0], kPlaces[1]}));
  follower.hears(kPlaces[0], wire::Accepted());
  const Terms terms = terms_of(kPlaces[1]);
  Leader other(terms);
  (void)other.on_join(peer(kPlaces[5]), join_of(kPlaces[5], kTarget), kStart);
  const wire::Begin begin = wire::to_wire(*other.begin(0, false, kStart));
  follower.hears(kPlaces[1], begin);
  CHECK(reason_in(follower.said_to<wire::Refused>(kPlaces[1])) == RefusalReason::joined_elsewhere);
  CHECK(!follower.gathering.outcome());
  CHECK(follower.gathering.take_declined().size() == 1);  // nobody there waits for it
  follower.hears(kPlaces[1], begin);
  CHECK(follower.gathering.take_declined().empty());
  follower.gathering.on_unreachable(peer(kPlaces[0]), kStart);
  REQUIRE(follower.gathering.following() == peer(kPlaces[1]));
  follower.hears(kPlaces[1], begin);  // too late: its members go on without this one
  REQUIRE(follower.gathering.outcome());
  CHECK(follower.gathering.outcome()->error() == NoGroup::begun);
}

TEST_CASE("gathering: what the own leader has begun is not declined when a groupmate passes it on sooner") {
  One leader(kPlaces[0], knowing({kPlaces[1], kPlaces[2]}));
  for (const std::size_t place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], kTarget));
  const auto begin = leader.said_to<wire::Begin>(kPlaces[2]);
  REQUIRE(begin);
  One follower(kPlaces[2], knowing({kPlaces[0], kPlaces[1]}));
  follower.hears(kPlaces[0], wire::Accepted());
  follower.hears(kPlaces[1], *begin);
  CHECK(follower.gathering.take_declined().empty());
  follower.hears(kPlaces[0], *begin);
  CHECK(follower.gathering.outcome());
}

TEST_CASE("gathering: a group that counts on a role that its member has no more is declined, also by a later try") {
  One leader(kPlaces[0], knowing({kPlaces[1], kPlaces[2]}));
  for (const std::size_t place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], kTarget));
  const auto begin = leader.said_to<wire::Begin>(kPlaces[1]);
  REQUIRE(begin);
  for (const std::uint32_t attempt : {0, 1}) {
    CAPTURE(attempt);
    Terms terms = terms_of(kPlaces[1]);
    terms.options.role = Role::client;
    terms.wanted.attempt = attempt;
    One client(FakeLinks(), terms, knowing({kPlaces[0]}), {});
    client.hears(kPlaces[0], *begin);
    const auto declined = client.gathering.take_declined();
    REQUIRE(declined.size() == 1);
    CHECK(declined.front().id == leader.gathering.outcome()->value().id);
    CHECK(client.gathering.next_attempt() >= 1);
  }
}

TEST_CASE("gathering: who follows tells its leader how the batch fills elsewhere, by sixteenths") {
  One follower(kPlaces[1], knowing({kPlaces[0]}));
  REQUIRE(follower.said_to<wire::Join>(kPlaces[0]));
  const auto told = [&](std::uint64_t elsewhere) {
    follower.gathering.on_samples_elsewhere(elsewhere, kStart);
    const auto samples = follower.said_to<wire::Samples>(kPlaces[0]);
    return samples ? samples->elsewhere : 0;
  };
  CHECK(told(kTarget / 20) == 0);
  CHECK(told(kTarget / 10) == kTarget / 10);
  CHECK(told(kTarget / 10 + 1) == 0);
  CHECK(told(kTarget / 5) == kTarget / 5);
  CHECK(told(kTarget / 20) == kTarget / 20);  // somebody's record has gone stale
}

TEST_CASE("gathering: a standing group begins on the samples that fill the batch, without a Join") {
  Start start;
  start.direct = true;
  start.last_group = {{peer(kPlaces[1]), Role::node}, {peer(kPlaces[2]), Role::node}};
  One leader(kPlaces[0], start);
  leader.gathering.on_samples(kTarget / 2, kStart);
  CHECK(!leader.gathering.outcome());
  wire::Samples samples;
  samples.total = kTarget / 2;
  leader.hears(kPlaces[1], samples);
  REQUIRE(leader.gathering.outcome());
  CHECK(leader.gathering.outcome()->value().roster.size() == 3);
  CHECK(leader.said_to<wire::Begin>(kPlaces[2]));
}

TEST_CASE("gathering: a standing group is presumed by its first leader only, and not in a second try") {
  Start start;
  start.direct = true;
  start.own_samples = kTarget;
  start.last_group = {{peer(kPlaces[0]), Role::node}, {peer(kPlaces[2]), Role::node}};
  One second(kPlaces[1], start);
  second.gathering.on_unreachable(peer(kPlaces[0]), kStart);
  CHECK(second.gathering.leading());
  CHECK(!second.gathering.outcome());
  second.hears(kPlaces[2], join_of(kPlaces[2], 0));
  CHECK(second.gathering.outcome());

  Terms terms = terms_of(kPlaces[0]);
  terms.wanted.attempt = 1;
  FakeLinks world;
  const Gathering again(terms, world.links(), start, {}, kStart);
  CHECK(again.leading());
  CHECK(!again.outcome());
}

TEST_CASE("gathering: who counts on a standing group whose members lead, or follow another, asks them after a while") {
  Start start;
  start.direct = true;
  start.last_group = {{peer(kPlaces[2]), Role::node}, {peer(kPlaces[3]), Role::node}};
  One second(kPlaces[1], start, 4);  // does not know that the first one counts on it
  start.last_group.push_back({peer(kPlaces[1]), Role::node});
  One first(kPlaces[0], start, 4);
  first.hears(kPlaces[2], join_of(kPlaces[2], 0));
  first.hears(kPlaces[3], join_of(kPlaces[3], 0));
  std::optional<TimePoint> asked;
  for (TimePoint now = kStart; now < kStart + 8s && !asked; now += 100ms) {
    first.world.now = now;
    first.gathering.on_time(now);
    if (const auto invitation = first.said_to<wire::Redirect>(kPlaces[1])) {
      asked = now;
      second.hears(kPlaces[0], *invitation);
    }
  }
  CHECK(asked == kStart + 5s);
  CHECK(second.gathering.following() == peer(kPlaces[0]));
  CHECK(second.said_to<wire::Join>(kPlaces[0]));
  first.gathering.on_time(kStart + 5s + 100ms);
  CHECK(!first.said_to<wire::Redirect>(kPlaces[1]));  // once
}

TEST_CASE("gathering: who ended a search without a group told its followers so, and invites them to the next") {
  Start start;
  start.direct = true;
  start.own_samples = kTarget;
  start.last_group = {{peer(kPlaces[1]), Role::node}, {peer(kPlaces[2]), Role::node}};
  start.again = true;
  One first(kPlaces[0], start);
  CHECK(first.gathering.leading());
  CHECK(!first.gathering.outcome());
  CHECK(first.said_to<wire::Redirect>(kPlaces[1]));

  One other(kPlaces[1], knowing({kPlaces[0], kPlaces[2]}));
  other.hears(kPlaces[0], wire::Leave());
  REQUIRE(other.gathering.leading());
  other.hears(kPlaces[0], redirect_to(kPlaces[0]));
  CHECK(other.gathering.following() == peer(kPlaces[0]));
}

TEST_CASE("gathering: late askers hear that it has begun; who retries is kept for our own retry") {
  One leader(kPlaces[0], Start(), 2);
  leader.gathering.on_samples(kTarget, kStart);
  leader.hears(kPlaces[1], join_of(kPlaces[1], 0));
  REQUIRE(leader.gathering.outcome());
  leader.hears(kPlaces[3], join_of(kPlaces[3], 0));
  CHECK(reason_in(leader.said_to<wire::Refused>(kPlaces[3])) == RefusalReason::begun);
  wire::Join stranger = join_of(kPlaces[3], 0);
  stranger.schema[0] = 77;
  leader.hears(kPlaces[3], stranger);
  CHECK(reason_in(leader.said_to<wire::Refused>(kPlaces[3])) == RefusalReason::schema_differs);

  wire::Join retry = join_of(kPlaces[1], 3);
  retry.attempt = 1;
  leader.hears(kPlaces[1], retry);
  Terms terms = terms_of(kPlaces[0], 2);
  terms.wanted.attempt = 1;
  Start start;
  start.own_samples = kTarget;
  const Gathering again(terms, leader.world.links(), start, leader.gathering.take_carried(), kStart);
  REQUIRE(again.outcome());
  CHECK(again.outcome()->value().attempt == 1);
}

TEST_CASE("gathering: for whom a group is too small hears that it begins without it, and tells whom it counts") {
  One leader(kPlaces[0], Start(), 3);
  leader.hears(kPlaces[1], join_of(kPlaces[1], 0));
  wire::Join counts_more = join_of(kPlaces[2], kTarget);
  counts_more.electorate = 6;
  leader.hears(kPlaces[2], counts_more);
  leader.gathering.on_samples(kTarget, kStart);
  REQUIRE(leader.gathering.outcome());
  CHECK(leader.gathering.outcome()->value().roster.size() == 2);
  CHECK(reason_in(leader.said_to<wire::Refused>(kPlaces[2])) == RefusalReason::begun);

  One follower(kPlaces[1], knowing({kPlaces[0]}));
  const auto joined = follower.said_to<wire::Join>(kPlaces[0]);
  REQUIRE(joined);
  CHECK(joined->electorate == 3);
  follower.gathering.on_electorate(7, kStart);
  const auto told = follower.said_to<wire::Samples>(kPlaces[0]);
  REQUIRE(told);
  CHECK(told->electorate == 7);
  follower.gathering.on_electorate(7, kStart);
  CHECK(!follower.said_to<wire::Samples>(kPlaces[0]));
}

TEST_CASE("gathering: who is in a group unawares, for its leader's line broke, has the Begin from whomever it asks") {
  One leader(kPlaces[0], Start(), 4);
  leader.gathering.on_samples(kTarget, kStart);
  for (const std::size_t place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], 0));
  const auto begin = leader.said_to<wire::Begin>(kPlaces[1]);  // the other one's is lost
  REQUIRE(begin);
  One told(kPlaces[1], knowing({kPlaces[0]}));
  told.hears(kPlaces[0], *begin);
  REQUIRE(told.gathering.outcome());

  told.hears(kPlaces[2], join_of(kPlaces[2], 0));
  const auto passed_on = told.said_to<wire::Begin>(kPlaces[2]);
  REQUIRE(passed_on);
  One unaware(kPlaces[2], knowing({kPlaces[0], kPlaces[1]}));
  unaware.world.dead = {peer(kPlaces[0])};
  unaware.gathering.on_unreachable(peer(kPlaces[0]), kStart);
  CHECK(unaware.said_to<wire::Join>(kPlaces[1]));
  unaware.hears(kPlaces[1], *passed_on);
  REQUIRE(unaware.gathering.outcome());
  CHECK(unaware.gathering.outcome()->value().id == told.gathering.outcome()->value().id);

  wire::Join next_life = join_of(kPlaces[2], 0);
  ++next_life.incarnation;
  told.hears(kPlaces[2], next_life);
  CHECK(reason_in(told.said_to<wire::Refused>(kPlaces[2])) == RefusalReason::begun);
  CHECK(told.gathering.late().contains(peer(kPlaces[2])));
}

TEST_CASE("gathering: a Begin that was lost with a line which is back at once is told again") {
  One leader(kPlaces[0], Start(), 3);
  leader.gathering.on_samples(kTarget, kStart);
  One unaware(kPlaces[1], knowing({kPlaces[0]}));
  unaware.hears(kPlaces[0], accepted_for(9s));
  for (const std::size_t place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], 0));
  REQUIRE(leader.said_to<wire::Begin>(kPlaces[1]));  // it never arrives

  (void)unaware.gathering.take_outgoing();
  unaware.world.mended = {peer(kPlaces[0])};
  unaware.world.now = kStart + 300ms;
  unaware.gathering.on_time(unaware.world.now);
  const auto asked = unaware.said_to<wire::Join>(kPlaces[0]);
  REQUIRE(asked);
  leader.hears(kPlaces[1], *asked);
  const auto begin = leader.said_to<wire::Begin>(kPlaces[1]);
  REQUIRE(begin);
  unaware.hears(kPlaces[0], *begin);
  REQUIRE(unaware.gathering.outcome());
}

TEST_CASE("gathering: who is in a group unawares, and would lead another, has the Begin from whomever it invites") {
  One leader(kPlaces[0], Start(), 4);
  leader.gathering.on_samples(kTarget, kStart);
  for (const std::size_t place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], 0));
  const auto begin = leader.said_to<wire::Begin>(kPlaces[2]);
  REQUIRE(begin);
  One told(kPlaces[2], knowing({kPlaces[0], kPlaces[1]}));
  told.hears(kPlaces[0], *begin);
  REQUIRE(told.gathering.outcome());

  One unaware(kPlaces[1], knowing({kPlaces[0], kPlaces[2]}));
  unaware.world.dead = {peer(kPlaces[0])};
  unaware.gathering.on_unreachable(peer(kPlaces[0]), kStart);
  auto invitation = unaware.said_to<wire::Redirect>(kPlaces[2]);
  REQUIRE(invitation);
  told.hears(kPlaces[1], *invitation);
  const auto passed_on = told.said_to<wire::Begin>(kPlaces[1]);
  REQUIRE(passed_on);
  unaware.hears(kPlaces[2], *passed_on);
  REQUIRE(unaware.gathering.outcome());
  CHECK(unaware.gathering.outcome()->value().id == told.gathering.outcome()->value().id);

  ++invitation->incarnation;  // its next life is not of this group
  told.hears(kPlaces[1], *invitation);
  CHECK(reason_in(told.said_to<wire::Refused>(kPlaces[1])) == RefusalReason::begun);
}

TEST_CASE("gathering: who came too late for a round is waited for in the next, for half a second and not to lead") {
  Start start;
  start.direct = true;
  start.last_group = {{peer(kPlaces[2]), Role::node, 0}};
  start.late = {peer(kPlaces[0])};
  start.own_samples = 1000;
  One leader(kPlaces[1], start, 2);
  CHECK(leader.gathering.leading());
  CHECK(!leader.gathering.outcome());
  CHECK(leader.said_to<wire::Redirect>(kPlaces[0]));  // an invitation
  SUBCASE("it comes") {
    leader.hears(kPlaces[0], redirect_to(kPlaces[0]), kStart + 30ms);
    CHECK(leader.gathering.following() == peer(kPlaces[0]));  // its place is smaller
  }
  SUBCASE("it does not come") {
    leader.world.now = kStart + 500ms;
    leader.gathering.on_time(kStart + 200ms);
    leader.gathering.on_time(kStart + 400ms);
    CHECK(!leader.gathering.outcome());
    leader.gathering.on_time(kStart + 500ms);
    REQUIRE(leader.gathering.outcome());
    CHECK(leader.gathering.outcome()->value().roster.size() == 2);
  }
}

TEST_CASE("gathering: a group that has begun remembers who asked too late, and who is refused so tells all it knows") {
  Start start;
  start.direct = true;
  start.last_group = {{peer(kPlaces[1]), Role::node, 0}};
  start.own_samples = 1000;
  One leader(kPlaces[0], start, 2);
  REQUIRE(leader.gathering.outcome());
  leader.hears(kPlaces[3], join_of(kPlaces[3], 0));
  CHECK(leader.gathering.late() == std::set<PeerId>{peer(kPlaces[3])});

  One late(kPlaces[3], knowing({kPlaces[0], kPlaces[1], kPlaces[2]}), 6);
  CHECK(late.said_to<wire::Join>(kPlaces[0]));
  wire::Refused begun;
  begun.reason = static_cast<std::uint8_t>(RefusalReason::begun);
  late.hears(kPlaces[0], begun);
  REQUIRE(late.gathering.outcome());
  CHECK(late.gathering.outcome()->error() == NoGroup::begun);
  std::set<PeerId> told;
  for (const auto& [to, message] : late.gathering.take_outgoing()) {
    if (std::holds_alternative<wire::Join>(message)) told.insert(to);
  }
  CHECK(told == std::set<PeerId>{peer(kPlaces[1]), peer(kPlaces[2])});
  late.hears(kPlaces[1], wire::Accepted());
  CHECK(late.said_to<wire::Leave>(kPlaces[1]));  // it asks for nothing any more
}

TEST_CASE("gathering: whose search is over has gone on, so a peer that finds most of them so gives up at once") {
  One behind(kPlaces[2], knowing({kPlaces[0], kPlaces[1]}));
  behind.gathering.on_over(peer(kPlaces[0]), kStart + 5ms);
  CHECK(!behind.gathering.outcome());
  behind.gathering.on_over(peer(kPlaces[1]), kStart + 5ms);
  REQUIRE(behind.gathering.outcome());
  CHECK(behind.gathering.outcome()->error() == NoGroup::begun);
}

TEST_CASE("gathering: invited to a later try while its round runs, a peer does not answer that it has begun") {
  One follower(kPlaces[1], knowing({kPlaces[0]}));
  One leader(kPlaces[0], Start(), 2);
  leader.gathering.on_samples(kTarget, kStart);
  leader.hears(kPlaces[1], join_of(kPlaces[1], 0));
  follower.hears(kPlaces[0], *leader.said_to<wire::Begin>(kPlaces[1]));
  REQUIRE(follower.gathering.outcome());
  wire::Redirect invitation = redirect_to(kPlaces[0]);
  invitation.incarnation = 1;  // a later life than the one in the group
  follower.hears(kPlaces[0], invitation);
  CHECK(reason_in(follower.said_to<wire::Refused>(kPlaces[0])) == RefusalReason::begun);
  CHECK(follower.gathering.next_attempt() == 1);
  invitation.attempt = 3;  // it failed there thrice
  follower.hears(kPlaces[0], invitation);
  CHECK(follower.gathering.take_outgoing().empty());
  CHECK(follower.gathering.next_attempt() == 3);
}

TEST_CASE("gathering: tries that differ meet at the highest, one after the group that began") {
  One behind(kPlaces[1], knowing({kPlaces[0]}));
  wire::Redirect invitation = redirect_to(kPlaces[2]);
  invitation.attempt = 2;
  behind.hears(kPlaces[2], invitation);
  CHECK(behind.gathering.next_attempt() == 2);
  wire::Refused refused;
  refused.reason = static_cast<std::uint8_t>(RefusalReason::begun);
  refused.attempt = 6;
  behind.hears(kPlaces[0], refused);
  CHECK(behind.gathering.next_attempt() == 7);
  invitation.attempt = kAttemptsAhead + 1;  // nobody drives us away from the others
  behind.hears(kPlaces[2], invitation);
  CHECK(behind.gathering.next_attempt() == 7);

  One leader(kPlaces[0], Start(), 2);
  leader.gathering.on_samples(kTarget, kStart);
  wire::Join ahead = join_of(kPlaces[1], 0);
  ahead.attempt = 4;
  leader.hears(kPlaces[1], ahead);
  REQUIRE(leader.gathering.outcome());
  CHECK(leader.gathering.outcome()->value().attempt == 4);
  CHECK(leader.gathering.next_attempt() == 5);
}

TEST_CASE("gathering: in a second try a leader waits two seconds for who lives, in a first half a second") {
  for (const std::uint32_t attempt : {0U, 1U}) {
    CAPTURE(attempt);
    Terms terms = terms_of(kPlaces[0]);
    terms.wanted.attempt = attempt;
    FakeLinks world;
    Gathering leader(terms, world.links(), knowing({kPlaces[1]}), {}, kStart);
    std::optional<TimePoint> struck;
    for (TimePoint now = kStart; now < kStart + 3s && !struck; now += 100ms) {
      world.now = now;
      leader.on_time(now);
      if (!leader.take_struck().empty()) struck = now;
    }
    REQUIRE(struck);
    CHECK(*struck == kStart + (attempt == 0 ? 500ms : 2s));
  }
}

TEST_CASE("gathering: who sits out is not presumed after the round; a stranger's word changes nothing") {
  One leader(kPlaces[0], Start(), 2);
  One follower(kPlaces[1], knowing({kPlaces[0]}), 2);
  leader.gathering.on_samples(kTarget, kStart);
  leader.hears(kPlaces[1], join_of(kPlaces[1], 0));
  follower.gathering.sit_out();
  CHECK(!follower.said_to<wire::Leave>(kPlaces[0]));  // nothing to sit out yet
  follower.hears(kPlaces[0], *leader.said_to<wire::Begin>(kPlaces[1]));
  follower.gathering.sit_out();
  const auto leave = follower.said_to<wire::Leave>(kPlaces[0]);
  REQUIRE(leave);
  CHECK(!leave->for_good);
  leader.hears(kPlaces[1], *leave);
  leader.hears(kPlaces[2], wire::Leave());
  CHECK(leader.gathering.left() == std::set<PeerId>{peer(kPlaces[1])});
}

TEST_CASE(
    "gathering: who went elsewhere before it had the Begin, and is in the group, is counted on in the next round") {
  One leader(kPlaces[0], Start(), 2);
  leader.gathering.on_samples(kTarget, kStart);
  leader.hears(kPlaces[1], join_of(kPlaces[1], 0));
  REQUIRE(leader.gathering.outcome());
  leader.hears(kPlaces[1], wire::Leave());
  CHECK(leader.gathering.left().empty());
}

TEST_CASE("gathering: who left the run and is in the group after all is counted on in the next round") {
  One leader(kPlaces[0], Start(), 3);
  One follower(kPlaces[1], knowing({kPlaces[0], kPlaces[2]}), 3);
  leader.hears(kPlaces[1], join_of(kPlaces[1], 0));
  wire::Leave leave;
  leave.for_good = true;
  leader.hears(kPlaces[2], leave);
  follower.hears(kPlaces[2], leave);
  CHECK(leader.gathering.left() == std::set<PeerId>{peer(kPlaces[2])});
  leader.hears(kPlaces[2], join_of(kPlaces[2], 0));
  leader.gathering.on_samples(kTarget, kStart);
  const auto begin = leader.said_to<wire::Begin>(kPlaces[1]);
  REQUIRE(begin);
  follower.hears(kPlaces[0], *begin);
  REQUIRE(follower.gathering.outcome());
  CHECK(leader.gathering.left().empty());
  CHECK(follower.gathering.left().empty());
}

TEST_CASE("gathering: told that the round began, a peer gives up once the rest is no majority") {
  One late(kPlaces[3], knowing({kPlaces[0], kPlaces[1]}), 4);
  wire::Refused refused;
  refused.reason = static_cast<std::uint8_t>(RefusalReason::begun);
  late.hears(kPlaces[0], refused);
  REQUIRE(late.gathering.outcome());
  CHECK(late.gathering.outcome()->error() == NoGroup::begun);
}

TEST_CASE("gathering: when the own loop stood still nobody is struck for the silence") {
  One follower(kPlaces[2], knowing({kPlaces[0]}));
  follower.hears(kPlaces[0], wire::Accepted());
  follower.world.frozen.insert(peer(kPlaces[0]));
  follower.gathering.on_time(kStart + 5s);
  CHECK(follower.gathering.following() == peer(kPlaces[0]));
  follower.gathering.on_time(kStart + 5300ms);
  CHECK(follower.gathering.following() == peer(kPlaces[0]));
  follower.gathering.on_time(kStart + 5500ms);
  CHECK(follower.gathering.leading());
}

TEST_CASE("gathering: a leader that was cut off from all its followers at once waits for all, when the first is back") {
  for (const bool all_lost : {true, false}) {
    for (const bool all_come : {true, false}) {
      CAPTURE(all_lost);
      CAPTURE(all_come);
      One leader(kPlaces[0], Start(), 4);
      for (const unsigned place : {1, 2, 3}) leader.hears(kPlaces[place], join_of(kPlaces[place], 10));
      leader.world.dead = {peer(kPlaces[2]), peer(kPlaces[3])};
      if (all_lost) leader.world.dead.insert(peer(kPlaces[1]));
      leader.runs(kStart + 2s);
      leader.world.dead.clear();
      leader.gathering.on_samples(kTarget, leader.world.now);
      leader.runs(kStart + 3s);
      leader.hears(kPlaces[1], join_of(kPlaces[1], 10), leader.world.now);
      leader.hears(kPlaces[2], join_of(kPlaces[2], 10), leader.world.now);  // more than half are here
      CHECK(leader.gathering.outcome().has_value() == !all_lost);
      leader.runs(kStart + 5400ms);
      CHECK(leader.gathering.outcome().has_value() == !all_lost);
      if (all_come) leader.hears(kPlaces[3], join_of(kPlaces[3], 10), leader.world.now);
      if (!all_come) leader.runs(kStart + 5500ms);
      REQUIRE(leader.gathering.outcome());
      CHECK(leader.gathering.outcome()->value().roster.size() == (all_lost && all_come ? 4 : 3));
    }
  }
}

TEST_CASE("gathering: a leader whose group failed because all its lines broke waits for all of it in its next try") {
  for (const bool broke : {true, false}) {
    CAPTURE(broke);
    One leader(kPlaces[0], Start(), 4);
    leader.gathering.on_samples(kTarget, kStart);
    for (const unsigned place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], 10));
    REQUIRE(leader.gathering.outcome());
    Terms terms = terms_of(kPlaces[0], 3);
    terms.wanted.attempt = 1;
    Start start;
    start.own_samples = kTarget;
    One again(leader.world, std::move(terms), std::move(start), leader.gathering.take_carried());
    if (broke) again.world.dead = {peer(kPlaces[1]), peer(kPlaces[2])};
    again.runs(kStart + 2s);
    again.world.dead.clear();
    wire::Join join = join_of(kPlaces[1], 10);
    join.attempt = 1;
    again.hears(kPlaces[1], join, again.world.now);
    CHECK(again.gathering.outcome().has_value() == !broke);
    again.hears(kPlaces[2], join, again.world.now);
    REQUIRE(again.gathering.outcome());
    CHECK(again.gathering.outcome()->value().roster.size() == (broke ? 3 : 2));
  }
}

TEST_CASE("gathering: a leader without a majority takes back those who were silent, as soon as their lines are well") {
  One second(kPlaces[1], knowing({kPlaces[0], kPlaces[2], kPlaces[3]}), 4);
  second.hears(kPlaces[0], accepted_for(10s));
  second.world.frozen = {peer(kPlaces[0]), peer(kPlaces[3])};
  for (Duration after = 0ms; after <= 2500ms; after += 100ms) {
    second.world.now = kStart + after;
    second.gathering.on_time(kStart + after);
  }
  second.hears(kPlaces[2], join_of(kPlaces[2], 1), kStart + 2500ms);
  REQUIRE(second.gathering.leading());
  second.world.frozen = {peer(kPlaces[0])};
  (void)second.gathering.take_outgoing();
  second.gathering.on_time(kStart + 2600ms);
  CHECK(second.gathering.leading());
  CHECK(second.said_to<wire::Redirect>(kPlaces[3]));
  second.world.frozen.clear();
  second.gathering.on_time(kStart + 2700ms);
  CHECK(second.gathering.following() == peer(kPlaces[0]));
  CHECK(second.said_to<wire::Join>(kPlaces[0]));
}

TEST_CASE("gathering: a leader with a majority does not wait again for those who were silent") {
  One second(kPlaces[1], knowing({kPlaces[0], kPlaces[2]}), 3);
  second.hears(kPlaces[0], accepted_for(10s));
  second.world.frozen = {peer(kPlaces[0])};
  for (Duration after = 0ms; after <= 1500ms; after += 100ms) {
    second.world.now = kStart + after;
    second.gathering.on_time(kStart + after);
  }
  second.hears(kPlaces[2], join_of(kPlaces[2], 1), kStart + 1500ms);
  second.world.frozen.clear();
  second.gathering.on_time(kStart + 1600ms);
  CHECK(second.gathering.leading());
  CHECK(!second.said_to<wire::Join>(kPlaces[0]));
}

TEST_CASE(
    "gathering: a follower whose leader goes over to a peer that is struck here asks again, though it was accepted") {
  One follower(kPlaces[2], knowing({kPlaces[0], kPlaces[1]}));
  follower.gathering.on_over(peer(kPlaces[0]), kStart);
  REQUIRE(follower.gathering.following() == peer(kPlaces[1]));
  follower.hears(kPlaces[1], accepted_for(10s));
  follower.hears(kPlaces[1], redirect_to(kPlaces[0]));
  (void)follower.gathering.take_outgoing();
  follower.world.now = kStart + 200ms;
  follower.gathering.on_time(kStart + 200ms);
  CHECK(follower.said_to<wire::Join>(kPlaces[1]));
}

TEST_CASE("gathering: whom its leader has struck in silence asks it again when it is invited") {
  One follower(kPlaces[2], knowing({kPlaces[0]}));
  follower.hears(kPlaces[0], wire::Accepted());
  (void)follower.gathering.take_outgoing();
  follower.hears(kPlaces[0], redirect_to(kPlaces[0]));
  CHECK(follower.said_to<wire::Join>(kPlaces[0]));
}

TEST_CASE("gathering: who was struck for a broken line and tells its samples still, unaware of it, is invited again") {
  One leader(kPlaces[0], knowing({kPlaces[1], kPlaces[2]}));
  for (const std::size_t place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], 1));
  leader.world.dead = {peer(kPlaces[2])};
  leader.world.now = kStart + 2s;
  leader.gathering.on_time(kStart + 100ms);
  REQUIRE(leader.gathering.followers() == std::vector{peer(kPlaces[1])});
  leader.world.dead.clear();
  leader.gathering.on_time(kStart + 200ms);
  (void)leader.gathering.take_outgoing();
  wire::Samples samples;
  samples.total = kTarget;
  leader.hears(kPlaces[2], samples, kStart + 300ms);
  CHECK(!leader.gathering.outcome());
  const auto invited = leader.said_to<wire::Redirect>(kPlaces[2]);
  REQUIRE(invited);
  CHECK(PeerId{invited->leader} == peer(kPlaces[0]));
  leader.hears(kPlaces[2], join_of(kPlaces[2], kTarget), kStart + 400ms);
  CHECK(leader.gathering.outcome());

  One distrusting(kPlaces[2], knowing({kPlaces[1], kPlaces[3]}));
  distrusting.hears(kPlaces[1], redirect_to(kPlaces[3]));  // a larger place
  REQUIRE(distrusting.gathering.leading());
  (void)distrusting.gathering.take_outgoing();
  distrusting.hears(kPlaces[1], samples);
  CHECK(!distrusting.said_to<wire::Redirect>(kPlaces[1]));
}

TEST_CASE(
    "gathering: a group that begins with one whose search has just ended is declined, and its next try is a later "
    "one") {
  One leader(kPlaces[0], knowing({kPlaces[1], kPlaces[2]}));
  for (const std::size_t place : {1, 2}) leader.hears(kPlaces[place], join_of(kPlaces[place], kTarget));
  REQUIRE(leader.gathering.outcome());
  const auto begin = leader.said_to<wire::Begin>(kPlaces[1]);
  REQUIRE(begin);

  One gone(kPlaces[1], knowing({kPlaces[0]}));
  gone.gathering.expire(kStart);
  REQUIRE(!*gone.gathering.outcome());
  gone.hears(kPlaces[0], *begin);
  const auto declined = gone.gathering.take_declined();
  REQUIRE(declined.size() == 1);
  CHECK(declined.front().id == leader.gathering.outcome()->value().id);
  CHECK(gone.gathering.next_attempt() == 1);

  One stranger(kPlaces[3]);
  stranger.gathering.expire(kStart);
  stranger.hears(kPlaces[0], *begin);  // not in it
  CHECK(stranger.gathering.take_declined().empty());
}

TEST_CASE("gathering: whom its leader has struck in silence hears who leads now when it tells of a smaller place") {
  One leader(kPlaces[1]);
  leader.hears(kPlaces[2], join_of(kPlaces[2], 1));
  leader.world.frozen = {peer(kPlaces[2])};
  leader.world.now = kStart + 2s;
  for (int ms = 100; ms <= 2000; ms += 100) leader.gathering.on_time(kStart + std::chrono::milliseconds(ms));
  CHECK(leader.gathering.followers().empty());
  leader.gathering.on_candidates(declared({kPlaces[0]}), kStart + 2s);
  REQUIRE(leader.gathering.following() == peer(kPlaces[0]));
  (void)leader.gathering.take_outgoing();

  One follower(kPlaces[2], knowing({kPlaces[1]}));
  follower.hears(kPlaces[1], accepted_for(10min));
  (void)follower.gathering.take_outgoing();
  follower.hears(kPlaces[0], redirect_to(kPlaces[0]));
  for (auto& [to, message] : follower.gathering.take_outgoing()) {
    if (to == peer(kPlaces[1])) leader.gathering.on_message(peer(kPlaces[2]), message, kStart + 2s);
  }
  const auto answer = leader.said_to<wire::Redirect>(kPlaces[2]);
  REQUIRE(answer);
  follower.hears(kPlaces[1], *answer);
  CHECK(follower.gathering.following() == peer(kPlaces[0]));
}

TEST_CASE("gathering: a leader whose own loop stood still counts on its followers only when they join anew") {
  One waiting(kPlaces[0], knowing({kPlaces[1], kPlaces[2]}));
  waiting.hears(kPlaces[1], join_of(kPlaces[1], 0));
  (void)waiting.gathering.take_outgoing();
  waiting.world.now = kStart + 5s;
  waiting.gathering.on_time(kStart + 5s);
  CHECK(waiting.gathering.followers().empty());
  CHECK(waiting.said_to<wire::Redirect>(kPlaces[1]));
  waiting.hears(kPlaces[1], join_of(kPlaces[1], 0), kStart + 5100ms);
  CHECK(waiting.gathering.followers().size() == 1);
}

TEST_CASE(
    "gathering: in later rounds of a pass nobody is presumed, for only a peer knows its group of the round before") {
  Start start;
  start.direct = true;
  start.own_samples = kTarget;
  start.last_group = {{peer(kPlaces[1]), Role::node}, {peer(kPlaces[2]), Role::node}};
  Terms terms = terms_of(kPlaces[0]);
  terms.wanted.round = 2;
  FakeLinks world;
  const Gathering second(terms, world.links(), start, {}, kStart);
  CHECK(!second.outcome());
}

TEST_CASE("gathering: on a grid it waits for who lives and is expected, and asks nobody else") {
  Terms terms = terms_of(kPlaces[1], 1);
  terms.wanted.expected = {{peer(kPlaces[2]), Role::node}, {peer(kPlaces[3]), Role::node}};
  Start start = knowing({kPlaces[0]});  // a smaller place, but of another cell
  start.own_samples = kTarget;
  start.last_group = {{peer(kPlaces[4]), Role::node}};
  start.direct = true;
  FakeLinks world;
  Gathering leader(terms, world.links(), start, {}, kStart);
  CHECK(leader.leading());
  leader.on_message(peer(kPlaces[2]), wire::Header(redirect_to(kPlaces[0])), kStart);
  leader.on_message(peer(kPlaces[2]), wire::Header(join_of(kPlaces[2], 0)), kStart);
  CHECK(leader.leading());
  for (world.now = kStart; world.now < kStart + 4s; world.now += 100ms) leader.on_time(world.now);
  CHECK(!leader.outcome());
  world.dead.insert(peer(kPlaces[3]));
  leader.on_time(world.now);
  REQUIRE(leader.outcome());
  CHECK(leader.outcome()->value().roster.size() == 2);
}

namespace {

/// Of a cell whose peers all only dial, and an auxiliary that has the first place.
Terms cell_terms(unsigned self, Role role) {
  Terms terms = terms_of(self, 3);
  terms.options.role = role;
  for (const unsigned one : {kPlaces[2], kPlaces[3], kPlaces[4]})
    if (one != self) terms.wanted.expected.push_back({peer(one), Role::client});
  terms.wanted.auxiliaries = {peer(kPlaces[0]), peer(kPlaces[1])};
  return terms;
}

wire::Join lender_joins(unsigned self) {
  wire::Join join = join_of(self, 0);
  join.role = static_cast<std::uint8_t>(Role::auxiliary);
  return join;
}

}  // namespace

TEST_CASE("gathering: where nobody in a cell can be dialled, its peers ask an auxiliary, and take its group") {
  FakeLinks world;
  Gathering client(cell_terms(kPlaces[2], Role::client), world.links(), {}, {}, kStart);
  CHECK(client.following() == peer(kPlaces[0]));

  Gathering lender(cell_terms(kPlaces[0], Role::auxiliary), world.links(), {}, {}, kStart);
  CHECK(lender.leading());
  for (const unsigned one : {kPlaces[2], kPlaces[3], kPlaces[4]}) {
    wire::Join join = join_of(one, kTarget / 2);
    join.role = static_cast<std::uint8_t>(Role::client);
    lender.on_message(peer(one), wire::Header(join), kStart);
  }
  REQUIRE(lender.outcome());
  const Group& group = lender.outcome()->value();
  CHECK(group.roster.size() == 4);
  CHECK(group.roster[*group.rank_of(peer(kPlaces[0]))].units == kUnits);
  client.on_message(peer(kPlaces[0]), wire::Header(wire::to_wire(group)), kStart);
  REQUIRE(client.outcome());
  CHECK(client.outcome()->value().id == group.id);
}

TEST_CASE("gathering: on a grid nobody's group is taken that it is not in, or in which a stranger averages") {
  for (const bool known : {true, false}) {
    CAPTURE(known);
    FakeLinks world;
    const Terms lends = cell_terms(kPlaces[0], Role::auxiliary);
    Gathering lender(lends, world.links(), {}, {}, kStart);
    for (const unsigned one : {kPlaces[2], kPlaces[3], kPlaces[4]})
      lender.on_message(peer(one), wire::Header(join_of(one, kTarget / 2)), kStart);
    const wire::Begin begin = wire::to_wire(lender.outcome()->value());
    Terms terms = cell_terms(kPlaces[2], Role::node);
    if (!known) terms.wanted.auxiliaries.clear();
    Gathering member(terms, world.links(), {}, {}, kStart);
    member.on_message(peer(kPlaces[7]), wire::Header(begin), kStart);
    CHECK(!member.outcome());
    member.on_message(peer(kPlaces[0]), wire::Header(begin), kStart);
    CHECK(member.outcome().has_value() == known);
  }
}

TEST_CASE("gathering: somebody in the cell who can be dialled leads it, and an auxiliary only once that one is gone") {
  Terms terms = cell_terms(kPlaces[2], Role::client);
  terms.wanted.expected[0].role = Role::node;
  FakeLinks world;
  Gathering client(terms, world.links(), {}, {}, kStart);
  CHECK(client.following() == terms.wanted.expected[0].id);
  world.dead.insert(terms.wanted.expected[0].id);
  for (world.now = kStart; world.now < kStart + 1s; world.now += 100ms) client.on_time(world.now);
  CHECK(client.following() == peer(kPlaces[0]));
}

TEST_CASE("gathering: an auxiliary on a grid invites nobody before it is asked by who brings values") {
  FakeLinks world;
  Gathering lender(cell_terms(kPlaces[0], Role::auxiliary), world.links(), {}, {}, kStart);
  for (world.now = kStart; world.now < kStart + 9s; world.now += 100ms) lender.on_time(world.now);
  CHECK(lender.take_outgoing().empty());
  lender.on_message(peer(kPlaces[1]), wire::Header(lender_joins(kPlaces[1])), world.now);  // another one
  lender.on_time(world.now);
  CHECK(lender.take_outgoing().size() == 1);  // the answer
  lender.on_message(peer(kPlaces[2]), wire::Header(join_of(kPlaces[2], 0)), world.now);
  lender.on_time(world.now);
  CHECK(lender.take_outgoing().size() == 3);  // the answer, and two invitations
}

TEST_CASE("gathering: an auxiliary is asked again when a later try than that of its group is looked for") {
  FakeLinks world;
  Gathering lender(cell_terms(kPlaces[0], Role::auxiliary), world.links(), {}, {}, kStart);
  for (const unsigned one : {kPlaces[2], kPlaces[3], kPlaces[4]})
    lender.on_message(peer(one), wire::Header(join_of(one, kTarget / 2)), kStart);
  REQUIRE(lender.outcome());
  CHECK(!lender.asked_again());
  lender.on_message(peer(kPlaces[2]), wire::Header(join_of(kPlaces[2], 0)), kStart);  // of the same try
  CHECK(!lender.asked_again());
  wire::Join again = join_of(kPlaces[2], 0);
  again.attempt = 1;
  lender.on_message(peer(kPlaces[2]), wire::Header(again), kStart);
  CHECK(lender.asked_again());
  lender.settled(kStart);
  CHECK(!lender.asked_again());
}

TEST_CASE("gathering: on a grid it waits longer for who may be the only voice of its cell than for a listener") {
  Terms terms = terms_of(kPlaces[1], 1);
  terms.wanted.target_samples = 0;
  terms.wanted.voiced = true;
  terms.wanted.previous = hash_bytes("test group", {});
  terms.wanted.expected = {{peer(kPlaces[2]), Role::node, 0}, {peer(kPlaces[3]), Role::node, 1}};
  terms.wanted.deadline = kStart + 120s;
  wire::Join join = join_of(kPlaces[3], 0);
  join.dropped = 1;
  join.previous = terms.wanted.previous;
  FakeLinks world;
  Gathering leader(terms, world.links(), {}, {}, kStart);
  for (world.now = kStart; world.now < kStart + 60s; world.now += 100ms) leader.on_time(world.now);
  CHECK(!leader.outcome());  // of the first one nobody waits any more: its digit is ours
  leader.on_message(peer(kPlaces[3]), wire::Header(join), world.now);
  REQUIRE(leader.outcome());
  CHECK(leader.outcome()->value().roster.size() == 2);
}

TEST_CASE("gathering: when the result is here and whole, who asks for a later try hears that there is none") {
  Terms terms = terms_of(kPlaces[1], 1);
  terms.wanted.expected = {{peer(kPlaces[2]), Role::node}, {peer(kPlaces[3]), Role::node}};
  Start start;
  start.own_samples = kTarget;
  FakeLinks world;
  Gathering leader(terms, world.links(), start, {}, kStart);
  leader.on_message(peer(kPlaces[2]), wire::Header(join_of(kPlaces[2], 0)), kStart);
  leader.on_message(peer(kPlaces[3]), wire::Header(join_of(kPlaces[3], 0)), kStart);
  REQUIRE(leader.outcome());
  (void)leader.take_outgoing();
  wire::Join again = join_of(kPlaces[2], 0);
  again.attempt = 1;
  leader.on_message(peer(kPlaces[2]), wire::Header(again), kStart);
  CHECK(leader.take_outgoing().empty());  // the round may fail here too
  leader.settled(kStart);
  const auto told = leader.take_outgoing();
  REQUIRE(told.size() == 1);
  CHECK(told.front().first == peer(kPlaces[2]));
  const auto* refused = std::get_if<wire::Refused>(&told.front().second);
  REQUIRE(refused != nullptr);
  CHECK(refused->reason == static_cast<std::uint8_t>(RefusalReason::begun));
}

}  // namespace collab::matchmaking
