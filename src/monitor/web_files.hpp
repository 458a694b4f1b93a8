#pragma once
// What embed_web.py has built into the program.

#include <span>
#include <string_view>

namespace collab::monitor {

struct WebFile {
  std::string_view path;  ///< "/app.js"
  std::string_view content_type;
  std::string_view etag;  ///< in quotes: of a hash of the bytes
  std::string_view bytes;
};

std::span<const WebFile> web_files();

}  // namespace collab::monitor
