#include "jobs/registry.hpp"

#include "base/file.hpp"
#include "data/prepared.hpp"
#include "jobs/albert/job.hpp"

#include <fmt/format.h>

namespace collab::jobs {
namespace {

constexpr std::size_t kTokenizerBytesMax = std::size_t(64) << 20U;

RunnableJob make_albert(const JobInputs& inputs) {
  const Bytes model = read_file(inputs.tokenizer, kTokenizerBytesMax);
  auto text = std::make_shared<const data::Prepared>(data::Prepared::open(inputs.prepared));
  RunnableJob runnable;
  runnable.job = std::make_unique<AlbertJob>(inputs.recipe, std::move(text),
                                             std::string(reinterpret_cast<const char*>(model.data()), model.size()),
                                             inputs.device.device);
  runnable.optimizer = optim::lamb(lamb_options(inputs.recipe));
  runnable.stepper.schedule = [schedule = inputs.recipe.schedule](std::uint64_t epoch) { return schedule.at(epoch); };
  runnable.stepper.grad_norm_max = inputs.recipe.optimizer.grad_norm_max;
  return runnable;
}

}  // namespace

RunnableJob Registry::make(const JobInputs& inputs) const {
  const auto found = makers_.find(inputs.recipe.job);
  if (found != makers_.end()) return found->second(inputs);
  std::string known;
  for (const auto& [name, make] : makers_) known += (known.empty() ? "" : ", ") + name;
  throw Failure(ExitCode::incompatible,
                fmt::format("this run trains \"{}\", which this program does not know", inputs.recipe.job),
                fmt::format("a newer collab-peer, or a program that adds this job (known here: {})", known));
}

Registry standard_jobs() {
  Registry jobs;
  jobs.add("albert", make_albert);
  return jobs;
}

}  // namespace collab::jobs
