#include "cli/keys.hpp"

#include "base/error.hpp"
#include "crypto/ban.hpp"
#include "node/ban_file.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <fstream>
#include <functional>

#include "support/doctest.hpp"

namespace collab::cli {
namespace {

constexpr std::int64_t kNow = 1'790'000'000'000;

/// A home whose authority and peer have keys.
struct Home {
  Home()
      : authority(Identity::load_or_create(folder.path() / "authority.key").id()),
        peer(Identity::load_or_create(folder.path() / "identity.key").id()) {}
  KeysRequest request(std::vector<std::string> words) const {
    KeysRequest request;
    request.program = "collab-test";
    request.words = std::move(words);
    request.run_id = "run";
    request.identity = folder.path() / "identity.key";
    request.authority = folder.path() / "authority.key";
    request.manifest = folder.path() / "manifest.signed";
    request.bans = folder.path() / "bans";
    request.length = "24h";
    request.now_ms = kNow;
    return request;
  }
  std::vector<directory::SignedRecord> bans() const { return node::read_ban_file(folder.path() / "bans"); }

  test::TempFolder folder;
  PeerId authority;
  PeerId peer;
};

std::string refusal(const std::function<int()>& command) {
  try {
    command();
  } catch (const Failure& failure) {
    CHECK(failure.remedy().size() > 5);
    return failure.cause();
  }
  return {};
}

}  // namespace

TEST_CASE("keys: lengths of time have a unit and bounds") {
  CHECK(parse_length("90s") == 90'000);
  CHECK(parse_length("30m") == 1'800'000);
  CHECK(parse_length("24h") == 86'400'000);
  CHECK(parse_length("7d") == 604'800'000);
  for (const char* bad : {"", "7", "d", "0s", "-1h", "7w", "1h30m", "4000d", "99999999999999999999s", "1.5h"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_length(bad), Failure);
  }
}

TEST_CASE("keys: a ban lies in the home as the authority's record, and is lifted by a newer one") {
  const Home home;
  KeysRequest ban = home.request({home.peer.text()});
  CHECK(refusal([&] { return run_ban(ban); }).find("why") != std::string::npos);
  ban.reason = "sends nonsense";
  REQUIRE(run_ban(ban) == 0);
  auto records = home.bans();
  REQUIRE(records.size() == 1);
  const directory::RecordRules rules{"run", home.authority};
  CHECK(check_bounds(records[0], rules, kNow));
  CHECK(check_authorship(records[0], encode(records[0]), rules));
  const auto said = read_ban(records[0].record.value, "run", home.authority, kNow);
  REQUIRE(said);
  CHECK(said->target == std::variant<PeerId, TokenSerial>(home.peer));
  CHECK(said->reason == "sends nonsense");
  CHECK(said->until_ms == kNow + 86'400'000);

  ban.lift = true;
  const std::uint64_t sequence = records[0].record.sequence;
  REQUIRE(run_ban(ban) == 0);  // within the same millisecond
  records = home.bans();
  REQUIRE(records.size() == 1);
  CHECK(records[0].record.sequence > sequence);
  CHECK(records[0].record.value.empty());
  CHECK(records[0].record.expires_ms == kNow + 86'400'000);  // for as long as the ban could come back
  CHECK(check_authorship(records[0], encode(records[0]), rules));
}

TEST_CASE("keys: a ban by another key than the authority's is no record of this run") {
  const Home home;
  KeysRequest ban = home.request({Identity::generate({5}).id().text()});
  ban.reason = "sends nonsense";
  ban.authority = home.folder.path() / "identity.key";
  REQUIRE(run_ban(ban) == 0);  // this home knows no manifest, so it cannot tell; the directory can
  CHECK_FALSE(check_authorship(home.bans()[0], encode(home.bans()[0]), directory::RecordRules{"run", home.authority}));
}

TEST_CASE("keys: what cannot be meant is refused before anything is written") {
  const Home home;
  CHECK(refusal([&] { return run_keys(home.request({"token", "nobody"})); }).find("no peer") != std::string::npos);
  CHECK(refusal([&] { return run_keys(home.request({"revoke", "7x"})); }).find("serial") != std::string::npos);
  CHECK(refusal([&] { return run_keys(home.request({"tokens"})); }).find("tokens") != std::string::npos);
  KeysRequest long_one = home.request({"token", home.peer.text()});
  long_one.length = "8d";
  CHECK(refusal([&] { return run_keys(long_one); }).find("cannot hold") != std::string::npos);
  KeysRequest claims = home.request({"token", home.peer.text()});
  claims.claims = {"reduce"};
  CHECK(refusal([&] { return run_keys(claims); }).find("join") != std::string::npos);
  KeysRequest own = home.request({home.authority.text()});
  own.reason = "x";
  CHECK(refusal([&] { return run_ban(own); }).find("itself") != std::string::npos);
  own.words = {home.peer.text()};
  own.reason = std::string(201, 'x');
  CHECK(refusal([&] { return run_ban(own); }).find("201") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(home.folder.path() / "bans"));
}

TEST_CASE("keys: a damaged file of bans is not written over") {
  const Home home;
  std::ofstream(home.folder.path() / "bans") << "collab-ban-v1 aaaa\n";
  KeysRequest ban = home.request({home.peer.text()});
  ban.reason = "x";
  CHECK(refusal([&] { return run_ban(ban); }).find("line 1") != std::string::npos);
  CHECK(std::filesystem::file_size(home.folder.path() / "bans") == 19);
}

}  // namespace collab::cli
