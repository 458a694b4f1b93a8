#pragma once
// The files of a run in a peer's home, and the data that a user brings: there, readable, the right ones.

#include "crypto/hash.hpp"
#include "doctor/finding.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace collab::doctor {

/// A larger file is not hashed: the whole look has to end within half a minute, on a slow disk too.
inline constexpr std::uint64_t kHashedBytesMax = std::uint64_t(128) << 20U;
inline constexpr std::size_t kEntriesMax = 100'000;  ///< of a folder of text that are looked at

/// What a file is, against the hash that the manifest names.
enum class Content : std::uint8_t {
  missing,
  same,
  other,
  unknown,  ///< too large to be hashed, or it cannot be read
};

struct FileCheck {
  Finding finding;
  Content content = Content::missing;
};

/// A file that is missing or another one is fetched when the peer joins, so neither is a failure; one that cannot be
/// read is. `hash`: not zeros.
FileCheck check_run_file(const std::string& name, const std::filesystem::path& file, const Digest& hash);

/// What a run takes as its data.
struct RunData {
  enum class Kind : std::uint8_t {
    unknown,  ///< nobody has told us
    none,
    text,  ///< a folder that `data::read_documents` would read
    file,  ///< a job of somebody's own: a file, as it is
  };
  Kind kind = Kind::unknown;
  Digest hash{};                    ///< what the manifest names
  Content here = Content::missing;  ///< in the home already
};

/// What a user brings for a run, looked at only where a start would read it. Opens files of text, does not read them:
/// whether they are the run's is not known before they are prepared, which takes too long here.
Finding check_data(const std::filesystem::path& given, const RunData& run);

}  // namespace collab::doctor
