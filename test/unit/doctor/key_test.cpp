#include "doctor/key.hpp"

#include "support/temp_folder.hpp"

#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

namespace fs = std::filesystem;

struct Home {
  Home() : file(folder.path() / "home/identity.key") {}
  PeerId make() const { return Identity::load_or_create(file).id(); }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  const test::TempFolder folder;
  const fs::path file;
};

bool says(const KeyCheck& check, const std::string& words) {
  return check.finding.measured.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("doctor: no key is all right, and none is made") {
  const Home home;
  const KeyCheck check = check_key(home.file);
  CHECK(check.finding.result == Grade::ok);
  CHECK(says(check, "none yet"));
  CHECK_FALSE(check.identity);
  CHECK(fs::is_empty(home.folder.path()));
}

TEST_CASE("doctor: a key that is well is named by its peer, never by its secret") {
  const Home home;
  const PeerId id = home.make();
  const KeyCheck check = check_key(home.file);
  CHECK(check.finding.result == Grade::ok);
  CHECK(says(check, id.short_text()));
  REQUIRE(check.identity);
  CHECK(check.identity->id() == id);
  CHECK_FALSE(check.holder);
  const std::string secret = home.content().substr(std::string("collab-ed25519-v1 ").size(), 20);
  CHECK_FALSE(says(check, secret));
}

TEST_CASE("doctor: a key in use says by whom") {
  const Home home;
  const Identity held = Identity::load_or_create(home.file);
  const KeyCheck check = check_key(home.file);
  CHECK(check.finding.result == Grade::warn);
  CHECK(check.holder == "pid " + std::to_string(::getpid()));
  CHECK(says(check, *check.holder));
}

TEST_CASE("doctor: who uses the key is said also where others may look into its folder, or write to it") {
  const Home home;
  const Identity held = Identity::load_or_create(home.file);
  for (const auto& [mode, grade] : {std::pair(0755U, Grade::warn), {0777U, Grade::fail}}) {
    REQUIRE(::chmod(home.file.parent_path().c_str(), mode) == 0);
    const KeyCheck check = check_key(home.file);
    CHECK(check.finding.result == grade);
    CHECK(check.finding.remedy.starts_with("chmod 700 "));
    CHECK(says(check, "in use by pid " + std::to_string(::getpid())));
  }
}

TEST_CASE("doctor: before there is a key, a folder that others may write to is said as a start would say it") {
  const Home home;
  fs::create_directory(home.file.parent_path());
  REQUIRE(::chmod(home.file.parent_path().c_str(), 0777) == 0);
  const KeyCheck check = check_key(home.file);
  CHECK(check.finding.code == ExitCode::machine);
  CHECK_FALSE(check.made);
  CHECK_THROWS_WITH_AS(Identity::load_or_create(home.file), doctest::Contains(check.finding.measured.c_str()), Failure);
}

TEST_CASE("doctor: a key that others may read, a torn one and a folder that others write to fail") {
  const Home home;
  home.make();
  REQUIRE(::chmod(home.file.c_str(), 0644) == 0);
  const KeyCheck wide = check_key(home.file);
  CHECK(wide.finding.result == Grade::fail);
  CHECK(wide.finding.code == ExitCode::machine);
  CHECK(wide.finding.remedy.starts_with("chmod 600 "));
  REQUIRE(::chmod(home.file.c_str(), 0600) == 0);

  REQUIRE(::chmod(home.file.parent_path().c_str(), 0755) == 0);
  CHECK(check_key(home.file).finding.result == Grade::warn);
  CHECK(says(check_key(home.file), "mode 755"));
  REQUIRE(::chmod(home.file.parent_path().c_str(), 0777) == 0);
  CHECK(check_key(home.file).finding.result == Grade::fail);
  REQUIRE(::chmod(home.file.parent_path().c_str(), 0700) == 0);
  CHECK(check_key(home.file).finding.result == Grade::ok);

  fs::resize_file(home.file, 30);
  const KeyCheck torn = check_key(home.file);
  CHECK(torn.finding.result == Grade::fail);
  CHECK(torn.made);  // so the run may know it: being refused without it says nothing
  CHECK_FALSE(torn.identity);
  CHECK(says(torn, "is torn"));
  CHECK(fs::file_size(home.file) == 30);
}

}  // namespace collab::doctor
