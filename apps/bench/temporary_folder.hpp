#pragma once
// A folder that is there for one measurement.

#include "base/error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace collab::bench {

struct TemporaryFolder {
  /// Throws `Failure(machine)`.
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "collab-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Failure(ExitCode::machine, fmt::format("no folder {}: {}", name, std::strerror(errno)),
                    "TMPDIR, or more disk");
    }
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // a folder that stays in the temp folder harms nobody
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path path;
};

}  // namespace collab::bench
