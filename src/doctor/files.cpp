#include "doctor/files.hpp"

#include "base/text.hpp"
#include "state/mapped_file.hpp"
#include "state/snapshot.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace collab::doctor {
namespace {

namespace fs = std::filesystem;

bool is_text(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".txt") || name.ends_with(".txt.zst") || name.ends_with(".jsonl");
}

Finding bad_folder(const std::string& measured) {
  return fail("data folder", measured, "another --data, or none: the run's own text is then fetched", ExitCode::data);
}

}  // namespace

Finding check_run_file(const std::string& name, const fs::path& file, const Digest& hash) {
  if (hash == Digest{}) return ok(name, "not of the run: every peer brings its own");
  std::error_code error;
  if (!fs::exists(file, error)) return ok(name, "not here yet; fetched when joining, or made from --data");
  try {
    const std::uint64_t bytes = fs::file_size(file);
    if (bytes > kHashedBytesMax) return ok(name, fmt::format("{}, too large to be hashed here", human_bytes(bytes)));
    const state::MappedFile mapped(file);
    if (state::content_hash(mapped.bytes()) == hash)
      return ok(name, fmt::format("{}, whole: its hash is the manifest's", human_bytes(bytes)));
  } catch (const Failure& failure) {
    return fail(name, failure);
  } catch (const fs::filesystem_error& problem) {
    return fail(name, fmt::format("cannot read {}: {}", file.string(), problem.code().message()),
                "move it away: it is fetched again", ExitCode::machine);
  }
  return warn(name, fmt::format("{} is damaged, or of another run: its hash is not the manifest's", file.string()),
              "nothing: it is fetched again when joining");
}

Finding check_text_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return bad_folder(folder.string() + " is no folder");
  std::size_t entries = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  fs::recursive_directory_iterator next(folder, error);
  for (; !error && next != fs::recursive_directory_iterator() && entries < kEntriesMax; next.increment(error)) {
    ++entries;
    std::error_code broken;
    if (!next->is_regular_file(broken) || !is_text(next->path())) continue;
    if (::access(next->path().c_str(), R_OK) != 0)
      return bad_folder(fmt::format("cannot read {}: {}", next->path().string(), std::strerror(errno)));
    ++files;
    bytes += next->file_size(broken);
  }
  if (error) return bad_folder(fmt::format("cannot read {}: {}", folder.string(), error.message()));
  if (files == 0) return bad_folder(folder.string() + " holds no .txt, .txt.zst or .jsonl file");
  if (bytes == 0) return bad_folder(fmt::format("the {} files of text in {} are empty", files, folder.string()));
  return ok("data folder", fmt::format("{} files of text, {}", files, human_bytes(bytes)));
}

}  // namespace collab::doctor
