#include "jobs/albert/evaluate.hpp"

#include "base/random.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace collab::jobs {
namespace {

struct Sums {
  double loss = 0;
  double right = 0;
  double count = 0;
};

/// Adds the questions whose weight is not 0.
void add(Sums& sums, const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& weights) {
  if (labels.numel() == 0) return;
  const at::Tensor asked = weights.gt(0).to(at::kDouble);
  const at::Tensor losses = at::cross_entropy_loss(scores, labels, {}, at::Reduction::None);
  sums.loss += (losses.to(at::kDouble) * asked).sum().item<double>();
  sums.right += (at::argmax(scores, 1).eq(labels).to(at::kDouble) * asked).sum().item<double>();
  sums.count += asked.sum().item<double>();
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

}  // namespace

Evaluation evaluate(const AlbertModel& model, const data::Prepared& text, data::Part part, EvaluateOptions options) {
  const at::NoGradGuard no_grad;
  const std::uint64_t windows = text.windows(part);
  const std::uint64_t count = std::min(windows, options.samples_max);
  Sums words, order;
  std::vector<Sample> samples;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t index = i * windows / count;
    const std::uint64_t seed = Random(index).derive("evaluate").next();
    samples.push_back(make_sample(text.window(part, index), seed, text.vocabulary()));
    if (samples.size() < options.microbatch && i + 1 < count) continue;
    const Batch batch = make_batch(samples, model.device());
    const auto logits = model.forward(batch);
    add(words, logits.words, batch.labels, batch.mlm_weights);
    add(order, logits.order, batch.sop_labels, batch.sop_weights);
    samples.clear();
  }
  return {ratio(words.loss, words.count),
          ratio(words.right, words.count),
          ratio(order.loss, order.count),
          ratio(order.right, order.count),
          count,
          static_cast<std::uint64_t>(words.count)};
}

double unigram_loss(const data::Prepared& text, data::Part part) {
  const auto known = text.counts(data::Part::train);
  const auto asked = text.counts(part);
  double total = 0;
  for (const std::uint64_t count : known) total += static_cast<double>(count) + 1;
  double loss = 0, tokens = 0;
  for (std::size_t id = 0; id < asked.size(); ++id) {
    loss -= static_cast<double>(asked[id]) * std::log((static_cast<double>(known[id]) + 1) / total);
    tokens += static_cast<double>(asked[id]);
  }
  return ratio(loss, tokens);
}

}  // namespace collab::jobs
