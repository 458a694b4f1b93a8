#include "state/mapped_file.hpp"

#include "base/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace collab::state {

MappedFile::MappedFile(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_file("read", file, errno);
  struct stat about = {};
  void* address = nullptr;
  int error = ::fstat(descriptor, &about) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(about.st_mode)) error = EINVAL;
  if (error == 0 && about.st_size > 0) {  // an empty mapping is an error to mmap, not to us
    address = ::mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) error = errno;
  }
  ::close(descriptor);
  if (error != 0) fail_file("map", file, error);
  bytes_ = {static_cast<const std::byte*>(address), static_cast<std::size_t>(about.st_size)};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace collab::state
