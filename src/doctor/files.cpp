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

constexpr const char* kData = "data";
constexpr const char* kKnownLater = "whether it is the run's is known when joining";

Finding bad_data(const std::string& measured) {
  return fail(kData, measured, "another --data, or none: the run's own is then fetched", ExitCode::data);
}

/// Against `hash`. Throws `Failure(machine)` when it cannot be read.
Content content_of(const fs::path& file, std::uint64_t bytes, const Digest& hash) {
  if (bytes > kHashedBytesMax) return Content::unknown;
  const state::MappedFile mapped(file);
  return state::content_hash(mapped.bytes()) == hash ? Content::same : Content::other;
}

/// Of a file that is there.
Finding judge_run_file(const std::string& name, const fs::path& file, std::uint64_t bytes, Content content) {
  const std::string size = human_bytes(bytes);
  if (content == Content::same) return ok(name, size + ", whole: its hash is the manifest's");
  if (content == Content::unknown) return ok(name, size + ", too large to be hashed here");
  return warn(name, fmt::format("{} is damaged, or of another run: its hash is not the manifest's", file.string()),
              "nothing: it is fetched again when joining");
}

Finding check_data_file(const fs::path& file, const Digest& hash) {
  std::error_code error;
  if (!fs::exists(file, error)) return bad_data(file.string() + " is not there");
  try {
    const std::uint64_t bytes = fs::file_size(file);
    const Content content = content_of(file, bytes, hash);
    if (content == Content::other) return bad_data(file.string() + " is not this run's data (its hash differs)");
    if (content == Content::same) return ok(kData, human_bytes(bytes) + ", the run's: its hash is the manifest's");
    return ok(kData, fmt::format("{}; {}", human_bytes(bytes), kKnownLater));
  } catch (const Failure& failure) {
    return fail(kData, failure);
  } catch (const fs::filesystem_error& problem) {
    return fail(kData, fmt::format("cannot read {}: {}", file.string(), problem.code().message()),
                "another --data, or none: the run's own is then fetched", ExitCode::machine);
  }
}

Finding check_text_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return bad_data(folder.string() + " is no folder");
  std::size_t entries = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  fs::recursive_directory_iterator next(folder, error);
  for (; !error && next != fs::recursive_directory_iterator() && entries < kEntriesMax; next.increment(error)) {
    ++entries;
    std::error_code broken;
    if (!next->is_regular_file(broken) || !is_text(next->path())) continue;
    if (::access(next->path().c_str(), R_OK) != 0)
      return bad_data(fmt::format("cannot read {}: {}", next->path().string(), std::strerror(errno)));
    ++files;
    bytes += next->file_size(broken);
  }
  if (error) return bad_data(fmt::format("cannot read {}: {}", folder.string(), error.message()));
  if (files == 0) return bad_data(folder.string() + " holds no .txt, .txt.zst or .jsonl file");
  if (bytes == 0) return bad_data(fmt::format("the {} files of text in {} are empty", files, folder.string()));
  return ok(kData, fmt::format("{} files of text, {}; {}", files, human_bytes(bytes), kKnownLater));
}

}  // namespace

FileCheck check_run_file(const std::string& name, const fs::path& file, const Digest& hash) {
  std::error_code error;
  if (!fs::exists(file, error)) return {ok(name, "not here yet; fetched when joining"), Content::missing};
  try {
    const std::uint64_t bytes = fs::file_size(file);
    const Content content = content_of(file, bytes, hash);
    return {judge_run_file(name, file, bytes, content), content};
  } catch (const Failure& failure) {
    return {fail(name, failure), Content::unknown};
  } catch (const fs::filesystem_error& problem) {
    return {fail(name, fmt::format("cannot read {}: {}", file.string(), problem.code().message()),
                 "move it away: it is fetched again", ExitCode::machine),
            Content::unknown};
  }
}

Finding check_data(const fs::path& given, const RunData& run) {
  using Kind = RunData::Kind;
  if (run.kind == Kind::none) return ok(kData, "not needed: the run has none");
  if (run.here == Content::same) return ok(kData, "not needed: the run's data is here");
  if (run.here == Content::unknown) return ok(kData, "needed only if the run's data that is here is damaged");
  if (run.kind == Kind::file) return check_data_file(given, run.hash);
  std::error_code error;
  if (run.kind == Kind::unknown && fs::is_regular_file(given, error))
    return ok(kData, std::string("a file; ") + kKnownLater);
  return check_text_folder(given);
}

}  // namespace collab::doctor
