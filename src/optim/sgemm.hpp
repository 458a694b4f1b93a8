#pragma once
// How fast this machine multiplies matrices, which is most of what training is.

#include "base/clock.hpp"

namespace collab::optim {

/// GFLOP/s of float32 matrices of 512 x 512, on the threads that are set, on the CPU: the best of as many products as
/// fit into `time`, but of three at least, so that what else the machine does counts little. Blocks.
double sgemm_gflops(const Clock& clock, Duration time);

}  // namespace collab::optim
