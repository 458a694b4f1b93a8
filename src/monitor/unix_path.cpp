#include "monitor/unix_path.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace collab::monitor {

UnixPath::UnixPath(const std::filesystem::path& folder, std::string_view name)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0) {
    const std::string why = std::strerror(errno);
    throw Failure(ExitCode::machine, fmt::format("cannot open the folder {}: {}", folder.string(), why),
                  "check the path and its permissions, or choose another --home");
  }
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder_, name);
  assert(path.size() < sizeof address_.sun_path);
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, path.c_str(), path.size() + 1);
}

UnixPath::~UnixPath() {
  ::close(folder_);
}

}  // namespace collab::monitor
