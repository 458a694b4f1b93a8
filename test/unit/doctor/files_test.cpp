#include "doctor/files.hpp"

#include "base/file.hpp"
#include "state/snapshot.hpp"
#include "support/temp_folder.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

Digest hash_of(std::string_view text) {
  return state::content_hash(std::as_bytes(std::span(text)));
}

Finding check_folder(const std::filesystem::path& folder) {
  RunData run;
  run.kind = RunData::Kind::text;
  return check_data(folder, run);
}

Finding check_file(const std::filesystem::path& file, const Digest& hash) {
  RunData run;
  run.kind = RunData::Kind::file;
  run.hash = hash;
  return check_data(file, run);
}

/// Root may read everything: it is somebody else for a while. Others are who they are.
struct AsNobody {
  AsNobody() {
    if (root) REQUIRE(::setresuid(65534, 65534, 0) == 0);
  }
  ~AsNobody() {
    if (root) REQUIRE(::setresuid(0, 0, 0) == 0);
  }
  const bool root = ::geteuid() == 0;
};

}  // namespace

TEST_CASE("doctor: a file of the run is whole, missing, damaged or everybody's own") {
  const test::TempFolder folder;
  const auto file = folder.path() / "spiece.model";
  const Digest hash = hash_of("the tokenizer");
  CHECK(check_run_file("tokenizer", file, hash).finding.measured.starts_with("not here yet"));
  write_file(file, std::string_view("the tokenizer"));
  const FileCheck whole = check_run_file("tokenizer", file, hash);
  CHECK(whole.content == Content::same);
  CHECK(whole.finding.result == Grade::ok);
  CHECK(whole.finding.measured.starts_with("13 B, whole"));
  for (const std::string_view damaged : {"the tokenizes", ""}) {
    write_file(file, damaged);
    const FileCheck check = check_run_file("tokenizer", file, hash);
    CHECK(check.content == Content::other);
    CHECK(check.finding.result == Grade::warn);
    CHECK(check.finding.measured.find("damaged") != std::string::npos);
    CHECK(check.finding.remedy.find("fetched again") != std::string::npos);
  }
  const FileCheck unreadable = check_run_file("tokenizer", folder.path(), hash);
  CHECK(unreadable.content == Content::unknown);
  CHECK(unreadable.finding.result == Grade::fail);
  CHECK(unreadable.finding.code == ExitCode::machine);
  CHECK(unreadable.finding.measured.starts_with("cannot read "));
  CHECK(unreadable.finding.remedy.find("move it away") != std::string::npos);
  std::filesystem::resize_file(file, kHashedBytesMax + 1);  // of nothing but holes
  const FileCheck large = check_run_file("tokenizer", file, hash);
  CHECK(large.content == Content::unknown);
  CHECK(large.finding.result == Grade::ok);
  CHECK(large.finding.measured == "134 MB, too large to be hashed here");
}

TEST_CASE("doctor: a file of data is the run's, another one, missing, too large or none") {
  const test::TempFolder folder;
  const auto file = folder.path() / "text";
  const Digest hash = hash_of("two times two is four");
  const Finding missing = check_file(file, hash);
  CHECK(missing.code == ExitCode::data);
  CHECK(missing.measured == file.string() + " is not there");
  write_file(file, std::string_view("two times two is four"));
  CHECK(check_file(file, hash).measured == "21 B, the run's: its hash is the manifest's");
  write_file(file, std::string_view("two times two is five"));
  const Finding other = check_file(file, hash);
  CHECK(other.code == ExitCode::data);
  CHECK(other.measured.find("its hash differs") != std::string::npos);
  CHECK(other.remedy.find("--data") != std::string::npos);
  std::filesystem::resize_file(file, kHashedBytesMax + 1);
  CHECK(check_file(file, hash).result == Grade::ok);
  CHECK(check_file(file, hash).measured == "134 MB; whether it is the run's is known when joining");
  CHECK(check_file(folder.path(), hash).code == ExitCode::machine);
  CHECK(check_file(folder.path(), hash).measured.starts_with("cannot read "));
}

TEST_CASE("doctor: a folder of text that is missing, without text, empty or all right") {
  const test::TempFolder folder;
  const auto text = folder.path() / "text";
  CHECK(check_folder(text).measured.find("is no folder") != std::string::npos);
  std::filesystem::create_directories(text / "2024");
  write_file(text / "readme.md", std::string_view("no text of ours"));
  CHECK(check_folder(text).measured.find("holds no .txt") != std::string::npos);
  write_file(text / "2024/a.txt", std::string_view());
  CHECK(check_folder(text).measured.find("are empty") != std::string::npos);
  CHECK(check_folder(text).code == ExitCode::data);
  write_file(text / "2024/b.jsonl", std::string_view("{\"text\":\"a\"}\n"));
  const Finding fine = check_folder(text);
  CHECK(fine.result == Grade::ok);
  CHECK(fine.measured == "2 files of text, 13 B; whether it is the run's is known when joining");
}

TEST_CASE("doctor: what a user brings is looked at only where a start would read it") {
  const test::TempFolder folder;
  const auto nothing = folder.path() / "no-such";
  RunData run;
  CHECK(check_data(nothing, run).code == ExitCode::data);
  write_file(folder.path() / "file", std::string_view("of whatever job the run has"));
  CHECK(check_data(folder.path() / "file", run).measured == "a file; whether it is the run's is known when joining");
  run.kind = RunData::Kind::none;
  CHECK(check_data(nothing, run).measured == "not needed: the run has none");
  for (const RunData::Kind kind : {RunData::Kind::text, RunData::Kind::file}) {
    run.kind = kind;
    run.here = Content::same;
    CHECK(check_data(nothing, run).measured == "not needed: the run's data is here");
    run.here = Content::unknown;
    CHECK(check_data(nothing, run).measured == "needed only if the run's data that is here is damaged");
    for (const Content other : {Content::missing, Content::other}) {
      run.here = other;
      CHECK(check_data(nothing, run).code == ExitCode::data);
    }
  }
}

TEST_CASE("doctor: a folder of text, or a file in it, that may not be read is named, with the reason") {
  const test::TempFolder folder;
  namespace fs = std::filesystem;
  fs::permissions(folder.path(), fs::perms(0755));
  const auto text = folder.path() / "text";
  write_file(text / "a.txt", std::string_view("a"));
  fs::permissions(text, fs::perms(0755));
  fs::permissions(text / "a.txt", fs::perms::none);
  Finding file;
  Finding all;
  {
    const AsNobody nobody;
    file = check_folder(text);
  }
  fs::permissions(text, fs::perms::none);
  {
    const AsNobody nobody;
    all = check_folder(text);
  }
  fs::permissions(text, fs::perms(0755));
  CHECK(file.code == ExitCode::data);
  CHECK(file.measured == fmt::format("cannot read {}: Permission denied", (text / "a.txt").string()));
  CHECK(all.code == ExitCode::data);
  CHECK(all.measured == fmt::format("cannot read {}: Permission denied", text.string()));
}

}  // namespace collab::doctor
