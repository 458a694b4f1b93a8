#include "base/log.hpp"

#include "base/error.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include "support/doctest.hpp"

namespace collab {
namespace {

/// While it lives, relative paths begin there.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("log: a file in a folder that is not there, or named without one, gets its lines") {
  const test::TempFolder temp;
  const WorkingFolder working(temp.path());
  for (const std::string name : {"peer.jsonl", "deep/down/peer.jsonl", (temp.path() / "other/peer.jsonl").c_str()}) {
    CAPTURE(name);
    {
      Log log({LogLevel::off, name, 1'000'000, 2, {}});
      log.info("something.happened");
    }
    CHECK(test::content(name).find("something.happened") != std::string::npos);
  }
}

TEST_CASE("log: what a killed program left of a line costs the next one nothing") {
  const test::TempFolder temp;
  const std::string file = temp.path() / "peer.jsonl";
  for (const std::string before : {"", "{\"event\":\"whole\"}\n", "{\"event\":\"to"}) {
    CAPTURE(before);
    std::ofstream(file, std::ios::binary) << before;
    {
      Log log({LogLevel::off, file, 1'000'000, 2, {}});
      log.info("after");
    }
    const std::string written = test::content(file);
    const bool torn = !before.empty() && before.back() != '\n';
    CHECK(written.starts_with(before + (torn ? "\n{" : "{")));
    CHECK(written.ends_with("}\n"));
  }
}

TEST_CASE("log: a place that cannot be written is told, with what would help") {
  const test::TempFolder temp;
  const std::filesystem::path file = temp.path() / "a file";
  { Log log({LogLevel::off, file.string(), 1'000'000, 2, {}}); }
  try {
    const Log log({LogLevel::off, (file / "below.jsonl").string(), 1'000'000, 2, {}});
    FAIL("taken");
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::machine);
    CHECK(std::string(failure.what()).find("--log-file") != std::string::npos);
  }
}

}  // namespace collab
