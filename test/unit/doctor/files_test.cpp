#include "doctor/files.hpp"

#include "base/file.hpp"
#include "state/snapshot.hpp"
#include "support/temp_folder.hpp"

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

Digest hash_of(std::string_view text) {
  return state::content_hash(std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("doctor: a file of the run is whole, missing, damaged or everybody's own") {
  const test::TempFolder folder;
  const auto file = folder.path() / "spiece.model";
  const Digest hash = hash_of("the tokenizer");
  CHECK(check_run_file("tokenizer", file, hash).measured.starts_with("not here yet"));
  write_file(file, std::string_view("the tokenizer"));
  const Finding whole = check_run_file("tokenizer", file, hash);
  CHECK(whole.result == Grade::ok);
  CHECK(whole.measured.starts_with("13 B, whole"));
  for (const std::string_view damaged : {"the tokenizes", ""}) {
    write_file(file, damaged);
    const Finding finding = check_run_file("tokenizer", file, hash);
    CHECK(finding.result == Grade::warn);
    CHECK(finding.measured.find("damaged") != std::string::npos);
  }
  CHECK(check_run_file("tokenizer", file, Digest{}).result == Grade::ok);
  const Finding unreadable = check_run_file("tokenizer", folder.path(), hash);
  CHECK(unreadable.result == Grade::fail);
  CHECK(unreadable.code == ExitCode::machine);
}

TEST_CASE("doctor: a folder of text that is missing, without text, empty or all right") {
  const test::TempFolder folder;
  const auto text = folder.path() / "text";
  CHECK(check_text_folder(text).measured.find("is no folder") != std::string::npos);
  std::filesystem::create_directories(text / "2024");
  write_file(text / "readme.md", std::string_view("no text of ours"));
  CHECK(check_text_folder(text).measured.find("holds no .txt") != std::string::npos);
  write_file(text / "2024/a.txt", std::string_view());
  CHECK(check_text_folder(text).measured.find("are empty") != std::string::npos);
  CHECK(check_text_folder(text).code == ExitCode::data);
  write_file(text / "2024/b.jsonl", std::string_view("{\"text\":\"a\"}\n"));
  const Finding fine = check_text_folder(text);
  CHECK(fine.result == Grade::ok);
  CHECK(fine.measured == "2 files of text, 13 B");
}

}  // namespace collab::doctor
