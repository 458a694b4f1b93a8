#pragma once
// Trainable things that collab-peer runs by name.

#include "optim/device.hpp"
#include "optim/factory.hpp"
#include "optim/job.hpp"
#include "optim/stepper.hpp"
#include "recipes/recipe.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace collab::jobs {

/// What a job is made from. The files were checked against the hashes of the manifest; empty: the run has none.
struct JobInputs {
  recipes::Recipe recipe;
  std::filesystem::path tokenizer;  ///< spiece.model
  std::filesystem::path prepared;   ///< data/prepared.hpp; of another job than ALBERT: the run's data as it was given
  optim::Device device;
};

/// A job with the optimizer that its recipe asks for.
struct RunnableJob {
  std::unique_ptr<optim::Job> job;
  optim::OptimizerFactory optimizer;
  optim::StepperOptions stepper;
};

/// Throws `Failure` when inputs do not fit the recipe.
using MakeJob = std::function<RunnableJob(const JobInputs& inputs)>;

/// By the name in a recipe.
class Registry {
 public:
  void add(std::string name, MakeJob make) { makers_[std::move(name)] = std::move(make); }
  bool knows(const std::string& name) const { return makers_.contains(name); }
  /// Throws `Failure(incompatible)`, naming the jobs that are known, when `inputs.recipe.job` is not.
  RunnableJob make(const JobInputs& inputs) const;

 private:
  std::map<std::string, MakeJob> makers_;
};

/// What comes with collab: "albert".
Registry standard_jobs();

}  // namespace collab::jobs
