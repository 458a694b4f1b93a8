#include "node/manifest.hpp"

#include "base/file.hpp"
#include "manifests.hpp"
#include "node/join.hpp"
#include "support/temp_folder.hpp"

#include <functional>
#include <limits>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using test::identity;
using test::manifest_of;

}  // namespace

TEST_CASE("manifest: what is signed is what is read, every field of it") {
  const Identity authority = identity(1);
  Manifest manifest = manifest_of(authority);
  manifest.admission = Admission::allow_list;
  manifest.commit_fraction = 0.25;
  manifest.codec = "float32";
  manifest.mode = "diloco";
  manifest.tokenizer.fill(3);
  manifest.data.fill(4);
  const auto read = read_manifest(sign_manifest(authority, manifest), "demo", authority.id());
  REQUIRE(read.has_value());
  CHECK(*read == manifest);
}

TEST_CASE("manifest: any changed byte of it is refused, whichever it is") {
  const Identity authority = identity(1);
  const Signed whole = sign_manifest(authority, manifest_of(authority));
  const Bytes bytes = encode(whole);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes changed = bytes;
    changed[i] ^= std::byte(1);
    const auto statement = decode_signed(changed);
    if (!statement || !read_manifest(*statement, "demo", std::nullopt)) ++refused;
  }
  CHECK(refused == bytes.size());
}

TEST_CASE("manifest: the authority's own signature does not save values that cannot be") {
  const Identity authority = identity(1);
  const std::vector<std::function<void(Manifest&)>> spoil = {
      [](Manifest& m) { m.target_batch = 0; },
      [](Manifest& m) { m.target_batch = std::numeric_limits<std::uint64_t>::max(); },
      [](Manifest& m) { m.group_size_max = 1; },
      [](Manifest& m) { m.group_size_max = 65; },
      [](Manifest& m) { m.commit_fraction = 0; },
      [](Manifest& m) { m.commit_fraction = std::numeric_limits<double>::quiet_NaN(); },
      [](Manifest& m) { m.admission = static_cast<Admission>(9); },
      [](Manifest& m) { m.recipe.assign(kRecipeBytesMax + 1, 'x'); },
      [](Manifest& m) { m.coordinators.resize(kCoordinatorsMax + 1); },
      [](Manifest& m) { m.coordinators.front().addresses.front().port = 0; },
      [](Manifest& m) { m.authority = identity(2).id(); },
  };
  for (std::size_t i = 0; i < spoil.size(); ++i) {
    CAPTURE(i);
    Manifest manifest = manifest_of(authority);
    spoil[i](manifest);
    CHECK_FALSE(read_manifest(sign_manifest(authority, manifest), "demo", std::nullopt).has_value());
  }
}

TEST_CASE("manifest: another run or another authority is refused, both keys named") {
  const Identity authority = identity(1);
  const Identity stranger = identity(2);
  const Signed statement = sign_manifest(authority, manifest_of(authority));
  CHECK(read_manifest(statement, "other", std::nullopt).error().code == Errc::denied);
  const auto refused = read_manifest(statement, "demo", stranger.id());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::denied);
  CHECK(refused.error().reason.find(authority.id().text()) != std::string::npos);
  CHECK(refused.error().reason.find(stranger.id().text()) != std::string::npos);
}

TEST_CASE("manifest: one that is older than the one seen here, or for later programs, is refused") {
  const Identity authority = identity(1);
  Expected expected;
  expected.run_id = "demo";
  expected.sequence_min = 5;
  CHECK(check_manifest(sign_manifest(authority, manifest_of(authority, "demo", 5)), expected).has_value());
  const auto older = check_manifest(sign_manifest(authority, manifest_of(authority, "demo", 4)), expected);
  REQUIRE_FALSE(older.has_value());
  CHECK(older.error().reason.find("older (sequence 4)") != std::string::npos);
  Manifest later = manifest_of(authority, "demo", 6);
  later.version_min = 99;
  CHECK(check_manifest(sign_manifest(authority, later), expected).error().code == Errc::stale);
}

TEST_CASE("manifest file: what was saved is loaded, a torn one is a failure and no fresh start") {
  const test::TempFolder folder;
  const Identity authority = identity(1);
  const auto file = folder.path() / "manifest.signed";
  CHECK_FALSE(load_manifest(file).has_value());
  const Signed statement = sign_manifest(authority, manifest_of(authority));
  save_manifest(file, statement);
  CHECK(load_manifest(file) == statement);
  const Bytes bytes = read_file(file, 100'000);
  write_file(file, std::span(bytes).first(bytes.size() - 1));
  CHECK_THROWS_AS(load_manifest(file), Failure);
}

}  // namespace collab::node
