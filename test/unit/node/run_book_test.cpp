#include "node/run_book.hpp"

#include "base/file.hpp"
#include "manifests.hpp"
#include "support/temp_folder.hpp"

#include <string>
#include <thread>
#include <vector>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

RunBookEntry entry_of(const std::string& address) {
  RunBookEntry entry;
  entry.addresses.push_back(parse_peer_address(address));
  entry.authority = test::identity(1).id();
  return entry;
}

std::string what_of(const std::filesystem::path& file) {
  try {
    (void)read_run_book({file});
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::usage);
    return failure.cause();
  }
  return "";
}

}  // namespace

TEST_CASE("run book: joining adds an entry once and leaves what the user wrote") {
  const test::TempFolder folder;
  const auto file = folder.path() / "deep" / "runs.toml";
  CHECK(read_run_book({file}).empty());
  CHECK(remember_run(file, "demo", entry_of("host:4600")));
  const std::string comment = "# mine\n[other]\naddresses = [\"[::1]:7\"]";
  const Bytes before = read_file(file, 10'000);
  std::string text(reinterpret_cast<const char*>(before.data()), before.size());
  write_file(file, text + comment);
  CHECK_FALSE(remember_run(file, "demo", entry_of("elsewhere:1")));
  CHECK(remember_run(file, "dotted.run", entry_of("wss://third/collab/v1")));

  const RunBook book = read_run_book({file});
  REQUIRE(book.size() == 3);
  CHECK(book.at("demo") == entry_of("host:4600"));
  CHECK(book.at("dotted.run") == entry_of("wss://third:443/collab/v1"));
  CHECK(book.at("other").addresses.front().address.port == 7);
  CHECK_FALSE(book.at("other").authority.has_value());
  const Bytes after = read_file(file, 10'000);
  text.assign(reinterpret_cast<const char*>(after.data()), after.size());
  CHECK(text.find("# mine") != std::string::npos);
}

TEST_CASE("run book: programs that join one run at the same moment leave a file that can be read") {
  const test::TempFolder folder;
  for (int round = 0; round < 40; ++round) {
    const auto file = folder.path() / std::to_string(round) / "runs.toml";
    std::vector<std::thread> joining;
    for (int i = 0; i < 4; ++i)
      joining.emplace_back([&file] { (void)remember_run(file, "demo", entry_of("host:4600")); });
    for (std::thread& one : joining) one.join();
    CHECK(what_of(file).empty());
    CHECK(read_run_book({file}).size() == 1);
  }
}

TEST_CASE("run book: the user's own file beats the machine's") {
  const test::TempFolder folder;
  const auto machine = folder.path() / "machine.toml";
  const auto own = folder.path() / "own.toml";
  (void)remember_run(machine, "demo", entry_of("machine:1"));
  (void)remember_run(machine, "only", entry_of("machine:2"));
  (void)remember_run(own, "demo", entry_of("own:1"));
  const RunBook book = read_run_book({machine, own});
  CHECK(book.at("demo").addresses.front().address.host == "own");
  CHECK(book.at("only").addresses.front().address.host == "machine");
}

TEST_CASE("run book: a damaged file is a usage failure that names file and line") {
  const test::TempFolder folder;
  const auto file = folder.path() / "runs.toml";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"[demo]\naddresses = [\"host:4600\"", "line "},
      {"[demo]\n\naddresses = [\"host\"]\n", "line 3"},
      {"[demo]\naddresses = \"host:1\"\n", "line 2"},
      {"[demo]\naddresses = []\n", "no addresses"},
      {"[demo]\naddresses = [7]\n", "line 2"},
      {"[demo]\naddresses = [\"h:1\"]\nauthority = \"abc\"\n", "line 3"},
      {"[demo]\naddresses = [\"h:1\"]\nport = 4\n", "port"},
      {"[Demo]\naddresses = [\"h:1\"]\n", "no [run]"},
      {"demo = 1\n", "line 1"},
  };
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    write_file(file, text);
    const std::string what = what_of(file);
    CHECK(what.find(file.string()) != std::string::npos);
    CHECK(what.find(part) != std::string::npos);
  }
}

}  // namespace collab::node
