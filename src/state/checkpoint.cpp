#include "state/checkpoint.hpp"

#include "base/file.hpp"
#include "state/checkpoint_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <utility>

namespace collab::state {
namespace {

constexpr std::string_view kPrefix = "epoch-";
constexpr std::string_view kNew = ".new-";  // being written
constexpr std::string_view kOld = ".old-";  // being removed

/// The epoch of a folder's name; none for any other name.
std::optional<std::uint64_t> epoch_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t epoch = 0;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + kPrefix.size(), end, epoch);
  return read.ec == std::errc() && read.ptr == end ? std::optional(epoch) : std::nullopt;
}

std::vector<std::filesystem::path> entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code absent;  // no folder: no entries
  for (std::filesystem::directory_iterator at(folder, absent), end; at != end; at.increment(absent))
    found.push_back(at->path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Checkpoints::Checkpoints(std::filesystem::path folder, Log& log, std::size_t keep)
    : folder_(std::move(folder)), log_(log), keep_(keep) {
  assert(keep_ >= 1);
}

std::filesystem::path Checkpoints::folder_of(std::uint64_t epoch) const {
  return folder_ / fmt::format("{}{:06}", kPrefix, epoch);
}

std::vector<std::uint64_t> Checkpoints::epochs() const {
  std::vector<std::uint64_t> epochs;
  for (const auto& entry : entries(folder_)) {
    if (const auto epoch = epoch_of(entry.filename().string())) epochs.push_back(*epoch);
  }
  std::sort(epochs.begin(), epochs.end());
  return epochs;
}

std::filesystem::path Checkpoints::save(const CheckpointContents& contents) {
  remove_left_overs();
  const std::filesystem::path place = folder_of(contents.epoch);
  const std::filesystem::path made = folder_ / (std::string(kNew) + place.filename().string());
  try {
    write_checkpoint(made, contents);
    put_in_place(made, place);
  } catch (...) {
    remove_left_overs();
    throw;
  }
  remove_old();
  log_.info("state.checkpoint_saved", {{"epoch", contents.epoch}, {"folder", place.string()}});
  return place;
}

void Checkpoints::put_in_place(const std::filesystem::path& made, const std::filesystem::path& place) const {
  // an older checkpoint of the same epoch changes places with the new one, so at no moment there is none
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != ENOENT) {  // a file system without exchange
      std::error_code ignored;
      std::filesystem::rename(place, folder_ / (std::string(kOld) + place.filename().string()), ignored);
    }
    if (::rename(made.c_str(), place.c_str()) != 0) fail_file("write", place, errno);
  }
  sync_folder(folder_);
}

/// Renamed first: a folder that is half removed must not look like a checkpoint.
void Checkpoints::remove_old() {
  const auto all = epochs();
  const auto best_one = best();
  for (std::size_t i = 0; i + keep_ < all.size(); ++i) {
    if (all[i] == best_one) continue;
    const auto place = folder_of(all[i]);
    std::error_code error;
    std::filesystem::rename(place, folder_ / (std::string(kOld) + place.filename().string()), error);
    if (error) log_.warn("state.checkpoint_not_removed", {{"folder", place.string()}, {"why", error.message()}});
  }
  remove_left_overs();
}

void Checkpoints::remove_left_overs() {
  for (const auto& entry : entries(folder_)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(kNew) && !name.starts_with(kOld)) continue;
    std::error_code error;
    std::filesystem::remove_all(entry, error);
    if (error) log_.warn("state.checkpoint_not_removed", {{"folder", entry.string()}, {"why", error.message()}});
  }
}

bool Checkpoints::mark_best(std::uint64_t epoch, double loss) {
  std::error_code absent;
  if (!std::filesystem::exists(folder_of(epoch), absent)) return false;
  const auto before = read_best();
  if (before && !(loss < before->loss)) return false;
  write_file(folder_ / "best", fmt::format("epoch {}\nloss {}\n", epoch, loss));
  return true;
}

std::optional<std::uint64_t> Checkpoints::best() const {
  const auto best = read_best();
  return best ? std::optional(best->epoch) : std::nullopt;
}

/// None when the note is missing or damaged, or its checkpoint has gone: then the next evaluation is the best again.
std::optional<Checkpoints::Best> Checkpoints::read_best() const {
  std::error_code absent;
  if (!std::filesystem::exists(folder_ / "best", absent)) return std::nullopt;
  std::string text;
  try {
    const Bytes bytes = read_file(folder_ / "best", 1000);
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } catch (const Failure&) {
    return std::nullopt;
  }
  unsigned long long epoch = 0;
  Best best;
  if (std::sscanf(text.c_str(), "epoch %llu\nloss %lf\n", &epoch, &best.loss) != 2) return std::nullopt;
  best.epoch = epoch;
  if (!std::filesystem::exists(folder_of(best.epoch), absent)) return std::nullopt;
  return best;
}

std::optional<Checkpoint> Checkpoints::load_newest(std::string_view run) {
  const auto all = epochs();
  for (auto epoch = all.rbegin(); epoch != all.rend(); ++epoch) {
    const auto folder = folder_of(*epoch);
    auto checkpoint = read_checkpoint(folder);
    if (checkpoint && checkpoint->run != run) {
      log_.warn("state.checkpoint_of_other_run", {{"folder", folder.string()}, {"run", checkpoint->run}});
      continue;
    }
    if (checkpoint && checkpoint->epoch == *epoch) return std::move(*checkpoint);
    const std::string why = checkpoint ? "the folder's name is not its epoch" : checkpoint.error().what;
    log_.warn("state.checkpoint_damaged", {{"folder", folder.string()}, {"why", why}});
    std::error_code ignored;  // then it stays where it is, and is skipped again
    std::filesystem::rename(folder, folder.string() + ".damaged", ignored);
  }
  return std::nullopt;
}

}  // namespace collab::state
