#pragma once
// What lies between the boxes of shaped lines that are far from each other: an Ethernet switch that takes its time.

#include "base/clock.hpp"

#include <memory>
#include <string>
#include <vector>

namespace collab::bench {

/// Frames from one port to another leave as late as the ways to both are long, in the order in which they came; nothing
/// is lost. In user space, for kernels without netem: some 5 µs of a core a frame, and what the kernel has not cut into
/// packets yet passes whole.
class SlowSwitch {
 public:
  struct Port {
    std::string device;  ///< of the calling thread's network; in no bridge
    Duration way{};      ///< from it to the middle
  };

  /// Works on a thread of its own from now on. Throws `Failure(machine)`.
  explicit SlowSwitch(const std::vector<Port>& ports);
  ~SlowSwitch();
  SlowSwitch(const SlowSwitch&) = delete;
  SlowSwitch& operator=(const SlowSwitch&) = delete;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace collab::bench
