#pragma once
// Whole files, written so that a crash leaves the old one or the new one.

#include "base/bytes.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace collab {

/// Throws `Failure(machine)` when it cannot be read or is longer than `bytes_max`.
Bytes read_file(const std::filesystem::path& file, std::size_t bytes_max);

/// Changes when the file does, also within one second; "-" when there is none.
std::string file_stamp(const std::filesystem::path& file);

/// `Failure(machine)` for errno `error`: "cannot <verb> <path>: <reason>", with what helps.
[[noreturn]] void fail_file(std::string_view verb, const std::filesystem::path& path, int error);

/// Temp file beside it, fsync, rename, fsync of the folder; makes the folder. Throws `Failure(machine)` with the
/// system's reason (disk full, no permission); what was there before is then untouched.
void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& file, std::string_view text);
/// The pieces one after the other, without a copy of the whole.
void write_file(const std::filesystem::path& file, std::span<const std::span<const std::byte>> pieces);

/// Makes the rename of something inside `folder` last. Throws `Failure(machine)`.
void sync_folder(const std::filesystem::path& folder);

}  // namespace collab
