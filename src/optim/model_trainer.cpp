#include "optim/model_trainer.hpp"

#include "base/error.hpp"
#include "data/ledger.hpp"
#include "optim/gradient_trainer.hpp"
#include "optim/local_trainer.hpp"

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

Microbatch ModelTrainer::add_microbatch(const Gathered& behind, double loss, double scale) {
  std::unique_lock lock(mutex_);
  const Microbatch added = add(behind, scale);
  stepper_.clear_gradients();
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
  return give(values);
}

std::uint64_t ModelTrainer::give_back(std::span<const float> values, const Gathered& behind) {
  const std::lock_guard lock(mutex_);
  loss_.sum += handed_over_.sum;
  loss_.samples += handed_over_.samples;
  handed_over_ = {};
  return take_back(values, behind);
}

Gathered ModelTrainer::drop() {
  const std::lock_guard lock(mutex_);
  loss_ = {};
  return forget();
}

void ModelTrainer::adopt() {
  const auto alone = still();
  const std::lock_guard lock(mutex_);
  adopt_model();
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
