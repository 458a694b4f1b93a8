#include "crypto/identity.hpp"

#include "base/text.hpp"
#include "crypto/key_file.hpp"
#include "support/temp_folder.hpp"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

#include "support/doctest.hpp"

namespace collab {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void write_key(const fs::path& file, const std::string& text, mode_t mode = 0600) {
  std::ofstream(file) << text;
  REQUIRE(::chmod(file.c_str(), mode) == 0);
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

/// What a person is told; empty when the key was taken.
std::string refusal(const fs::path& file) {
  try {
    const Identity identity = Identity::load_or_create(file);
    return "";
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::machine);
    CHECK_FALSE(failure.remedy().empty());
    return failure.cause() + "; " + failure.remedy();
  }
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("identity: a new key is kept, for its owner alone, and comes back") {
  const test::TempFolder folder;
  const fs::path file = folder / "home" / "identity";
  PeerId id;
  {
    const Identity made = Identity::load_or_create(file);
    id = made.id();
    CHECK(mode_of(file) == 0600);
    CHECK(mode_of(file.parent_path()) == 0700);
    CHECK(test::content(file) == "collab-ed25519-v1 " + to_base32(made.seed()) + "\n");
  }
  CHECK(Identity::load_or_create(file).id() == id);
  CHECK(Identity::load_or_create(folder / "other" / "identity").id() != id);
}

TEST_CASE("identity: a key in use names the process, until it is free again") {
  const test::TempFolder folder;
  const fs::path file = folder / "identity";
  {
    Identity first = Identity::load_or_create(file);
    const Identity moved = std::move(first);
    const std::string told = refusal(file);
    CHECK(mentions(told, "in use by pid " + std::to_string(::getpid())));
    CHECK(mentions(told, "--home"));
  }
  CHECK(refusal(file) == "");
}

TEST_CASE("identity: a file that others may read, that is torn or unknown is refused and stays as it is") {
  const test::TempFolder folder;
  const fs::path file = folder / "identity";
  const std::string good = "collab-ed25519-v1 " + to_base32(Identity::Seed{1, 2, 3}) + "\n";
  const auto refused = [&](const std::string& text, std::string_view reason, mode_t mode = 0600) {
    CAPTURE(text);
    write_key(file, text, mode);
    CHECK(mentions(refusal(file), reason));
    CHECK(test::content(file) == text);
  };
  refused(good, "chmod 600", 0640);
  refused(good, "others may read", 0604);
  refused(good.substr(0, good.size() - 1), "torn");
  refused(good.substr(0, 40), "torn");
  refused(good + "more", "torn");
  refused("", "not a key");
  refused("-----BEGIN PRIVATE KEY-----\n", "not a key");
  refused("collab-ed25519-v2 abc\n", "update collab");
  write_key(file, good);
  CHECK(refusal(file) == "");
}

TEST_CASE("identity: what a crash left half written is no key and does no harm") {
  const test::TempFolder folder;
  const fs::path file = folder / "identity";
  write_key(folder / "identity.new", "collab-ed25519-v1 aaaa");
  CHECK(refusal(file) == "");
  CHECK_FALSE(fs::exists(folder / "identity.new"));
}

TEST_CASE("identity: a key that appeared since the file was looked for is not overwritten") {
  const test::TempFolder folder;
  const fs::path file = folder / "key";
  key_file::write(file, Identity::Seed{});
  const std::string before = test::content(file);
  Identity::Seed other{};
  other[0] = 1;
  CHECK_THROWS_AS(key_file::write(file, other), Failure);
  CHECK(test::content(file) == before);
}

TEST_CASE("identity: a folder that others may write to is refused") {
  const test::TempFolder folder;
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  CHECK(mentions(refusal(folder / "identity"), "chmod 700"));
  CHECK_FALSE(fs::exists(folder / "identity"));
}

TEST_CASE("identity: a signature holds for its bytes and its key only") {
  const Identity anna = Identity::generate({1});
  const Identity bert = Identity::generate({2});
  const Signature signature = anna.sign(bytes_of("yes"));
  CHECK(ed25519().verify(anna.id(), bytes_of("yes"), signature));
  CHECK_FALSE(ed25519().verify(anna.id(), bytes_of("no!"), signature));
  CHECK_FALSE(ed25519().verify(bert.id(), bytes_of("yes"), signature));
  CHECK_FALSE(ed25519().verify(PeerId{}, bytes_of("yes"), Signature{}));
  CHECK(anna.sign(bytes_of("yes")) == signature);
}

TEST_CASE("identity: who holds a key can be asked without making anything") {
  const test::TempFolder folder;
  const fs::path file = folder / "home" / "identity";
  CHECK_FALSE(key_file::holder(file));
  CHECK_FALSE(fs::exists(file.parent_path()));
  {
    const Identity held = Identity::load_or_create(file);
    CHECK(key_file::holder(file) == "pid " + std::to_string(::getpid()));
  }
  CHECK_FALSE(key_file::holder(file));
  const Identity again = Identity::load_or_create(file);  // asking left no lock behind
}

TEST_CASE("identity: a peer that starts while its key is only asked about starts all the same") {
  const test::TempFolder folder;
  const fs::path file = folder / "identity";
  const PeerId id = Identity::load_or_create(file).id();
  static int asker = -1;
  asker = ::open((folder / "identity.lock").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(asker, LOCK_SH | LOCK_NB) == 0);
  // the one who asks is done after 10 ms: in the midst of the first pause
  std::signal(SIGALRM, [](int) { ::close(asker); });
  itimerval soon{};
  soon.it_value.tv_usec = 10'000;
  REQUIRE(::setitimer(ITIMER_REAL, &soon, nullptr) == 0);
  const Identity started = Identity::load_or_create(file);
  CHECK(started.id() == id);
  std::signal(SIGALRM, SIG_DFL);
}

TEST_CASE("identity: a folder that others may write to keeps no key, and says how it would") {
  const test::TempFolder folder;
  CHECK_FALSE(key_file::folder_problem(folder / "none"));
  CHECK_FALSE(key_file::folder_problem(folder.path()));
  REQUIRE(::chmod(folder.path().c_str(), 0770) == 0);
  const auto problem = key_file::folder_problem(folder.path());
  REQUIRE(problem);
  CHECK(problem->code() == ExitCode::machine);
  CHECK(problem->remedy() == "chmod 700 " + folder.path().string());
  CHECK_THROWS_WITH_AS(Identity::load_or_create(folder / "identity"), problem->what(), Failure);
  REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);  // as /tmp: others cannot replace what is ours
  CHECK_FALSE(key_file::folder_problem(folder.path()));
}

}  // namespace collab
