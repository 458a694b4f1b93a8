#include "jobs/albert/job.hpp"

#include "base/error.hpp"
#include "data/order.hpp"
#include "jobs/albert/evaluate.hpp"
#include "jobs/albert/export.hpp"
#include "optim/flatten.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>

namespace collab::jobs {

AlbertJob::AlbertJob(const recipes::Recipe& recipe, std::shared_ptr<const data::Prepared> text, std::string tokenizer,
                     c10::Device device)
    : recipe_(recipe), text_(std::move(text)), tokenizer_(std::move(tokenizer)), model_(recipe, device) {
  if (text_->vocabulary() != recipe_.model.vocabulary || text_->sequence() > recipe_.data.sequence)
    throw Failure(ExitCode::data,
                  "the text was prepared with vocabulary " + std::to_string(text_->vocabulary()) + " and samples of " +
                      std::to_string(text_->sequence()) + " tokens, the run has " +
                      std::to_string(recipe_.model.vocabulary) + " and " + std::to_string(recipe_.data.sequence),
                  "prepare the text with the run's tokenizer and sequence");
}

optim::Loss AlbertJob::gradients(std::span<const optim::Unit> units) {
  optim::Loss sum;
  sum.samples = units.size();
  sum.mlm = 0;
  const auto windows = text_->windows(data::Part::train);
  while (!units.empty()) {
    const auto now = units.first(std::min<std::size_t>(units.size(), recipe_.microbatch));
    units = units.subspan(now.size());
    std::vector<Sample> samples;
    for (const optim::Unit& unit : now) {
      const auto place = data::sample_of_unit(unit.index, windows, unit.seed);
      samples.push_back(make_sample(text_->window(data::Part::train, place.window), place.seed, text_->vocabulary()));
    }
    const Batch batch = make_batch(samples, model_.device());
    const Losses losses = loss(model_.forward(batch), batch);
    const double share = static_cast<double>(now.size()) / static_cast<double>(sum.samples);
    (now.size() == sum.samples ? losses.total : losses.total * share).backward();
    sum.mlm += share * losses.mlm.item<double>();
    sum.sop += share * losses.sop.item<double>();
  }
  sum.total = sum.mlm + sum.sop;
  return sum;
}

std::vector<optim::Score> AlbertJob::evaluate() {
  if (text_->windows(data::Part::held_out) == 0) return {};
  EvaluateOptions options;
  options.microbatch = recipe_.microbatch;
  const Evaluation found = jobs::evaluate(model_, *text_, data::Part::held_out, options);
  return {{"mlm_loss", found.mlm_loss},
          {"mlm_accuracy", found.mlm_accuracy},
          {"sop_loss", found.sop_loss},
          {"sop_accuracy", found.sop_accuracy},
          {"unigram_loss", unigram_loss(*text_, data::Part::held_out)}};
}

void AlbertJob::export_to(const std::filesystem::path& folder,
                          const std::vector<std::pair<std::string, std::string>>& facts) {
  export_model(folder, recipe_, optim::named_parameters(model_.module()), tokenizer_, facts);
}

optim::LambOptions lamb_options(const recipes::Recipe& recipe) {
  const auto& settings = recipe.optimizer;
  return {recipe.schedule.learning_rate, settings.beta1, settings.beta2, settings.epsilon,
          settings.weight_decay,         settings.clamp};
}

}  // namespace collab::jobs
