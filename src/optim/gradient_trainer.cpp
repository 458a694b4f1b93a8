#include "optim/gradient_trainer.hpp"

#include "crypto/fields.hpp"
#include "optim/sections.hpp"

#include <cstring>
#include <utility>

namespace collab::optim {

Microbatch GradientTrainer::add(const Gathered& behind, double scale) {
  return gathered_.add(stepper_.gradient_pieces(), behind, scale) ? Microbatch::counted : Microbatch::dropped;
}

/// What it tracked stays with who tracked it.
bool GradientTrainer::take_on(std::span<const float> values, const Gathered& behind, const PeerId&,
                              std::size_t ranges_max) {
  const std::lock_guard lock(mutex_);
  return gathered_.take_on(values.first(carried()), behind, ranges_max);
}

Result<> GradientTrainer::step_model(std::span<float> averaged, std::uint64_t epoch) {
  const StepReport report = stepper_.step(averaged, epoch);
  epoch_ = epoch + 1;
  if (report.outcome != StepOutcome::stepped) return Errc::bad_request;
  return Result<>();
}

Digest GradientTrainer::parameter_hash() const {
  return state::parameter_hash(stepper_.parameters());
}

state::Snapshot GradientTrainer::copy_model(std::uint64_t epoch) const {
  state::Section optimizer{kOptimizer, {}};
  for (const auto moment : stepper_.moments()) append(optimizer.bytes, moment);
  FieldWriter schedule;
  schedule.add(stepper_.steps());

  state::Snapshot snapshot;
  snapshot.epoch = epoch;
  snapshot.sections.push_back(section(kParameters, stepper_.parameters()));
  snapshot.sections.push_back(std::move(optimizer));
  snapshot.sections.push_back({kSchedule, schedule.finish()});
  return snapshot;
}

Result<> GradientTrainer::load_model(const state::Snapshot& snapshot) {
  const auto* parameters = snapshot.find(kParameters);
  const auto* optimizer = snapshot.find(kOptimizer);
  const auto* schedule = snapshot.find(kSchedule);
  if (parameters == nullptr || optimizer == nullptr || schedule == nullptr) return Errc::bad_request;
  const std::size_t values = stepper_.state_schema().values();
  if (parameters->bytes.size() != stepper_.schema().values() * sizeof(float)) return Errc::bad_request;
  if (parameters->bytes.size() + optimizer->bytes.size() != values * sizeof(float)) return Errc::bad_request;
  FieldReader reader(schedule->bytes);
  const auto steps = reader.take<std::uint64_t>();
  if (const auto whole = reader.finish(); !whole) return whole;

  std::vector<float> all(values);
  std::memcpy(all.data(), parameters->bytes.data(), parameters->bytes.size());
  if (!optimizer->bytes.empty()) {
    std::memcpy(reinterpret_cast<std::byte*>(all.data()) + parameters->bytes.size(), optimizer->bytes.data(),
                optimizer->bytes.size());
  }
  const auto loaded = stepper_.load_state(all, steps);
  if (loaded) epoch_ = snapshot.epoch;
  return loaded;
}

}  // namespace collab::optim
