#pragma once
// A folder of one test, gone with it.

#include <filesystem>
#include <stdexcept>
#include <stdlib.h>
#include <string>

namespace collab::test {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "collab-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temp folder for a test");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;  // the system's own cleaning gets what is left
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace collab::test
