#pragma once
// Bans and revocations on their way from the authority's hands to the directory: a file in a node's home.
//
//   collab-ban-v1 <base32 of a signed record of the directory's key "ban">     a line each; the last of a target counts

#include "crypto/ban.hpp"
#include "crypto/identity.hpp"
#include "directory/record.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace collab::node {

inline constexpr std::size_t kBansMax = 1024;  ///< in one file

/// The ban as the directory keeps it: the authority's statement within the authority's record, until the ban is over.
directory::SignedRecord ban_record(const Identity& authority, std::string_view run_id, const Ban& ban);
/// What takes the place of `ban_record(ban)` for as long as that would have lasted, so that nobody brings it back.
/// `sequence`: above that of the ban.
directory::SignedRecord lifted_record(const Identity& authority, std::string_view run_id, const Ban& ban,
                                      std::uint64_t sequence);

/// Empty when there is no file. Verifies no signature: the directory does. Throws `Failure(data)`, naming the line.
std::vector<directory::SignedRecord> read_ban_file(const std::filesystem::path& file);
/// Adds the record, in place of an older one of its target; those that are over at `now_ms` go.
/// Throws `Failure(data)` when the file is damaged or full, `Failure(machine)` when it cannot be written.
void add_to_ban_file(const std::filesystem::path& file, const directory::SignedRecord& record, std::int64_t now_ms);

}  // namespace collab::node
