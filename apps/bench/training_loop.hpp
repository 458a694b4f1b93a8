#pragma once
// The two training loops that are compared: a user's own, and the same with collab's optimizer in it.

#include "jobs/registry.hpp"
#include "optim/collaboration.hpp"
#include "optim/optimizer.hpp"
#include "recipes/recipe.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace collab::bench {

/// Work between two orders. Sample i of a stretch is unit `first_unit + i` of the data, whatever loop computes it.
struct Stretch {
  std::uint64_t first_unit = 0;
  std::uint64_t samples = 0;      ///< computed, then it ends
  std::uint64_t until_epoch = 0;  ///< not 0: instead, when the run has reached this epoch
};

struct EpochFigures {
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;  ///< that the run committed
  double handing_over_s = 0;  ///< from the group to the end of the microbatch in hand
  double averaging_s = 0;
  double stepping_s = 0;
};

struct Work {
  double seconds = 0;
  double cpu_s = 0;                  ///< user and system time of the whole process
  std::uint64_t samples = 0;         ///< computed here
  std::uint64_t steps = 0;           ///< taken here
  std::vector<EpochFigures> epochs;  ///< that this peer was part of; none of a bare loop
};

class TrainingLoop {
 public:
  virtual ~TrainingLoop() = default;
  virtual Work train(const Stretch& stretch) = 0;
};

/// What somebody has who does not know collab: gradients add up in `.grad`; after a target batch their mean is clipped,
/// the optimizer (the job's own, LAMB) takes its step, and they are set to none.
class BareLoop final : public TrainingLoop {
 public:
  BareLoop(jobs::RunnableJob job, const recipes::Recipe& recipe);
  ~BareLoop() override;
  Work train(const Stretch& stretch) override;

 private:
  void step();

  jobs::RunnableJob job_;
  std::uint64_t target_batch_;
  std::uint32_t microbatch_;
  std::vector<at::Tensor> parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::uint64_t gathered_ = 0;      // samples
  std::uint64_t microbatches_ = 0;  // of the same size, whose gradients have been added
  std::uint64_t epoch_ = 0;
};

/// The same loop as a peer of a run. `join` before the first stretch.
class CollabLoop final : public TrainingLoop {
 public:
  /// `run` has started and outlives it.
  CollabLoop(optim::Collaboration& run, jobs::RunnableJob job, const recipes::Recipe& recipe);
  /// Waits for the swarm's parameters.
  void join();
  Work train(const Stretch& stretch) override;
  std::uint64_t epoch() const noexcept { return optimizer_.epoch(); }
  /// Computes nothing for a moment, but serves those who want this peer's state.
  void rest();

 private:
  jobs::RunnableJob job_;
  std::uint32_t microbatch_;
  optim::Optimizer optimizer_;
};

}  // namespace collab::bench
