#pragma once
// How good the model is on text that nobody trains on.

#include "data/prepared.hpp"
#include "jobs/albert/model.hpp"

#include <cstdint>

namespace collab::jobs {

struct Evaluation {
  double mlm_loss = 0;      ///< mean over all blanks, nats; 0 when there were none
  double mlm_accuracy = 0;  ///< share of the blanks whose likeliest piece is the right one
  double sop_loss = 0;      ///< mean over the samples with an order, nats
  double sop_accuracy = 0;
  std::uint64_t samples = 0;
  std::uint64_t blanks = 0;
};

struct EvaluateOptions {
  std::uint32_t microbatch = 16;
  std::uint64_t samples_max = 1024;  ///< of more windows, as many evenly spaced ones: bounds the time it takes
};

/// Masks and splits follow from the window's index, so every evaluation of every peer asks the same questions.
Evaluation evaluate(const AlbertModel& model, const data::Prepared& text, data::Part part, EvaluateOptions options);

/// Cross-entropy, in nats, of `part`'s tokens under the training text's frequencies, each count plus one: what a model
/// reaches that knows how frequent pieces are and nothing about what stands around them. 0 when the part is empty.
double unigram_loss(const data::Prepared& text, data::Part part);

}  // namespace collab::jobs
