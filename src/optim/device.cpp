#include "optim/device.hpp"

#include "base/error.hpp"

#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include <cassert>
#include <dlfcn.h>
#include <filesystem>
#include <malloc.h>
#include <string>

namespace collab::optim {
namespace {

/// Empty when CUDA works, else why not. The library must be loaded before the first question: "no" is remembered.
std::string why_no_cuda() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
  if (!torch::cuda::is_available()) return "libtorch finds no CUDA device";
  return {};
}

/// The next microbatch needs what this one frees. Given back to the kernel in between, the pages are made and zeroed
/// anew each time: up to 3 % of a step, and more in one process than in its twin.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

Device set_up_device(DeviceWish wish, int threads) {
  assert(threads > 0);
  keep_freed_memory();
  at::set_num_threads(threads);
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
  Device chosen;
  chosen.words = "CPU, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  const bool card = std::filesystem::exists("/dev/nvidia0");
  if (wish == DeviceWish::cpu || (wish == DeviceWish::automatic && !card)) return chosen;
  const std::string problem = why_no_cuda();
  if (problem.empty()) return {c10::Device(c10::kCUDA, 0), "CUDA device 0", {}};
  if (wish == DeviceWish::cuda)
    throw Failure(ExitCode::machine, "CUDA does not work: " + problem, "leave out --device cuda to compute on the CPU");
  chosen.words += "; CUDA does not work: " + problem;
  chosen.problem = problem;
  return chosen;
}

}  // namespace collab::optim
