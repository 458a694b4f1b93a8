#pragma once
// The token that this node shows: a file that the user may replace at any time.

#include "base/bytes.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace collab::node {

/// Thread safety: none.
class TokenFile {
 public:
  explicit TokenFile(std::filesystem::path file) : file_(std::move(file)) {}

  struct News {
    Bytes token;          ///< empty: there is none any more, or the file is damaged
    std::string problem;  ///< why not; empty: no problem, or no file
  };
  /// Nothing unless the file is another one than at the last look. Never throws.
  std::optional<News> look();
  const std::filesystem::path& path() const noexcept { return file_; }

 private:
  std::filesystem::path file_;
  std::string stamp_ = "-";  ///< as when there is none
};

}  // namespace collab::node
