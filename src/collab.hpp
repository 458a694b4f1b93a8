#pragma once
// The one include of a training loop that wants company. A job without a loop includes jobs/peer_main.hpp too.
// `Failure` and `ExitCode` (base/error.hpp) are in this namespace as they are.

#include "base/error.hpp"
#include "optim/collaboration.hpp"
#include "optim/optimizer.hpp"

namespace collab {

using epoch::Delay;
using optim::Collaboration;
using optim::Event;
using optim::GradScalerOptions;
using optim::Job;
using optim::lamb;
using optim::LambOptions;
using optim::Loss;
using optim::Optimizer;
using optim::OptimizerFactory;
using optim::OptimizerOptions;
using optim::Progress;
using optim::RunOptions;
using optim::StepResult;
using optim::Stopped;
using optim::Unit;
using optim::use;

}  // namespace collab
