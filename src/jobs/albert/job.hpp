#pragma once
// The sahajBERT job: ALBERT on prepared text.

#include "data/prepared.hpp"
#include "jobs/albert/model.hpp"
#include "optim/factory.hpp"
#include "optim/job.hpp"
#include "recipes/recipe.hpp"

#include <memory>
#include <string>

namespace collab::jobs {

class AlbertJob : public optim::Job {
 public:
  /// `tokenizer`: the model file's bytes, for the export. `text` is shared with whoever else reads it.
  /// Throws `Failure(data)` when the text was prepared for another vocabulary or longer samples than the recipe's.
  AlbertJob(const recipes::Recipe& recipe, std::shared_ptr<const data::Prepared> text, std::string tokenizer,
            c10::Device device);

  optim::Loss gradients(std::span<const optim::Unit> units) override;
  std::uint64_t units_per_pass() const override { return text_->windows(data::Part::train); }
  torch::nn::Module& module() override { return model_.module(); }
  /// mlm_loss, mlm_accuracy, sop_loss, sop_accuracy of the held-out text, and unigram_loss to compare with. Empty when
  /// no text is held out.
  std::vector<optim::Score> evaluate() override;
  /// Writes the present parameters as a folder that other programs open, all of it or nothing. `facts`: what to note
  /// beside them (epoch, run, root). Throws `Failure(machine)` when the disk refuses.
  void export_to(const std::filesystem::path& folder, const std::vector<std::pair<std::string, std::string>>& facts);

  const AlbertModel& model() const noexcept { return model_; }

 private:
  recipes::Recipe recipe_;
  std::shared_ptr<const data::Prepared> text_;
  std::string tokenizer_;
  AlbertModel model_;
};

/// The recipe's optimizer, and its settings for a stepper.
optim::LambOptions lamb_options(const recipes::Recipe& recipe);

}  // namespace collab::jobs
