#pragma once
// A peer that trains by formula: gradients of a quadratic, momentum steps, and a ledger of which samples are where.

#include "epoch/gradient_accumulator.hpp"
#include "epoch/trainer.hpp"
#include "sim/disk.hpp"
#include "sim/plant.hpp"
#include "sim/quadratic.hpp"
#include "sim/witness.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace collab::sim {

struct StepOptions {
  double rate = 0.1;
  double momentum = 0.5;
};

/// Parameters, momentum and epoch are its disk: they outlive a killed process. Samples do not.
/// Every step is the same bits everywhere: float64 in fixed order, rounded once per value.
class SimTrainer final : public epoch::Trainer {
 public:
  /// `problem` and `witness` outlive it. `peer`: its number in the swarm, part of its samples' ids.
  SimTrainer(const Quadratic& problem, StepOptions options, std::size_t peer, Plant plant, Witness& witness);

  /// One microbatch on the present parameters, of samples that nobody else has.
  void compute(std::uint64_t samples);
  /// The same of leased units: a sample each, with the unit's number, so that two peers may compute the same one.
  void compute(const Work& units);
  /// A new process: samples in hand are lost. `blank`: the disk as well.
  void reboot(bool blank);
  /// A new process that begins with what was saved.
  void reboot(const SavedState& saved);
  SavedState to_save() const { return {epoch_, parameters_, momentum_, ledger()}; }

  /// One parameter changes. Returns the hash of all.
  Digest spoil();
  /// Its ledger gets a unit that nobody has computed.
  void spoil_ledger();

  std::uint64_t epoch() const noexcept override { return epoch_; }
  std::span<const float> parameters() const noexcept { return parameters_; }
  /// Samples gathered and not handed over.
  std::span<const SampleRun> gathered() const noexcept { return gathered_; }

  std::size_t values() const override { return parameters_.size(); }
  std::uint64_t samples() const override { return accumulator_.samples(); }
  Gathered hand_over(std::vector<float>& values) override;
  std::uint64_t give_back(std::span<const float> values, const Gathered& behind) override;
  bool hands_on() const override { return true; }
  Gathered hand_on(std::vector<float>& values) override;
  bool take_on(std::span<const float> values, const Gathered& behind, const PeerId& from,
               std::size_t ranges_max) override;
  Gathered drop() override;
  Result<> step(std::span<float> averaged, std::uint64_t epoch) override;
  void adopt() override { model_ = parameters_; }
  Digest parameter_hash() const override;
  double loss() const override { return problem_.loss(parameters_); }

 private:
  state::Snapshot copy_state(std::uint64_t epoch) const override;
  Result<> load_state(const state::Snapshot& snapshot) override;
  bool add(WorkRange samples, const Work& units);
  void move(std::span<const float> gradient);

  const Quadratic& problem_;
  StepOptions options_;
  std::size_t peer_;
  Plant plant_;
  Witness& witness_;
  std::vector<float> parameters_;
  std::vector<float> model_;  // what microbatches are computed on
  std::vector<float> momentum_;
  std::uint64_t epoch_ = 0;
  std::uint64_t next_sample_;
  epoch::GradientAccumulator accumulator_;
  bool in_round_ = false;  // what was handed over is neither in a step nor back
  std::vector<SampleRun> gathered_;
  std::vector<SampleRun> handed_over_;
  std::vector<float> scratch_;
};

}  // namespace collab::sim
