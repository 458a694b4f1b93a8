// A peer's key file: any bytes are refused in words for its owner, or are exactly what is written for that key.
#include "base/text.hpp"
#include "crypto/key_file.hpp"
#include "support.hpp"

namespace collab::fuzz::key_file_target {

COLLAB_FUZZ_TARGET(key_file) {
  using fuzz::require;
  static fuzz::InputFile file;
  file.put(fuzz::bytes_of(data, size));
  try {
    const auto seed = key_file::read(file.path());
    require(seed.has_value());
    require(fuzz::text_of(fuzz::bytes_of(data, size)) == "collab-ed25519-v1 " + to_base32(*seed) + "\n");
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::machine && !failure.remedy().empty());
  }
  return 0;
}

}  // namespace collab::fuzz::key_file_target
