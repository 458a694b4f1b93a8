#pragma once
// What this machine offers a peer, measured without changing anything, and what that is worth. Measuring and judging
// are apart, so that any machine can be judged.

#include "doctor/finding.hpp"
#include "recipes/recipe.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace collab::doctor {

/// Facts. `home` need not exist: what counts is then the nearest folder above it.
struct Machine {
  std::filesystem::path home;
  std::filesystem::path home_on;        ///< the home, or the nearest folder above it that exists
  std::string home_problem;             ///< why a peer cannot write there; empty: it can
  std::uint64_t disk_free_bytes = 0;    ///< where the home is, for this user
  std::uint64_t memory_free_bytes = 0;  ///< that programs can have now, within the limit of a container
  std::uint64_t files_max = 0;          ///< descriptors of a process
};
Machine measure_machine(const std::filesystem::path& home);

/// What a peer takes, in bytes: with less than the least it does not work, with less than enough not for long.
struct Needs {
  bool of_run = false;  ///< measured by a recipe; else by what any run takes
  std::uint64_t disk_least = std::uint64_t(100) << 20U;
  std::uint64_t disk_enough = std::uint64_t(1) << 30U;
  std::uint64_t memory_least = std::uint64_t(256) << 20U;
  std::uint64_t memory_enough = std::uint64_t(1) << 30U;
};
/// `kept`: checkpoints. Disk: one checkpoint at least; enough are those kept, the best one, the one being written, and
/// logs. Memory: parameters, gradient and two moments at least; enough are ten copies and one microbatch. Of another
/// job than ALBERT nothing is known: what any run takes.
Needs needs_of(const recipes::Recipe& recipe, std::uint64_t kept);

inline constexpr std::uint64_t kFilesLeast = 128;   ///< a full group's connections, libraries and files
inline constexpr std::uint64_t kFilesEnough = 512;  ///< and strangers that call at the same time
inline constexpr double kGflopsEnough = 10;

/// home, disk, memory, files.
std::vector<Finding> judge(const Machine& machine, const Needs& needs);
/// `gflops`: of multiplying float32 matrices on `threads` threads.
Finding judge_cpu(double gflops, int threads);
/// `used`: what computes, in words. `problem`: why a card that is there does not; empty: it does, or there is none.
Finding judge_device(const std::string& used, const std::string& problem);

}  // namespace collab::doctor
