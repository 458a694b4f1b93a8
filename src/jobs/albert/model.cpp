#include "jobs/albert/model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

namespace collab::jobs {
namespace {

/// A module that only holds parameters and further modules: it gives parameters their dotted names.
class Folder : public torch::nn::Module {
 public:
  /// Registers `tensor` under `path`, making folders on the way.
  void put(const std::string& path, const at::Tensor& tensor) {
    const auto dot = path.find('.');
    if (dot == std::string::npos) {
      register_parameter(path, tensor);
      return;
    }
    auto& folder = folders_[path.substr(0, dot)];
    if (!folder) folder = register_module(path.substr(0, dot), std::make_shared<Folder>());
    folder->put(path.substr(dot + 1), tensor);
  }

 private:
  std::map<std::string, std::shared_ptr<Folder>> folders_;
};

using Tensors = std::map<std::string, at::Tensor>;

Tensors first_tensors(const recipes::Recipe& recipe, c10::Device device) {
  const at::NoGradGuard no_grad;
  at::Tensor flat = at::empty({static_cast<std::int64_t>(recipes::parameter_values(recipe))}, at::kFloat);
  recipes::initial_parameters(recipe, {flat.mutable_data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
  Tensors tensors;
  std::int64_t offset = 0;
  for (const TensorInfo& info : recipes::albert_schema(recipe).tensors) {
    const auto size = static_cast<std::int64_t>(info.values());
    const at::Tensor values = flat.narrow(0, offset, size).view(info.shape).clone().to(device);
    tensors[info.name] = values.requires_grad_();
    offset += size;
  }
  return tensors;
}

at::Tensor gelu_new(const at::Tensor& input) {
  return at::gelu(input, "tanh");
}

}  // namespace

AlbertModel::AlbertModel(const recipes::Recipe& recipe, c10::Device device) : sizes_(recipe.model), device_(device) {
  const Tensors tensors = first_tensors(recipe, device);
  const auto folder = std::make_shared<Folder>();
  for (const TensorInfo& info : recipes::albert_schema(recipe).tensors) folder->put(info.name, tensors.at(info.name));
  module_ = folder;

  const auto linear = [&](const std::string& name) {
    return Linear{tensors.at(name + ".weight"), tensors.at(name + ".bias")};
  };
  const auto norm = [&](const std::string& name) {
    return Norm{tensors.at(name + ".weight"), tensors.at(name + ".bias")};
  };
  const std::string embeddings = "albert.embeddings.";
  words_ = tensors.at(embeddings + "word_embeddings.weight");
  positions_ = tensors.at(embeddings + "position_embeddings.weight");
  types_ = tensors.at(embeddings + "token_type_embeddings.weight");
  embedding_norm_ = norm(embeddings + "LayerNorm");
  mapping_ = linear("albert.encoder.embedding_hidden_mapping_in");
  const std::string layer = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  layer_ = {linear(layer + "attention.query"),
            linear(layer + "attention.key"),
            linear(layer + "attention.value"),
            linear(layer + "attention.dense"),
            linear(layer + "ffn"),
            linear(layer + "ffn_output"),
            norm(layer + "attention.LayerNorm"),
            norm(layer + "full_layer_layer_norm")};
  pooler_ = linear("albert.pooler");
  decoder_bias_ = tensors.at("predictions.bias");
  head_norm_ = norm("predictions.LayerNorm");
  head_dense_ = linear("predictions.dense");
  order_ = linear("sop_classifier.classifier");
}

at::Tensor AlbertModel::apply(const Linear& linear, const at::Tensor& input) {
  return at::linear(input, linear.weight, linear.bias);
}

at::Tensor AlbertModel::apply(const Norm& norm, const at::Tensor& input) {
  return at::layer_norm(input, {input.size(-1)}, norm.weight, norm.bias, kLayerNormEpsilon);
}

at::Tensor AlbertModel::attention(const at::Tensor& hidden, const Linear& query_key_value, const Batch& batch) const {
  at::Tensor mixed = apply(query_key_value, hidden);  // [T, 3H]: one product instead of three
  const bool padded = batch.attention_mask.defined();
  if (padded) mixed = at::index_select(mixed, 0, batch.to_rectangle);
  const std::int64_t heads = sizes_.heads, width = sizes_.hidden / sizes_.heads;
  const auto parts = mixed.view({batch.samples, batch.longest, 3, heads, width}).permute({2, 0, 3, 1, 4}).unbind(0);
  std::optional<at::Tensor> mask;
  if (padded) mask = batch.attention_mask;
  const at::Tensor seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], mask);  // [B, heads, S, width]
  const at::Tensor rows = seen.transpose(1, 2).reshape({batch.samples * batch.longest, heads * width});
  return padded ? at::index_select(rows, 0, batch.to_packed) : rows;
}

AlbertModel::Logits AlbertModel::forward(const Batch& batch) const {
  const at::Tensor embedded = at::embedding(words_, batch.tokens) + at::embedding(positions_, batch.positions) +
                              at::embedding(types_, batch.types);
  at::Tensor hidden = apply(mapping_, apply(embedding_norm_, embedded));  // [T, H]
  const Linear query_key_value = {at::cat({layer_.query.weight, layer_.key.weight, layer_.value.weight}),
                                  at::cat({layer_.query.bias, layer_.key.bias, layer_.value.bias})};
  for (std::uint32_t i = 0; i < sizes_.layers; ++i) {
    const at::Tensor mixed = apply(layer_.dense, attention(hidden, query_key_value, batch));
    const at::Tensor attended = apply(layer_.attention_norm, hidden + mixed);
    const at::Tensor widened = gelu_new(apply(layer_.ffn, attended));
    hidden = apply(layer_.full_norm, apply(layer_.ffn_output, widened) + attended);
  }
  const at::Tensor blanks = at::index_select(hidden, 0, batch.masked_rows);
  const at::Tensor guesses = apply(head_norm_, gelu_new(apply(head_dense_, blanks)));
  const at::Tensor pooled = at::tanh(apply(pooler_, at::index_select(hidden, 0, batch.first_rows)));
  return {at::linear(guesses, words_, decoder_bias_), apply(order_, pooled)};
}

Losses loss(const AlbertModel::Logits& logits, const Batch& batch) {
  const auto weighted = [](const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& weights) {
    return at::dot(at::cross_entropy_loss(scores, labels, {}, at::Reduction::None), weights);
  };
  Losses losses;
  losses.mlm = weighted(logits.words, batch.labels, batch.mlm_weights);
  losses.sop = weighted(logits.order, batch.sop_labels, batch.sop_weights);
  losses.total = losses.mlm + losses.sop;
  return losses;
}

}  // namespace collab::jobs
