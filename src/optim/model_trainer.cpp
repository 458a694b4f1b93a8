#include "optim/model_trainer.hpp"

#include "base/error.hpp"
#include "data/ledger.hpp"
#include "optim/gradient_trainer.hpp"
#include "optim/local_trainer.hpp"
#include "optim/sections.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

namespace collab::optim {
namespace {

constexpr std::uint64_t kBesidesBytesMax = std::uint64_t(1) << 20U;  // schedule and ledger
static_assert(data::kLedgerBytesMax < kBesidesBytesMax / 2);

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

std::unique_ptr<ModelTrainer> make_trainer(Stepper& stepper, const node::Mode& mode) {
  if (mode.average == node::Mode::Average::gradients) return std::make_unique<GradientTrainer>(stepper);
  return std::make_unique<LocalTrainer>(stepper, mode);
}

void ModelTrainer::track(std::string name, at::Tensor tensor) {
  const std::lock_guard lock(mutex_);
  extras_.track(std::move(name), std::move(tensor));
  make_room();
}

Microbatch ModelTrainer::add_microbatch(const Gathered& behind, double loss, double scale) {
  std::unique_lock lock(mutex_);
  const Microbatch added = add(behind, scale);
  stepper_.clear_gradients();
  extras_.collect();
  if (added != Microbatch::dropped && std::isfinite(loss)) {
    loss_.sum += loss * static_cast<double>(behind.samples);
    loss_.samples += behind.samples;
  }
  const bool adopts = adopts_now();
  lock.unlock();
  if (adopts) adopt();
  return added;
}

std::uint64_t ModelTrainer::samples() const {
  const std::lock_guard lock(mutex_);
  return gathered();
}

Gathered ModelTrainer::hand_over(std::vector<float>& values) {
  const std::lock_guard lock(mutex_);
  handed_over_ = std::exchange(loss_, {});
  Gathered behind = give(values);
  extras_.hand_over(std::span(values).subspan(carried()));
  return behind;
}

std::uint64_t ModelTrainer::give_back(std::span<const float> values, const Gathered& behind) {
  const std::lock_guard lock(mutex_);
  loss_.sum += handed_over_.sum;
  loss_.samples += handed_over_.samples;
  handed_over_ = {};
  return take_back(values.first(carried()), behind);
}

Gathered ModelTrainer::drop() {
  const std::lock_guard lock(mutex_);
  loss_ = {};
  return forget();
}

Result<> ModelTrainer::step(std::span<float> averaged, std::uint64_t epoch) {
  {
    const std::lock_guard lock(mutex_);
    extras_.step(averaged.subspan(carried()));
  }
  return step_model(averaged.first(carried()), epoch);
}

void ModelTrainer::adopt() {
  const auto alone = still();
  const std::lock_guard lock(mutex_);
  extras_.adopt();
  adopt_model();
}

state::Snapshot ModelTrainer::copy_state(std::uint64_t epoch) const {
  state::Snapshot snapshot = copy_model(epoch);
  if (!tracked().empty()) snapshot.sections.push_back({kExtra, extras_.state()});
  return snapshot;
}

Result<> ModelTrainer::load_state(const state::Snapshot& snapshot) {
  const state::Section* extra = snapshot.find(kExtra);
  if (extra == nullptr ? !tracked().empty() : !extras_.fits(extra->bytes)) return Errc::bad_request;
  if (const auto loaded = load_model(snapshot); !loaded) return loaded;
  const std::lock_guard lock(mutex_);
  if (extra != nullptr) extras_.load(extra->bytes);
  return {};
}

double ModelTrainer::loss() const {
  const std::lock_guard lock(mutex_);
  if (loss_.samples == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss_.sum / static_cast<double>(loss_.samples);
}

Result<> ModelTrainer::load_own_state(std::span<const std::byte> bytes) {
  if (!bytes.empty()) return Errc::bad_request;
  return {};
}

}  // namespace collab::optim
