#include "optim/local_trainer.hpp"

#include "crypto/fields.hpp"
#include "optim/sections.hpp"
#include "tensor/view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace collab::optim {
namespace {

constexpr unsigned kBadStepsMax = 3;  // as StepperOptions::bad_steps_max

}  // namespace

Microbatch LocalTrainer::add(const Gathered& behind, double scale) {
  stepper_.collect_gradients();
  const std::span<float> gradients = stepper_.gradients();
  if (scale != 1) {
    for (float& gradient : gradients) gradient = static_cast<float>(gradient / scale);
  }
  if (!all_finite(gradients)) return Microbatch::dropped;
  stepper_.step(gradients, epoch_);
  stepper_.adopt();
  moved_ = true;
  ++steps_beside_;
  if (silent_steps_ > 0) {
    --silent_steps_;
    return Microbatch::silent;
  }
  gathered_.samples += behind.samples;
  gathered_.work.add(behind.work);
  return Microbatch::counted;
}

/// Of who listens, what it moved by is nobody's: it is counted, and lost with the next step.
Gathered LocalTrainer::give(std::vector<float>& values) {
  const std::span<float> all(values);
  local_.hand_over(epoch_, stepper_.parameters(), all.first(local_.carried()));
  statistics_.hand_over(epoch_, all.subspan(local_.carried(), statistics_.carried()));
  moved_ = false;
  steps_beside_ = 0;
  if (gathered_.samples == 0) std::ranges::fill(all.first(carried()), 0.0F);
  return std::exchange(gathered_, {});
}

std::uint64_t LocalTrainer::take_back(std::span<const float> values, const Gathered& behind) {
  if (behind.samples == 0) return 0;
  local_.give_back(epoch_, values.first(local_.carried()));
  moved_ = true;
  gathered_.samples += behind.samples;
  gathered_.work.add(behind.work);
  return 0;
}

Gathered LocalTrainer::forget() {
  if (std::exchange(moved_, false)) (void)stepper_.load_parameters(local_.begun());  // finite: they were a model's
  return std::exchange(gathered_, {});
}

Result<> LocalTrainer::step_model(std::span<float> averaged, std::uint64_t epoch) {
  const auto stepped = local_.step(epoch, averaged.first(local_.carried()));
  statistics_.step(epoch, averaged.subspan(local_.carried()));
  epoch_ = epoch + 1;
  {
    const std::lock_guard lock(mutex_);
    to_adopt_ = true;
    if (silent_epochs_ > 0 && --silent_epochs_ == 0) silent_steps_ = 0;
  }
  if (stepped) {
    bad_steps_ = 0;
  } else {
    count_bad_step();
  }
  return stepped;
}

void LocalTrainer::count_bad_step() {
  if (++bad_steps_ < kBadStepsMax) return;
  throw Failure(ExitCode::training_stopped, fmt::format("{} outer steps in a row were not finite", bad_steps_),
                "lower the learning rates, and start from the last good checkpoint");
}

void LocalTrainer::adopt_model() {
  if (!std::exchange(to_adopt_, false)) return;
  std::vector<float> parameters(stepper_.parameters().begin(), stepper_.parameters().end());
  local_.adopt(parameters);
  statistics_.adopt();
  (void)stepper_.load_parameters(parameters);  // else the model stays where it was: see the guard of its own steps
}

bool LocalTrainer::adopts_now() const {
  return to_adopt_ && mode_.overlap > 0 && steps_beside_ >= mode_.overlap;
}

Digest LocalTrainer::parameter_hash() const {
  return state::parameter_hash(local_.agreed());
}

state::Snapshot LocalTrainer::copy_model(std::uint64_t epoch) const {
  state::Snapshot snapshot;
  snapshot.epoch = epoch;
  snapshot.sections.push_back(section(kParameters, local_.agreed()));
  snapshot.sections.push_back(section(kOptimizer, local_.momentum()));
  if (!statistics_.agreed().empty()) snapshot.sections.push_back(section(kStatistics, statistics_.agreed()));
  return snapshot;
}

Result<> LocalTrainer::load_model(const state::Snapshot& snapshot) {
  const auto* parameters = snapshot.find(kParameters);
  const auto* optimizer = snapshot.find(kOptimizer);
  if (parameters == nullptr || optimizer == nullptr) return Errc::bad_request;
  if (parameters->bytes.size() != local_.agreed().size_bytes()) return Errc::bad_request;
  if (optimizer->bytes.size() != local_.momentum().size_bytes()) return Errc::bad_request;
  const auto* statistics = snapshot.find(kStatistics);
  const std::size_t statistics_bytes = statistics == nullptr ? 0 : statistics->bytes.size();
  if (statistics_bytes != statistics_.agreed().size_bytes()) return Errc::bad_request;
  const std::vector<float> momentum = floats(optimizer->bytes);
  const std::vector<float> moments = statistics == nullptr ? std::vector<float>() : floats(statistics->bytes);
  if (!all_finite(momentum) || !all_finite(moments)) return Errc::bad_request;

  const std::lock_guard lock(mutex_);
  const auto loaded = stepper_.load_parameters(floats(parameters->bytes));
  if (!loaded) return loaded;
  local_.load(stepper_.parameters(), momentum);
  statistics_.load(moments, snapshot.epoch * mode_.epoch_steps());  // about so many have those whose mean it is
  moved_ = to_adopt_ = false;
  steps_beside_ = 0;
  silent_steps_ = mode_.inner_steps > 1 ? mode_.inner_steps : 0;
  silent_epochs_ = mode_.fragments;
  epoch_ = snapshot.epoch;
  return {};
}

Bytes LocalTrainer::own_state() const {
  Bytes moments;
  for (const auto moment : stepper_.moments()) append(moments, moment);
  FieldWriter writer;
  writer.add(stepper_.steps()).add_blob(moments);
  if (mode_.keeps_apart()) writer.add_blob(std::as_bytes(local_.begun()));
  return writer.finish();
}

Result<> LocalTrainer::load_own_state(std::span<const std::byte> bytes) {
  FieldReader reader(bytes);
  const auto steps = reader.take<std::uint64_t>();
  const auto moments = reader.take_blob();
  const auto place = mode_.keeps_apart() ? reader.take_blob() : std::as_bytes(stepper_.parameters());
  if (const auto whole = reader.finish(); !whole) return whole;
  if (place.size() != stepper_.parameters().size_bytes()) return Errc::bad_request;
  if (moments.size() + place.size() != stepper_.state_schema().values() * sizeof(float)) return Errc::bad_request;
  std::vector<float> all = floats(place);
  const std::vector<float> found = floats(moments);
  all.insert(all.end(), found.begin(), found.end());
  const auto loaded = stepper_.load_state(all, steps);
  if (!loaded) return loaded;
  local_.begin_at(stepper_.parameters());
  silent_steps_ = silent_epochs_ = 0;
  return {};
}

}  // namespace collab::optim
