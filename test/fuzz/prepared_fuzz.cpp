// Any bytes as a prepared file, under the hash that belongs to them: refused, or readable to the last token.
#include "base/error.hpp"
#include "data/prepared.hpp"
#include "data/prepared_file.hpp"
#include "support.hpp"

#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace collab::fuzz::prepared_target {

COLLAB_FUZZ_TARGET(prepared) {
  static const int file = ::memfd_create("prepared", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  const Digest digest = Hasher(data::kFileDomain).add(std::span(data, size)).finish();
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != ssize_t(size) ||
      ::pwrite(file, digest.data(), digest.size(), off_t(size)) != ssize_t(digest.size()))
    std::abort();
  try {
    const auto prepared = data::Prepared::open(path);
    for (const auto part : {data::Part::train, data::Part::held_out}) {
      const auto counts = prepared.counts(part);
      for (std::uint64_t index = 0; index < prepared.windows(part); ++index) {
        const data::Window window = prepared.window(part, index);
        if (window.sentence_ends.back() != window.tokens.size()) std::abort();
        for (const std::uint32_t id : window.tokens)
          if (counts.at(id) == 0) std::abort();
      }
    }
  } catch (const Failure& failure) {
    if (failure.code() != ExitCode::data) std::abort();
  }
  return 0;
}

}  // namespace collab::fuzz::prepared_target
