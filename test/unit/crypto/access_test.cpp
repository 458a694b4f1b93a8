#include "crypto/access.hpp"

#include "crypto/identity.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/doctest.hpp"

namespace collab {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

PeerId peer(unsigned char number) {
  return Identity::generate({number}).id();
}

constexpr auto kAll = kEveryClaim;

struct ListedRun {
  ListedRun() {
    std::string name = (fs::temp_directory_path() / "collab-access-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    options.admission = Admission::allow_list;
    options.allow_list = folder / "peers";
    options.own = peer(1);
    options.authority = peer(2);
  }
  ~ListedRun() { fs::remove_all(folder); }
  void write(const std::string& text) const { std::ofstream(options.allow_list) << text; }

  fs::path folder;
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
  const auto read = access.refresh(TimePoint(seconds(1)));
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
  REQUIRE(access.refresh(TimePoint(seconds(0))));
  run.write(peer(3).text() + "\n" + peer(4).text() + "\n");
  CHECK_FALSE(access.refresh(TimePoint(seconds(2))));
  CHECK(access.refresh(TimePoint(seconds(4)))->peers == 2);  // 5 s also when one look comes a second late
  CHECK_FALSE(access.refresh(TimePoint(seconds(11))));  // unchanged

  run.write(peer(5).text() + "\nnobody\n");
  const auto broken = access.refresh(TimePoint(seconds(20)));
  REQUIRE(broken);
  CHECK(broken->problem.find("line 2") != std::string::npos);
  CHECK(broken->peers == 2);
  CHECK(access.may(peer(4), Claim::join));
  CHECK_FALSE(access.may(peer(5), Claim::join));

  fs::remove(run.options.allow_list);
  CHECK_FALSE(access.refresh(TimePoint(seconds(30)))->problem.empty());
  CHECK(access.may(peer(4), Claim::join));
  run.write(peer(5).text() + "\n");
  CHECK(access.refresh(TimePoint(seconds(40)))->problem == "");
  CHECK(access.may(peer(5), Claim::join));
  CHECK_FALSE(access.may(peer(4), Claim::join));
}

TEST_CASE("access: a list without end is broken, and so is a list that is not there at the start") {
  ListedRun run;
  run.options.allowed_max = 1;
  Access access(run.options);
  CHECK_FALSE(access.refresh(TimePoint(seconds(0)))->problem.empty());
  run.write(peer(3).text() + "\n" + peer(4).text() + "\n");
  CHECK(access.refresh(TimePoint(seconds(5)))->problem.find("more than 1") != std::string::npos);
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
    CHECK_FALSE(access.refresh(now));
    CHECK(access.block(peer(3)) == now + expected);
    access.refresh(now + expected - seconds(1));
    CHECK_FALSE(access.may(peer(3), Claim::join));
    CHECK(access.may(peer(4), Claim::join));
    now += expected;
    access.refresh(now);
    CHECK(access.may(peer(3), Claim::join));
    expected = std::min<Duration>(2 * expected, hours(1));
  }
  access.refresh(now + hours(1));
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
  access.refresh(TimePoint(seconds(0)));
  access.block(peer(3));
  access.refresh(TimePoint(seconds(1)));
  access.block(peer(4));
  access.block(peer(5));
  CHECK(access.may(peer(3), Claim::join));
  CHECK_FALSE(access.may(peer(4), Claim::join));
  CHECK_FALSE(access.may(peer(5), Claim::join));
}

}  // namespace collab
