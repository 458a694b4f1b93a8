#pragma once
// Samples as tensors, without padding where it would cost work.

#include "jobs/albert/masking.hpp"

#include <ATen/core/Tensor.h>

#include <span>

namespace collab::jobs {

/// B samples with T tokens together and M blanks. Tokens of all samples lie in one row ("packed"), so everything that
/// works token by token does no work on padding; only attention sees a rectangle of B x S, S the longest sample.
struct Batch {
  at::Tensor tokens, positions, types;  ///< int64 [T]
  at::Tensor to_rectangle;              ///< int64 [B * S]: packed row of each place; for padding some row, unused
  at::Tensor to_packed;                 ///< int64 [T]: place in the rectangle of each packed row
  at::Tensor attention_mask;            ///< float32 [B, 1, 1, S]: 0, or -inf on padding; undefined when there is none
  at::Tensor masked_rows, labels;       ///< int64 [M]
  at::Tensor mlm_weights;               ///< float32 [M]: 1 / (blanks of the sample * B)
  at::Tensor first_rows;                ///< int64 [B]: where the [CLS] are
  at::Tensor sop_labels;                ///< int64 [B]: 1 = swapped
  at::Tensor sop_weights;               ///< float32 [B]: 1 / B, or 0 for samples without an order
  std::int64_t samples = 0;             ///< B
  std::int64_t longest = 0;             ///< S
};

/// `samples` is not empty.
Batch make_batch(std::span<const Sample> samples, c10::Device device);

}  // namespace collab::jobs
