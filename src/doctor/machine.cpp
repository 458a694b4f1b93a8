#include "doctor/machine.hpp"

#include "base/text.hpp"
#include "recipes/albert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace collab::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kValueBytes = sizeof(float);
constexpr std::uint64_t kProgramBytes = std::uint64_t(120) << 20U;  // libtorch and the rest, before any tensor
constexpr std::uint64_t kLogBytes = std::uint64_t(50) << 20U;       // 10 files of 5 MB
constexpr std::uint64_t kSmallFilesBytes = std::uint64_t(16) << 20U;

/// The number after `key` in a file of lines "key number"; an empty key: the first number. Nothing: not there.
std::optional<std::uint64_t> number_in(const char* file, const std::string& key) {
  std::ifstream in(file);
  if (key.empty()) {
    std::uint64_t value = 0;
    return in >> value ? std::optional(value) : std::nullopt;
  }
  for (std::string text; std::getline(in, text);) {
    if (text.starts_with(key)) return std::strtoull(text.c_str() + key.size(), nullptr, 10);
  }
  return std::nullopt;
}

std::uint64_t free_memory() {
  std::uint64_t bytes = number_in("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  const auto limit = number_in("/sys/fs/cgroup/memory.max", "");  // "max" is no number: no limit
  const auto used = number_in("/sys/fs/cgroup/memory.current", "");
  if (!limit || !used) return bytes;
  const std::uint64_t cache = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ").value_or(0);
  const std::uint64_t held = *used - std::min(*used, cache);
  return std::min(bytes, *limit - std::min(*limit, held));
}

/// `path`, or the nearest folder above it that exists.
fs::path nearest_existing(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::string why_not_writable(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path.string() + " is no folder";
  if (::access(path.c_str(), W_OK | X_OK) == 0) return {};
  return fmt::format("cannot write to {}: {}", path.string(), std::strerror(errno));
}

Finding judge_home(const Machine& machine) {
  if (!machine.home_problem.empty())
    return fail("home", machine.home_problem, "check the permissions, or choose another --home", ExitCode::machine);
  if (machine.home_on == machine.home) return ok("home", machine.home.string());
  return ok("home", fmt::format("{}, to be made in {}", machine.home.string(), machine.home_on.string()));
}

/// "12 GB free, the run takes 60 MB": warn below enough, fail below the least.
Finding judge_room(const std::string& what, const std::string& free_text, std::uint64_t free, std::uint64_t least,
                   std::uint64_t enough, bool of_run, const std::string& remedy) {
  const std::string need = fmt::format("{} takes {} at least, {} in all", of_run ? "this run" : "a run",
                                       human_bytes(least), human_bytes(enough));
  const std::string measured = fmt::format("{}; {}", free_text, need);
  if (free < least) return fail(what, measured, remedy, ExitCode::machine);
  if (free < enough) return warn(what, measured, remedy);
  return ok(what, measured);
}

Finding judge_files(std::uint64_t files) {
  if (files >= kFilesEnough) return ok("files", files == RLIM_INFINITY ? "no limit" : fmt::format("{} files", files));
  const std::string measured = fmt::format("{} files at once; a full group takes {}", files, kFilesLeast);
  const std::string remedy = "ulimit -n 4096 before the start";
  return files < kFilesLeast ? fail("files", measured, remedy, ExitCode::machine) : warn("files", measured, remedy);
}

}  // namespace

Machine measure_machine(const fs::path& home) {
  Machine machine;
  std::error_code error;
  machine.home = fs::absolute(home, error);
  machine.home_on = nearest_existing(machine.home);
  machine.home_problem = why_not_writable(machine.home_on);
  struct statvfs disk {};
  if (::statvfs(machine.home_on.c_str(), &disk) == 0)
    machine.disk_free_bytes = std::uint64_t(disk.f_bavail) * disk.f_frsize;
  machine.memory_free_bytes = free_memory();
  struct rlimit files {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) machine.files_max = files.rlim_cur;
  return machine;
}

Needs needs_of(const recipes::Recipe& recipe, std::uint64_t kept) {
  if (recipe.job != recipes::kAlbert) return Needs();
  const std::uint64_t parameters = recipes::parameter_values(recipe) * kValueBytes;
  const std::uint64_t checkpoint = 3 * parameters;  // with two moments
  Needs needs;
  needs.of_run = true;
  needs.disk_least = checkpoint + kSmallFilesBytes;
  needs.disk_enough = (kept + 2) * checkpoint + kSmallFilesBytes + kLogBytes;
  const std::uint64_t logits =
      std::uint64_t(recipe.microbatch) * recipe.data.sequence * recipe.model.vocabulary * kValueBytes;
  needs.memory_least = kProgramBytes + 4 * parameters;
  needs.memory_enough = kProgramBytes + 10 * parameters + recipes::activation_values(recipe) * kValueBytes + 2 * logits;
  return needs;
}

std::vector<Finding> judge(const Machine& machine, const Needs& needs) {
  const std::string disk = fmt::format("{} free on {}", human_bytes(machine.disk_free_bytes), machine.home_on.string());
  const std::string memory = fmt::format("{} free", human_bytes(machine.memory_free_bytes));
  return {judge_home(machine),
          judge_room("disk", disk, machine.disk_free_bytes, needs.disk_least, needs.disk_enough, needs.of_run,
                     "free some disk space, or choose another --home"),
          judge_room("memory", memory, machine.memory_free_bytes, needs.memory_least, needs.memory_enough, needs.of_run,
                     "end other programs, or give a smaller --microbatch"),
          judge_files(machine.files_max)};
}

Finding judge_cpu(double gflops, int threads) {
  const std::string measured = fmt::format("{:.1f} GFLOP/s on {} thread{}", gflops, threads, threads == 1 ? "" : "s");
  if (gflops >= kGflopsEnough) return ok("cpu", measured);
  return warn("cpu", measured + ": others will wait for this peer", "end other programs, or give more --threads");
}

Finding judge_device(const std::string& used, const std::string& problem) {
  if (problem.empty()) return ok("gpu", "computing on " + used);
  return warn("gpu", fmt::format("computing on {}; the card does not work: {}", used, problem),
              "install what is missing, or say --device cpu");
}

}  // namespace collab::doctor
