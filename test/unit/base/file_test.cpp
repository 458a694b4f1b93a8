#include "base/file.hpp"

#include "base/error.hpp"
#include "support/temp_folder.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <sys/resource.h>

#include "support/doctest.hpp"

namespace collab {
namespace {

/// While it lives, the system takes no more than so many bytes into one file, as on a disk that is nearly full.
class NearlyFull {
 public:
  explicit NearlyFull(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~NearlyFull() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  NearlyFull(const NearlyFull&) = delete;
  NearlyFull& operator=(const NearlyFull&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

std::string text_of(const std::filesystem::path& file) {
  const Bytes bytes = read_file(file, 1'000'000);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t entries(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("file: on a full disk the old file stays whole, nothing is left over, and the message says what to do") {
  const test::TempFolder folder;
  const auto file = folder.path() / "a/b";
  write_file(file, std::string_view("old"));
  {
    const NearlyFull disk(4096);
    try {
      write_file(file, std::string(100'000, 'x'));
      FAIL("100 kB were written");
    } catch (const Failure& failure) {
      CHECK(failure.code() == ExitCode::machine);
      CHECK(failure.cause().find(file.string()) != std::string::npos);
      CHECK(failure.remedy().find("--home") != std::string::npos);
    }
  }
  CHECK(text_of(file) == "old");
  CHECK(entries(file.parent_path()) == 1);
  write_file(file, std::string(100'000, 'x'));
  CHECK(text_of(file).size() == 100'000);
}

TEST_CASE("file: a disk that is full is told from one that refuses") {
  const auto remedy = [](int error) {
    try {
      fail_file("write", "x", error);
    } catch (const Failure& failure) {
      return failure.remedy();
    }
  };
  CHECK(remedy(ENOSPC).find("free some disk space") == 0);
  CHECK(remedy(EDQUOT) == remedy(ENOSPC));
  CHECK(remedy(EACCES).find("permissions") != std::string::npos);
}

}  // namespace collab
