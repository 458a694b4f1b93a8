#include "crypto/access.hpp"

#include "crypto/identity.hpp"
#include "support/temp_folder.hpp"
#include "unit/crypto/peers.hpp"

#include <filesystem>
#include <string>

#include "support/doctest.hpp"

namespace collab {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr auto kAll = kEveryClaim;

struct ListedRun {
  ListedRun() {
    options.admission = Admission::allow_list;
    options.allow_list = folder / "peers";
    options.own = peer(1);
    options.authority = peer(2);
  }
  void write(const std::string& text) const { test::write(options.allow_list, text); }

  test::TempFolder folder;
  Access::Options options;
};

}  // namespace

TEST_CASE("access: an open run grants everybody all but to coordinate, own key and authority everything") {
  Access::Options options;
  options.own = peer(1);
  options.authority = peer(2);
  const Access access(options);
  for (const Claim claim : kAll) {
    CAPTURE(name(claim));
    CHECK(access.may(peer(1), claim));
    CHECK(access.may(peer(2), claim));
    CHECK(access.may(peer(3), claim).yes == (claim != Claim::coordinate));
  }
  CHECK(access.may(peer(3), Claim::coordinate).reason.find("authority") != std::string::npos);
}

TEST_CASE("access: a run without an authority lets nobody else coordinate") {
  Access::Options options;
  options.own = peer(1);
  CHECK_FALSE(Access(options).may(PeerId{}, Claim::coordinate));
}

TEST_CASE("access: an allow-list admits who is on it, from its first reading") {
  ListedRun run;
  run.write("# friends\n\n  " + peer(3).text() + "   # Carl\r\n" + peer(4).text());
  Access access(run.options);
  CHECK_FALSE(access.may(peer(3), Claim::join));
  const auto read = access.refresh(TimePoint(seconds(1)), 0);
  REQUIRE(read);
  CHECK(read->problem == "");
  CHECK(read->peers == 2);
  CHECK(access.may(peer(3), Claim::join));
  CHECK(access.may(peer(4), Claim::reduce));
  CHECK_FALSE(access.may(peer(3), Claim::coordinate));
  CHECK_FALSE(access.may(peer(5), Claim::join));
  CHECK(access.may(peer(5), Claim::join).reason.find(peer(5).text()) != std::string::npos);
  CHECK(access.may(peer(2), Claim::join));
}

TEST_CASE("access: a changed list is in force within the period, a broken one changes nothing and says its line") {
  ListedRun run;
  run.write(peer(3).text() + "\n");
  Access access(run.options);
  REQUIRE(access.refresh(TimePoint(seconds(0)), 0));
  run.write(peer(3).text() + "\n" + peer(4).text() + "\n");
  CHECK_FALSE(access.refresh(TimePoint(seconds(2)), 0));
  CHECK(access.refresh(TimePoint(seconds(4)), 0)->peers == 2);  // 5 s also when one look comes a second late
  CHECK_FALSE(access.refresh(TimePoint(seconds(11)), 0));       // unchanged

  run.write(peer(5).text() + "\nnobody\n");
  const auto broken = access.refresh(TimePoint(seconds(20)), 0);
  REQUIRE(broken);
  CHECK(broken->problem.find("line 2") != std::string::npos);
  CHECK(broken->peers == 2);
  CHECK(access.may(peer(4), Claim::join));
  CHECK_FALSE(access.may(peer(5), Claim::join));

  fs::remove(run.options.allow_list);
  CHECK_FALSE(access.refresh(TimePoint(seconds(30)), 0)->problem.empty());
  CHECK(access.may(peer(4), Claim::join));
  run.write(peer(5).text() + "\n");
  CHECK(access.refresh(TimePoint(seconds(40)), 0)->problem == "");
  CHECK(access.may(peer(5), Claim::join));
  CHECK_FALSE(access.may(peer(4), Claim::join));
}

TEST_CASE("access: a list without end is broken, and so is a list that is not there at the start") {
  ListedRun run;
  run.options.allowed_max = 1;
  Access access(run.options);
  CHECK_FALSE(access.refresh(TimePoint(seconds(0)), 0)->problem.empty());
  run.write(peer(3).text() + "\n" + peer(4).text() + "\n");
  CHECK(access.refresh(TimePoint(seconds(5)), 0)->problem.find("more than 1") != std::string::npos);
  CHECK_FALSE(access.may(peer(3), Claim::join));
}

TEST_CASE("access: who breaks the protocol is blocked for a minute, then two, up to an hour, and forgiven in the end") {
  Access::Options options;
  options.own = peer(1);
  options.authority = peer(2);
  Access access(options);
  TimePoint now{};
  Duration expected = minutes(1);
  for (int time = 0; time < 9; ++time) {
    CHECK_FALSE(access.refresh(now, 0));
    CHECK(access.block(peer(3)) == now + expected);
    access.refresh(now + expected - seconds(1), 0);
    CHECK_FALSE(access.may(peer(3), Claim::join));
    CHECK(access.may(peer(4), Claim::join));
    now += expected;
    access.refresh(now, 0);
    CHECK(access.may(peer(3), Claim::join));
    expected = std::min<Duration>(2 * expected, hours(1));
  }
  access.refresh(now + hours(1), 0);
  CHECK(access.block(peer(3)) == now + hours(1) + minutes(1));
  access.block(peer(1));
  access.block(peer(2));
  CHECK(access.may(peer(1), Claim::coordinate));
  CHECK(access.may(peer(2), Claim::coordinate));
}

TEST_CASE("access: blocks are bounded: the one that ends first makes room") {
  Access::Options options;
  options.blocks_max = 2;
  Access access(options);
  access.refresh(TimePoint(seconds(0)), 0);
  access.block(peer(3));
  access.refresh(TimePoint(seconds(1)), 0);
  access.block(peer(4));
  access.block(peer(5));
  CHECK(access.may(peer(3), Claim::join));
  CHECK_FALSE(access.may(peer(4), Claim::join));
  CHECK_FALSE(access.may(peer(5), Claim::join));
}

namespace {

struct TokenRun {
  TokenRun() : authority(Identity::generate({2})) {
    options.run_id = "run";
    options.admission = Admission::token;
    options.own = peer(1);
    options.authority = authority.id();
  }
  Bytes token(const PeerId& of, Claims claims = kMemberClaims, std::uint64_t serial = 7,
              std::int64_t from = kNow) const {
    Token token;
    token.run_id = "run";
    token.peer = of;
    token.claims = claims;
    token.serial = serial;
    token.not_before_ms = from;
    token.expires_ms = from + 60'000;
    return sign_token(authority, token);
  }
  static Ban ban(std::variant<PeerId, TokenSerial> target, std::int64_t from = kNow) {
    Ban ban;
    ban.target = target;
    ban.reason = "sent nonsense";
    ban.from_ms = from;
    ban.until_ms = from + 60'000;
    return ban;
  }

  Identity authority;
  Access::Options options;
};

TimePoint at(int number) {
  return TimePoint(seconds(number));
}

}  // namespace

TEST_CASE("access: a token grants its peer what it says, while it holds") {
  const TokenRun run;
  Access access(run.options);
  access.refresh(at(0), kNow);
  CHECK(access.may(peer(3), Claim::join).why == Denial::token);
  CHECK(access.show(peer(3), {}));
  CHECK_FALSE(access.may(peer(3), Claim::join));
  REQUIRE(access.show(peer(3), run.token(peer(3), {Claim::join, Claim::reduce})));
  CHECK(access.may(peer(3), Claim::join));
  CHECK(access.may(peer(3), Claim::reduce));
  CHECK(access.may(peer(3), Claim::contribute).why == Denial::claim);
  CHECK(access.may(peer(3), Claim::contribute).reason.find("join reduce") != std::string::npos);
  CHECK_FALSE(access.may(peer(4), Claim::join));
  CHECK(access.expiry_of(peer(3)) == kNow + 60'000);
  access.refresh(at(1), kNow - 1);
  CHECK(access.may(peer(3), Claim::join).reason.find("does not hold yet") != std::string::npos);
  access.refresh(at(2), kNow + 60'000);
  CHECK(access.may(peer(3), Claim::join).reason.find("has expired") != std::string::npos);
}

TEST_CASE("access: another peer's, another run's and a forged token are not kept") {
  const TokenRun run;
  Access access(run.options);
  access.refresh(at(0), kNow);
  CHECK(access.show(peer(4), run.token(peer(3))).error() == TokenErrc::other_peer);
  Access::Options other = run.options;
  other.run_id = "other";
  CHECK(Access(other).show(peer(3), run.token(peer(3))).error() == TokenErrc::other_run);
  other.authority.reset();
  CHECK(Access(other).show(peer(3), run.token(peer(3))).error() == TokenErrc::other_authority);
  Bytes forged = run.token(peer(3));
  forged.back() ^= std::byte(1);
  CHECK(access.show(peer(3), forged).error() == TokenErrc::signature);
  CHECK_FALSE(access.may(peer(3), Claim::join));
  CHECK_FALSE(access.may(peer(4), Claim::join));
  CHECK_FALSE(access.expiry_of(peer(3)));
}

TEST_CASE("access: a newer token replaces an older one, never the other way") {
  const TokenRun run;
  Access access(run.options);
  access.refresh(at(0), kNow + 30'000);
  REQUIRE(access.show(peer(3), run.token(peer(3), kMemberClaims, 8, kNow + 30'000)));
  REQUIRE(access.show(peer(3), run.token(peer(3), kEveryClaim, 7)));
  CHECK(access.expiry_of(peer(3)) == kNow + 90'000);
  CHECK_FALSE(access.may(peer(3), Claim::coordinate));
}

TEST_CASE("access: an older token counts again when the newer one was revoked") {
  const TokenRun run;
  Access access(run.options);
  access.refresh(at(0), kNow);
  REQUIRE(access.show(peer(3), run.token(peer(3), kMemberClaims, 8)));
  access.obey({TokenRun::ban(TokenSerial(8))});
  CHECK_FALSE(access.may(peer(3), Claim::join));
  REQUIRE(access.show(peer(3), run.token(peer(3), kMemberClaims, 7)));
  CHECK(access.may(peer(3), Claim::join));
}

TEST_CASE("access: a ban goes before everything, a revoked token before the own key") {
  const TokenRun run;
  Access access(run.options);
  access.refresh(at(0), kNow);
  REQUIRE(access.show(peer(3), run.token(peer(3))));
  REQUIRE(access.show(peer(1), run.token(peer(1), kMemberClaims, 8)));
  CHECK(access.own());
  access.obey({TokenRun::ban(peer(3)), TokenRun::ban(TokenSerial(8))});
  CHECK(access.may(peer(3), Claim::join).why == Denial::banned);
  CHECK(access.may(peer(3), Claim::join).reason.find("sent nonsense") != std::string::npos);
  CHECK(access.may(peer(1), Claim::join).reason.find("revoked") != std::string::npos);
  CHECK_FALSE(access.own());
  REQUIRE(access.show(peer(1), run.token(peer(1), kMemberClaims, 9)));
  CHECK(access.own());
  access.refresh(at(60), kNow + 59'999);
  CHECK_FALSE(access.may(peer(3), Claim::join));
  access.refresh(at(61), kNow + 60'000);
  CHECK(access.may(peer(3), Claim::join).why == Denial::token);  // the ban is over, and so is the token
  access.obey({});
  CHECK(access.may(peer(1), Claim::join));
}

TEST_CASE("access: a ban holds in an open run too, and not before its time") {
  TokenRun run;
  run.options.admission = Admission::open;
  Access access(run.options);
  access.refresh(at(0), kNow);
  access.obey({TokenRun::ban(peer(3)), TokenRun::ban(peer(4), kNow + 1000)});
  CHECK_FALSE(access.may(peer(3), Claim::join));
  CHECK(access.may(peer(4), Claim::join));
  access.refresh(at(1), kNow + 1000);
  CHECK_FALSE(access.may(peer(4), Claim::join));
}

TEST_CASE("access: who has a token for it coordinates, in an open run too") {
  TokenRun run;
  run.options.admission = Admission::open;
  Access access(run.options);
  access.refresh(at(0), kNow);
  REQUIRE(access.show(peer(3), run.token(peer(3), kEveryClaim)));
  CHECK(access.may(peer(3), Claim::coordinate));
  CHECK_FALSE(access.may(peer(4), Claim::coordinate));
}

TEST_CASE("access: without a token the own node knows that nobody admits it") {
  TokenRun run;
  Access access(run.options);
  access.refresh(at(0), kNow);
  CHECK(access.may(peer(1), Claim::join));
  CHECK_FALSE(access.own());
  run.options.own = run.authority.id();
  CHECK(Access(run.options).own());
  run.options.admission = Admission::open;
  run.options.own = peer(1);
  access.change(run.options);
  CHECK(access.own());
}

TEST_CASE("access: of more tokens than it keeps the one that ends first goes") {
  TokenRun run;
  run.options.tokens_max = 2;
  Access access(run.options);
  access.refresh(at(0), kNow);
  for (unsigned char number = 3; number <= 5; ++number)
    REQUIRE(access.show(peer(number), run.token(peer(number), kMemberClaims, number, kNow - 10 + number)));
  CHECK_FALSE(access.may(peer(3), Claim::join));
  CHECK(access.may(peer(4), Claim::join));
  CHECK(access.may(peer(5), Claim::join));
}

}  // namespace collab
