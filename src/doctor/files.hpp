#pragma once
// The files of a run in a peer's home, and the text that a user brings: there, readable, the right ones.

#include "crypto/hash.hpp"
#include "doctor/finding.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace collab::doctor {

/// A larger file is not hashed: the whole look has to end within half a minute.
inline constexpr std::uint64_t kHashedBytesMax = std::uint64_t(1) << 30U;
inline constexpr std::size_t kEntriesMax = 100'000;  ///< of a folder of text that are looked at

/// `hash`: what the manifest names; zeros: every peer brings its own. A file that is missing or another one is fetched
/// when the peer joins, so neither is a failure; one that cannot be read is.
Finding check_run_file(const std::string& name, const std::filesystem::path& file, const Digest& hash);

/// Whether `folder` holds text that `data::read_documents` would read. Opens files, does not read them.
Finding check_text_folder(const std::filesystem::path& folder);

}  // namespace collab::doctor
