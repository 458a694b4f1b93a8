#pragma once
// Unix sockets in folders with long names.

#include <filesystem>
#include <sys/socket.h>
#include <sys/un.h>

namespace collab::monitor {

/// The address of `folder/name`. The system's limit of 107 bytes counts for `name` only: the folder is reached through
/// its descriptor, which is open for as long as this object lives.
class UnixPath {
 public:
  /// Throws `Failure(machine)` when the folder cannot be opened.
  UnixPath(const std::filesystem::path& folder, std::string_view name);
  ~UnixPath();
  UnixPath(const UnixPath&) = delete;
  UnixPath& operator=(const UnixPath&) = delete;

  const sockaddr* address() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const noexcept { return sizeof address_; }
  const char* path() const noexcept { return address_.sun_path; }
  int folder() const noexcept { return folder_; }

 private:
  int folder_;
  sockaddr_un address_{};
};

}  // namespace collab::monitor
