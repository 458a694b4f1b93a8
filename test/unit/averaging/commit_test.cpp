// The commit by hand: what the model meets too rarely.

#include "averaging/commit.hpp"

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

constexpr std::array<Rank, 2> kOneAndTwo = {1, 2};

/// `n` reachable voters, one segment each for the first `segments`; signatures are the rank.
struct Table {
  explicit Table(std::size_t n, std::size_t segments, std::uint64_t weight_min = 0) {
    members.size = n;
    members.all = bit(n) - 1;
    members.reachable = members.voters = members.all;
    members.electorate = n;
    for (std::size_t i = 0; i < segments; ++i) members.segments.push_back(static_cast<Rank>(i));
    for (std::size_t rank = 0; rank < n; ++rank) {
      Seals seals;
      seals.sign = [rank](std::uint32_t, const wire::Manifest&) { return stamp(rank); };
      seals.verify = [](Rank by, std::uint32_t, const wire::Manifest&, const Signature& s) { return s == stamp(by); };
      const auto self = static_cast<Rank>(rank);
      peers.push_back(std::make_unique<Commit>(Digest{}, members, self, weight_min, std::move(seals), guard));
      peers.back()->start();
    }
  }
  static Signature stamp(std::size_t rank) {
    Signature signature{};
    signature[0] = static_cast<unsigned char>(rank + 1);
    return signature;
  }
  Commit& operator[](std::size_t rank) { return *peers[rank]; }
  /// Delivers what `from` has to say, to those of `to` only.
  void deliver(Rank from, Ranks to) {
    for (const auto& message : peers[from]->take_messages()) {
      for (std::size_t rank = 0; rank < members.size; ++rank) {
        if (!contains(message.to & to, rank)) continue;
        const auto on = [&](const auto& body) {
          if constexpr (requires { peers[rank]->on(from, body); }) (void)peers[rank]->on(from, body);
        };
        std::visit(on, message.header);
      }
    }
  }
  void hold(Ranks who, unsigned char name, std::uint32_t view = 0, std::uint64_t weight = 5) {
    Digest digest{};
    digest[0] = name;
    for (std::size_t rank = 0; rank < members.size; ++rank)
      if (contains(who, rank)) peers[rank]->hold(0, view, digest, weight);
  }

  Members members;
  Guard guard;
  std::vector<std::unique_ptr<Commit>> peers;
};

class Doubtful final : public Guard {
 public:
  Verdict before_use(std::span<const Digest>) override { return verdict; }
  Verdict verdict;
};

}  // namespace

TEST_CASE("commit: Holds of all voters commit, and everyone believes the proof") {
  Table table(3, 1);
  table.hold(0b111, 1);
  for (const Rank rank : kOneAndTwo) table.deliver(rank, table.members.all);
  CHECK(table[0].state() == Commit::State::committed);
  CHECK(table[1].state() == Commit::State::running);
  table.deliver(0, table.members.all);
  for (const Rank rank : kOneAndTwo) CHECK(table[rank].state() == Commit::State::committed);
  CHECK(table[2].proof().manifest[0][0] == 1);
}

TEST_CASE("commit: a proof without a quorum of right signatures convinces nobody") {
  Table table(3, 1);
  wire::Commit forged;
  forged.proof.manifest.resize(1);
  forged.proof.holds = {{0, Table::stamp(0)}, {1, Table::stamp(2)}};
  CHECK(table[2].on(0, forged).error() == Errc::denied);
  forged.proof.holds = {{0, Table::stamp(0)}, {0, Table::stamp(0)}};
  CHECK(table[2].on(0, forged).error() == Errc::bad_request);
  forged.proof.holds = {{0, Table::stamp(0)}, {1, Table::stamp(1)}};
  CHECK(table[2].on(0, forged));
}

TEST_CASE("commit: what is not its sender's to say is denied") {
  Table table(3, 1);
  wire::Ask ask;
  ask.view = 1;
  CHECK(table[0].on(2, ask).error() == Errc::denied);  // view 1 is rank 1's
  ask.view = kViewsMax + 1;
  CHECK(table[0].on(2, ask).error() == Errc::bad_request);
  wire::View view;
  view.view = 1;
  view.plan.resize(1);
  CHECK(table[0].on(2, view).error() == Errc::denied);
  wire::GiveUp give_up;
  CHECK(table[2].on(1, give_up).error() == Errc::denied);
  wire::Hold hold;
  hold.manifest.resize(1);
  CHECK(table[1].on(2, hold).error() == Errc::denied);  // not the coordinator
  CHECK(table[0].on(2, hold).error() == Errc::denied);  // not signed
}

TEST_CASE("commit: too few samples, or none, and the group gives up") {
  for (const std::uint64_t weight : {std::uint64_t(4), std::uint64_t(0)}) {
    Table table(2, 1, 5);
    table.hold(0b11, 1, 0, weight);
    table.deliver(1, table.members.all);
    CHECK(table[0].state() == Commit::State::failed);
    table.deliver(0, table.members.all);
    CHECK(table[1].state() == Commit::State::failed);
    const auto reason = weight == 0 ? wire::GiveUpReason::no_weight : wire::GiveUpReason::weight_low;
    CHECK(table[1].give_up_reason() == static_cast<std::uint8_t>(reason));
  }
}

TEST_CASE("commit: one voter's false weight does not end the round") {
  Table table(3, 1, 5);
  table.hold(0b101, 1);
  table.hold(0b010, 1, 0, 0);
  for (const Rank rank : kOneAndTwo) table.deliver(rank, table.members.all);
  CHECK(table[0].state() == Commit::State::committed);
}

TEST_CASE("commit: a Refuse that nobody asked for, or that leaps, is not followed") {
  Table table(3, 1);
  wire::Refuse refuse;
  refuse.view = 2;
  CHECK(table[2].on(1, refuse).error() == Errc::stale);
  CHECK(table[2].view() == 0);
  table[1].suspect(0b001);  // asks for view 1
  REQUIRE(table[1].view() == 1);
  refuse.view = kViewsMax;
  CHECK(table[1].on(2, refuse).error() == Errc::stale);
  refuse.view = 5;
  CHECK(table[1].on(2, refuse));
  CHECK(table[1].view() == 5);
}

TEST_CASE("commit: who was refused into a view still tells its coordinator") {
  Table table(3, 1);
  table[1].suspect(0b001);
  (void)table[1].take_messages();
  wire::Refuse refuse;
  refuse.view = 2;
  REQUIRE(table[1].on(2, refuse));
  (void)table[1].take_messages();
  wire::Ask ask;
  ask.view = 2;
  REQUIRE(table[1].on(2, ask));
  const auto messages = table[1].take_messages();
  REQUIRE(messages.size() == 1);
  CHECK(std::holds_alternative<wire::Tell>(messages[0].header));
}

TEST_CASE("commit: a voter that never holds is waited for while it is not suspected, and named to who suspects") {
  Table table(3, 1);
  table.hold(0b011, 1);
  CHECK(table[0].awaited_holds() == 0);  // its own Hold alone is no quorum
  table.deliver(1, table.members.all);
  CHECK(table[0].state() == Commit::State::running);
  CHECK(table[0].awaited_holds() == 0b100);
  CHECK(table[1].awaited_holds() == 0);
  table[0].suspect(0b100);
  CHECK(table[0].state() == Commit::State::committed);
}

TEST_CASE("commit: a coordinator that is in no round is owed by who needs it to go on") {
  Table table(4, 2);  // rank 0 coordinates and answers nobody
  CHECK(table[2].awaited_plan() == 0);
  CHECK(table[2].awaited_decision() == 0);
  table[2].suspect(0b0010);  // an owner, without whose segment there is no round
  CHECK(table[2].awaited_plan() == 0b0001);
  table[2].suspect(0b0001);  // the coordinator itself: rank 1 comes after it
  CHECK(table[2].awaited_plan() == 0b0010);
  CHECK(table[1].awaited_plan() == 0);

  wire::Ask ask;
  ask.view = 3;
  REQUIRE(table[2].on(3, ask));
  CHECK(table[2].awaited_decision() == 0b1000);  // what it is to do in the view that it has promised

  Table held(3, 1);
  held.hold(0b010, 1);
  CHECK(held[1].awaited_decision() == 0b001);
  CHECK(held[2].awaited_decision() == 0);
}

TEST_CASE("commit: who is blamed stays suspected") {
  Table table(3, 1);
  table[0].blame(0b100);
  table[0].suspect(0);
  CHECK(table[0].suspected() == 0b100);
}

TEST_CASE("commit: a quorum is more than half of all current peers, in the group or not") {
  Members members = Table(4, 2).members;
  CHECK(!members.is_quorum(0b0011));  // a half and a newcomer would be three of five
  CHECK(members.is_quorum(0b0111));
  members.electorate = 5;  // one current peer is in another group
  CHECK(!members.is_quorum(0b0011));
  CHECK(members.is_quorum(0b1110));
  members.electorate = 6;  // these two and two of us could be more than half of a group as well
  CHECK(!members.is_quorum(0b1110));
  CHECK(members.is_quorum(0b1111));
}

TEST_CASE("commit: a teller that is suspected lends its promise to no quorum") {
  // View 0 is committed by 0 with the Holds of 0, 1, 2 and only 0 knows. Rank 3 opens view 3: 1 and 2 tell what they
  // accepted, then 3 suspects them falsely, and hears of 4. Were 1 and 2 counted as told but not asked, 3 would make a
  // plan of its own, and once it trusts them again they would hold a second result.
  Table table(5, 1);
  table.hold(0b00111, 1);
  table[0].suspect(0b11000);
  for (const Rank rank : kOneAndTwo) table.deliver(rank, bit(0));
  REQUIRE(table[0].state() == Commit::State::committed);
  (void)table[0].take_messages();  // its Commit is lost, and it dies
  table[3].suspect(0b00111);       // so 3 is the first reachable that 3 does not suspect
  REQUIRE(table[3].view() == 3);
  table[3].suspect(0b00001);
  table.deliver(3, 0b10110);
  for (const Rank rank : kOneAndTwo) table.deliver(rank, bit(3));
  table[3].suspect(0b00111);
  table.deliver(4, bit(3));
  CHECK(table[3].state() == Commit::State::failed);  // 3 and 4 are no quorum: it gives up rather than forget
  CHECK(table[3].steps()[static_cast<std::size_t>(Step::decide_no_quorum)] == 1);
}

TEST_CASE("commit: Holds that differ open a new view instead of committing either") {
  Table table(3, 1);
  table.hold(0b011, 1);
  table.hold(0b100, 2);  // its owner told rank 2 something else
  for (const Rank rank : kOneAndTwo) table.deliver(rank, table.members.all);
  CHECK(table[0].state() == Commit::State::running);
  CHECK(table[0].view() == 3);
}

TEST_CASE("commit: of two versions of a segment the one that most hold is kept, though another has a lower digest") {
  Table table(5, 2);
  table.hold(0b01111, 2);
  table.hold(0b10000, 1);  // its owner told rank 4 something else; of the other segment nobody has anything
  for (const std::size_t rank : {0, 2, 3, 4}) table[rank].suspect(0b00010);
  table.deliver(0, table.members.all);
  for (const Rank rank : {Rank(2), Rank(3), Rank(4)}) table.deliver(rank, bit(0));
  std::vector<Digest> kept;
  for (const auto& message : table[0].take_messages())
    if (const auto* view = std::get_if<wire::View>(&message.header))
      kept.push_back(view->plan.at(0).adopted.value_or(Digest{}));
  REQUIRE(!kept.empty());
  CHECK(kept.front()[0] == 2);
}

TEST_CASE("commit: of two versions of a segment that as many hold neither is taken: another one makes it anew") {
  Table table(4, 2);
  table.hold(0b0100, 2);
  table.hold(0b1000, 1);  // its owner told rank 3 something else; of the other segment nobody has anything
  for (const std::size_t rank : {1, 2, 3}) table[rank].suspect(0b0001);
  table.deliver(1, table.members.all);
  for (const Rank rank : {Rank(2), Rank(3)}) table.deliver(rank, bit(1));
  wire::Assignment kept;
  for (const auto& message : table[1].take_messages())
    if (const auto* view = std::get_if<wire::View>(&message.header)) kept = view->plan.at(0);
  CHECK(kept.owner != 0);
  CHECK(!kept.adopted);
  CHECK(table[1].steps()[static_cast<std::size_t>(Step::decide_disputed)] == 1);
}

TEST_CASE(
    "commit: of two accepted versions, one each, the one is kept that the coordinator who lied has accepted too") {
  Table table(3, 1);
  table.hold(0b101, 2);
  table.hold(0b010, 1);  // told so by 0, who owns the segment and opens view 3, where it tells 1 something else again
  for (const Rank rank : kOneAndTwo) table.deliver(rank, bit(0));
  REQUIRE(table[0].view() == 3);
  table.deliver(0, bit(1));
  table.deliver(1, bit(0));
  table.deliver(0, 0b110);
  table[1].blame(bit(0));
  REQUIRE(table[1].view() == 4);
  table.deliver(1, 0b101);
  for (const Rank rank : {Rank(0), Rank(2)}) table.deliver(rank, bit(1));
  Digest kept{};
  for (const auto& message : table[1].take_messages())
    if (const auto* view = std::get_if<wire::View>(&message.header)) kept = view->plan.at(0).adopted.value_or(Digest{});
  CHECK(kept[0] == 2);
}

TEST_CASE("commit: of two accepted versions, one each, none is kept before the liar has told, or is silent") {
  Table table(3, 1);
  table.hold(0b001, 2);
  table.hold(0b100, 2);
  table.hold(0b010, 1);  // told so by 0, and finds it out
  table[1].blame(bit(0));
  REQUIRE(table[1].view() == 1);
  table.deliver(1, 0b101);
  table.deliver(2, bit(1));
  CHECK(!table[1].acting());
  std::optional<wire::Assignment> kept;
  const auto decided = [&] {
    for (const auto& message : table[1].take_messages())
      if (const auto* view = std::get_if<wire::View>(&message.header)) kept = view->plan.at(0);
    return kept.has_value();
  };
  SUBCASE("its word decides") {
    table.deliver(0, bit(1));
    REQUIRE(decided());
    CHECK(kept->owner == 2);
    CHECK(kept->adopted.value()[0] == 2);
  }
  SUBCASE("silent, and another one makes it anew") {
    table[1].suspect(bit(0));
    REQUIRE(decided());
    CHECK(kept->owner != 0);
    CHECK(!kept->adopted);
  }
}

TEST_CASE("commit: a guard that waits holds back the Hold; one that wants it redone blames") {
  Table table(2, 1);
  Doubtful guard;
  guard.verdict.kind = Verdict::Kind::wait;
  Seals seals;
  seals.sign = [](std::uint32_t, const wire::Manifest&) { return Table::stamp(1); };
  Commit doubtful(Digest{}, table.members, 1, 0, seals, guard);
  doubtful.start();
  doubtful.hold(0, 0, Digest{}, 5);
  CHECK(doubtful.take_messages().empty());
  guard.verdict.kind = Verdict::Kind::use;
  doubtful.poke();
  CHECK(doubtful.take_messages().size() == 1);

  Commit blaming(Digest{}, table.members, 1, 0, seals, guard);
  guard.verdict = {Verdict::Kind::redo, bit(0)};
  blaming.start();
  blaming.hold(0, 0, Digest{}, 5);
  CHECK_FALSE(blaming.accepted().has_value());
  CHECK(blaming.view() == 1);  // the owner and coordinator is blamed: next view
}

}  // namespace collab::averaging
