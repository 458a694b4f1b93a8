#pragma once
// ALBERT (arXiv:1909.11942) with its two heads: masked words and sentence order.

#include "jobs/albert/batch.hpp"
#include "recipes/albert.hpp"

#include <ATen/core/Tensor.h>

#include <memory>

namespace torch::nn {
class Module;
}

namespace collab::jobs {

/// LayerNorm's, as in `config.json`.
inline constexpr double kLayerNormEpsilon = 1e-12;

/// Post-norm, one layer's parameters used `layers` times, word embeddings tied to the decoder, `gelu_new`, no dropout:
/// computes what `AlbertForPreTraining` of transformers computes from the exported file.
class AlbertModel {
 public:
  /// With the parameters of epoch 0 (`recipes::initial_parameters`).
  AlbertModel(const recipes::Recipe& recipe, c10::Device device);

  struct Logits {
    at::Tensor words;  ///< [M, vocabulary]: of the masked rows only; the others would cost most of the time
    at::Tensor order;  ///< [B, 2]
  };
  Logits forward(const Batch& batch) const;

  /// Parameters under the names, and in the order, of `recipes::albert_schema`.
  torch::nn::Module& module() const noexcept { return *module_; }
  c10::Device device() const noexcept { return device_; }

 private:
  struct Linear {
    at::Tensor weight, bias;
  };
  struct Norm {
    at::Tensor weight, bias;
  };
  struct Layer {
    Linear query, key, value, dense, ffn, ffn_output;
    Norm attention_norm, full_norm;
  };

  static at::Tensor apply(const Linear& linear, const at::Tensor& input);
  static at::Tensor apply(const Norm& norm, const at::Tensor& input);
  at::Tensor attention(const at::Tensor& hidden, const Linear& query_key_value, const Batch& batch) const;

  recipes::ModelSizes sizes_;
  c10::Device device_;
  std::shared_ptr<torch::nn::Module> module_;
  at::Tensor words_, positions_, types_, decoder_bias_;
  Norm embedding_norm_, head_norm_;
  Linear mapping_, pooler_, head_dense_, order_;
  Layer layer_;
};

struct Losses {
  at::Tensor total, mlm, sop;  ///< scalars; total = mlm + sop
};

/// Mean over samples of (mean over the sample's blanks + sentence order, where it has one).
Losses loss(const AlbertModel::Logits& logits, const Batch& batch);

}  // namespace collab::jobs
