#include "support.hpp"

#include <atomic>
#include <fcntl.h>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::atomic<std::size_t> allocated = 0;

void write_all(int file, std::span<const std::byte> bytes) {
  collab::fuzz::require(::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COLLAB_FUZZ_ASAN
#endif
#endif
#if defined(COLLAB_FUZZ_ASAN) || defined(__SANITIZE_ADDRESS__)
// called by ASan at each allocation, also by those of C libraries
extern "C" void __sanitizer_malloc_hook(const volatile void* /*at*/, std::size_t bytes) {
  allocated += bytes;
}
extern "C" void __sanitizer_free_hook(const volatile void* /*at*/) {}
#else
void* operator new(std::size_t bytes) {
  allocated += bytes;
  if (void* at = std::malloc(bytes)) return at;
  throw std::bad_alloc();
}
void operator delete(void* at) noexcept {
  std::free(at);
}
void operator delete(void* at, std::size_t /*bytes*/) noexcept {
  std::free(at);
}
#endif

namespace collab::fuzz {

std::size_t allocated_bytes() {
  return allocated;
}

InputFile::InputFile() : number_(::memfd_create("input", MFD_CLOEXEC)) {
  require(number_ >= 0 && ::fchmod(number_, 0600) == 0);
  path_ = "/proc/self/fd/" + std::to_string(number_);
}

InputFile::~InputFile() {
  ::close(number_);
}

void InputFile::put(std::span<const std::byte> bytes) {
  require(::ftruncate(number_, 0) == 0);
  write_all(number_, bytes);
}

InputFolder::InputFolder() {
  std::error_code absent;
  const std::filesystem::path memory = "/dev/shm";
  const auto base = std::filesystem::is_directory(memory, absent) ? memory : std::filesystem::temp_directory_path();
  std::string name = (base / "collab-fuzz-XXXXXX").string();
  require(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void InputFolder::put(const char* name, std::span<const std::byte> bytes) const {
  const int file = ::open((path_ / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  require(file >= 0);
  write_all(file, bytes);
  ::close(file);
}

}  // namespace collab::fuzz
