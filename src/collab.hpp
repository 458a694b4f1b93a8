#pragma once
// The one include of a training loop that wants company. A job without a loop includes jobs/peer_main.hpp instead.

#include "optim/collaboration.hpp"
#include "optim/optimizer.hpp"

namespace collab {

using optim::Collaboration;
using optim::lamb;
using optim::LambOptions;
using optim::Optimizer;
using optim::OptimizerOptions;
using optim::RunOptions;
using optim::StepResult;
using optim::Stopped;
using optim::use;

}  // namespace collab
