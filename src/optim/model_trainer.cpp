#include "optim/model_trainer.hpp"

#include "base/error.hpp"
#include "crypto/fields.hpp"
#include "data/ledger.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace collab::optim {
namespace {

constexpr const char* kParameters = "parameters";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kSchedule = "schedule";
constexpr std::uint64_t kBesidesBytesMax = std::uint64_t(1) << 20U;  // schedule and ledger
static_assert(data::kLedgerBytesMax < kBesidesBytesMax / 2);

void append(Bytes& bytes, std::span<const float> values) {
  const auto raw = std::as_bytes(values);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

}  // namespace

void check_size(const Schema& state) {
  constexpr std::uint64_t kBytesMax = state::kIndexedBytesMax - kBesidesBytesMax;
  if (state.values() <= kBytesMax / sizeof(float)) return;
  const double gib = static_cast<double>(state.values()) * sizeof(float) / (1U << 30U);
  throw Failure(ExitCode::usage,
                fmt::format("parameters and moments take {:.1f} GiB: a joiner can be given less than {} GiB", gib,
                            state::kIndexedBytesMax >> 30U),
                "a smaller model, or an optimizer with fewer moments");
}

bool ModelTrainer::add_microbatch(const Gathered& behind, double loss, double scale) {
  const std::lock_guard lock(mutex_);
  const bool finite = gathered_.add(stepper_.gradient_pieces(), behind, scale);
  stepper_.clear_gradients();
  if (finite && std::isfinite(loss)) {
    loss_.sum += loss * static_cast<double>(behind.samples);
    loss_.samples += behind.samples;
  }
  return finite;
}

std::uint64_t ModelTrainer::samples() const {
  const std::lock_guard lock(mutex_);
  return gathered_.samples();
}

Gathered ModelTrainer::hand_over(std::vector<float>& values) {
  const std::lock_guard lock(mutex_);
  handed_over_ = std::exchange(loss_, {});
  return gathered_.hand_over(values);
}

std::uint64_t ModelTrainer::give_back(std::span<const float> values, const Gathered& behind) {
  const std::lock_guard lock(mutex_);
  loss_.sum += handed_over_.sum;
  loss_.samples += handed_over_.samples;
  handed_over_ = {};
  return gathered_.give_back(values, behind);
}

Gathered ModelTrainer::drop() {
  const std::lock_guard lock(mutex_);
  loss_ = {};
  return gathered_.drop();
}

Result<> ModelTrainer::step(std::span<float> averaged, std::uint64_t epoch) {
  const StepReport report = stepper_.step(averaged, epoch);
  epoch_ = epoch + 1;
  if (report.outcome != StepOutcome::stepped) return Errc::bad_request;
  return Result<>();
}

void ModelTrainer::adopt() {
  const auto alone = still();
  stepper_.adopt();
}

Digest ModelTrainer::parameter_hash() const {
  return state::parameter_hash(stepper_.parameters());
}

state::Snapshot ModelTrainer::copy_state(std::uint64_t epoch) const {
  state::Section parameters{kParameters, {}};
  append(parameters.bytes, stepper_.parameters());
  state::Section optimizer{kOptimizer, {}};
  const auto tensors = stepper_.state();  // parameters, then moments
  for (std::size_t i = stepper_.schema().tensors.size(); i < tensors.size(); ++i) append(optimizer.bytes, tensors[i]);
  FieldWriter schedule;
  schedule.add(stepper_.steps());

  state::Snapshot snapshot;
  snapshot.epoch = epoch;
  snapshot.sections.push_back(std::move(parameters));
  snapshot.sections.push_back(std::move(optimizer));
  snapshot.sections.push_back({kSchedule, schedule.finish()});
  return snapshot;
}

Result<> ModelTrainer::load_state(const state::Snapshot& snapshot) {
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

double ModelTrainer::loss() const {
  const std::lock_guard lock(mutex_);
  if (loss_.samples == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss_.sum / static_cast<double>(loss_.samples);
}

}  // namespace collab::optim
