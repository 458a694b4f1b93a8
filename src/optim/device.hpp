#pragma once
// Where tensors live and how many threads compute: to be settled before libtorch does anything else.

#include <c10/core/Device.h>

#include <string>

namespace collab::optim {

enum class DeviceWish {
  automatic,  ///< CUDA if there is a card and it works, else the CPU
  cpu,
  cuda,  ///< or nothing
};

struct Device {
  c10::Device device = c10::Device(c10::kCPU);
  std::string words;    ///< for the log: "CPU, 1 thread", and why not CUDA if that was tried
  std::string problem;  ///< why not CUDA; empty: it computes, or there is no card, or it was not wished for
};

/// Sets libtorch's threads, has the process keep freed memory for its next use, then looks for CUDA by loading its
/// libraries, which nothing else does: a program that stays on the CPU never pays for them. Call it once per process,
/// first thing. `threads`: at least 1; peers that share a machine take one each.
/// Throws `Failure(machine)` when `wish` is `cuda` and it does not work, naming what is missing.
Device set_up_device(DeviceWish wish, int threads);

}  // namespace collab::optim
