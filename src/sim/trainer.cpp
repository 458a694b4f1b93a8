#include "sim/trainer.hpp"

#include "tensor/view.hpp"

#include <cstring>
#include <utility>

namespace collab::sim {
namespace {

constexpr const char* kParameters = "parameters";
constexpr const char* kMomentum = "optimizer";
constexpr float kKept = 1e-3F;  // what the planted bug keep_partial leaves of a failed round

state::Section section(const char* name, std::span<const float> values) {
  const auto raw = std::as_bytes(values);
  return {name, Bytes(raw.begin(), raw.end())};
}

}  // namespace

SimTrainer::SimTrainer(const Quadratic& problem, StepOptions options, std::size_t peer, Plant plant, Witness& witness)
    : problem_(problem),
      options_(options),
      peer_(peer),
      plant_(plant),
      witness_(witness),
      parameters_(problem.start()),
      model_(parameters_),
      momentum_(problem.values(), 0.0F),
      next_sample_(std::uint64_t(peer) << 40U),
      accumulator_(problem.values()),
      scratch_(problem.values()) {}

bool SimTrainer::add(WorkRange samples, const Work& units) {
  problem_.gradient(model_, samples.first, samples.count, scratch_);
  const FlatPiece whole{0, scratch_};
  const Gathered behind{samples.count, units};
  if (!accumulator_.add(std::span(&whole, 1), behind)) return false;
  const std::uint64_t counts_in = in_round_ ? epoch_ + 1 : epoch_;
  const bool goes_on = !gathered_.empty() && gathered_.back().epoch == counts_in &&
                       gathered_.back().first + gathered_.back().count == samples.first;
  if (goes_on) {
    gathered_.back().count += samples.count;
  } else {
    gathered_.push_back({samples.first, samples.count, counts_in});
  }
  return true;
}

void SimTrainer::compute(std::uint64_t samples) {
  (void)add({next_sample_, samples}, Work());  // else they were not finite, and count for nothing
  next_sample_ += samples;
}

void SimTrainer::compute(const Work& units) {
  for (const WorkRange& range : units.ranges()) (void)add(range, Work(range));
}

void SimTrainer::reboot(bool blank) {
  accumulator_.drop();
  gathered_.clear();
  handed_over_.clear();
  in_round_ = false;
  model_ = parameters_;
  if (!blank) return;
  ledger() = {};
  model_ = parameters_ = problem_.start();
  momentum_.assign(momentum_.size(), 0.0F);
  epoch_ = 0;
}

void SimTrainer::reboot(const SavedState& saved) {
  reboot(false);
  ledger() = saved.ledger;
  model_ = parameters_ = saved.parameters;
  momentum_ = saved.momentum;
  epoch_ = saved.epoch;
  witness_.restored(peer_, epoch_, parameter_hash());
}

Gathered SimTrainer::hand_over(std::vector<float>& values) {
  handed_over_ = std::exchange(gathered_, {});
  in_round_ = true;
  Gathered behind = accumulator_.hand_over(values);
  witness_.handed_over({peer_, epoch_, behind.samples, values, handed_over_, parameter_hash()});
  return behind;
}

std::uint64_t SimTrainer::give_back(std::span<const float> values, const Gathered& behind) {
  const std::uint64_t lost = accumulator_.give_back(values, behind);
  in_round_ = false;
  for (SampleRun& run : gathered_) run.epoch = epoch_;
  if (lost > 0) {
    witness_.dropped(peer_, handed_over_);
  } else {
    gathered_.insert(gathered_.begin(), handed_over_.begin(), handed_over_.end());
  }
  handed_over_.clear();
  if (plant_ == Plant::keep_partial) {
    for (std::size_t i = 0; i < values.size() / 2; ++i) parameters_[i] -= kKept * values[i];
  }
  witness_.gave_back(peer_, values, behind.samples, parameter_hash());
  return lost;
}

Gathered SimTrainer::hand_on(std::vector<float>& values) {
  Gathered behind = accumulator_.hand_over(values);
  witness_.handed_on({peer_, epoch_, behind.samples, values, gathered_, parameter_hash()});
  gathered_.clear();
  return behind;
}

bool SimTrainer::take_on(std::span<const float> values, const Gathered& behind, const PeerId& from,
                         std::size_t ranges_max) {
  if (!accumulator_.take_on(values, behind, ranges_max)) return false;
  const auto samples = witness_.taken_on(peer_, from, behind.samples, values);
  gathered_.insert(gathered_.end(), samples.begin(), samples.end());
  return true;
}

Gathered SimTrainer::drop() {
  if (plant_ == Plant::sum_twice) return {};
  witness_.dropped(peer_, gathered_);
  gathered_.clear();
  return accumulator_.drop();
}

void SimTrainer::move(std::span<const float> gradient) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    momentum_[i] = static_cast<float>(options_.momentum * momentum_[i] + gradient[i]);
    parameters_[i] = static_cast<float>(parameters_[i] - options_.rate * momentum_[i]);
  }
}

Result<> SimTrainer::step(std::span<float> averaged, std::uint64_t epoch) {
  epoch_ = epoch + 1;
  if (!all_finite(averaged)) return Errc::bad_request;
  const Digest before = parameter_hash();
  move(averaged);
  handed_over_.clear();
  in_round_ = false;
  witness_.stepped({peer_, epoch, averaged, before, parameter_hash()});
  return Result<>();
}

Digest SimTrainer::spoil() {
  parameters_[parameters_.size() / 2] += 1;
  adopt();
  return parameter_hash();
}

void SimTrainer::spoil_ledger() {
  (void)ledger().add(Work({ledger().first_free() + 1'000'000, 1}));
}

Digest SimTrainer::parameter_hash() const {
  return state::parameter_hash(parameters_);
}

state::Snapshot SimTrainer::copy_state(std::uint64_t epoch) const {
  state::Snapshot snapshot;
  snapshot.epoch = epoch;
  snapshot.sections.push_back(section(kParameters, parameters_));
  snapshot.sections.push_back(section(kMomentum, momentum_));
  return snapshot;
}

Result<> SimTrainer::load_state(const state::Snapshot& snapshot) {
  const std::size_t bytes = parameters_.size() * sizeof(float);
  const auto* parameters = snapshot.find(kParameters);
  const auto* momentum = snapshot.find(kMomentum);
  if (parameters == nullptr || momentum == nullptr) return Errc::bad_request;
  if (parameters->bytes.size() != bytes || momentum->bytes.size() != bytes) return Errc::bad_request;
  std::memcpy(parameters_.data(), parameters->bytes.data(), bytes);
  std::memcpy(momentum_.data(), momentum->bytes.data(), bytes);
  epoch_ = snapshot.epoch;
  in_round_ = false;
  adopt();
  witness_.restored(peer_, epoch_, parameter_hash());
  return Result<>();
}

}  // namespace collab::sim
