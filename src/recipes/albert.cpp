#include "recipes/albert.hpp"

#include "base/random.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cassert>

namespace collab::recipes {
namespace {

/// Calls `visit(name, shape)` for each tensor in order; the shape has one or two entries.
template <class Visit>
void for_each_tensor(const ModelSizes& sizes, Visit visit) {
  const std::int64_t v = sizes.vocabulary, e = sizes.embedding, h = sizes.hidden, f = sizes.intermediate;
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    visit(name + ".weight", std::vector{out, in});
    visit(name + ".bias", std::vector{out});
  };
  const auto norm = [&](const std::string& name, std::int64_t width) {
    visit(name + ".weight", std::vector{width});
    visit(name + ".bias", std::vector{width});
  };
  const std::string embeddings = "albert.embeddings.";
  visit(embeddings + "word_embeddings.weight", std::vector{v, e});
  visit(embeddings + "position_embeddings.weight", std::vector{std::int64_t{sizes.positions}, e});
  visit(embeddings + "token_type_embeddings.weight", std::vector{std::int64_t{2}, e});
  norm(embeddings + "LayerNorm", e);
  linear("albert.encoder.embedding_hidden_mapping_in", h, e);
  const std::string layer = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  norm(layer + "full_layer_layer_norm", h);
  for (const char* name : {"query", "key", "value", "dense"}) linear(layer + "attention." + name, h, h);
  norm(layer + "attention.LayerNorm", h);
  linear(layer + "ffn", f, h);
  linear(layer + "ffn_output", h, f);
  linear("albert.pooler", h, h);
  visit(std::string("predictions.bias"), std::vector{v});
  norm("predictions.LayerNorm", e);
  linear("predictions.dense", e, h);
  linear("sop_classifier.classifier", 2, h);
}

/// Nearly normal with deviation 1: twelve uniform 16-bit numbers, whose variance is (2^32 - 1) / 12 each. Beyond six
/// deviations there is nothing.
float normal_value(Random& random) noexcept {
  std::int64_t sum = 0;
  for (int draw = 0; draw < 3; ++draw)
    for (std::uint64_t bits = random.next(), k = 0; k < 4; ++k, bits >>= 16U)
      sum += static_cast<std::int64_t>(bits & 0xffffU);
  return static_cast<float>(static_cast<double>(sum - 6 * 0xffff) * 0x1p-16);
}

Recipe make(ModelSizes model, Schedule schedule, std::uint32_t microbatch, std::uint32_t sequence,
            std::uint64_t target_batch) {
  Recipe recipe;
  recipe.model = model;
  recipe.schedule = schedule;
  recipe.microbatch = microbatch;
  recipe.data.sequence = sequence;
  recipe.target_batch = target_batch;
  return recipe;
}

}  // namespace

std::optional<Recipe> preset(std::string_view name) {
  if (name == "demo")
    return make({.vocabulary = 4000,
                 .embedding = 128,
                 .hidden = 128,
                 .layers = 2,
                 .heads = 4,
                 .intermediate = 512,
                 .positions = 64,
                 .init = 0.04},
                {.learning_rate = 7e-3, .warmup_epochs = 10, .total_epochs = 600}, 16, 64, 128);
  Recipe recipe;
  if (name == "tiny")
    recipe = make({.vocabulary = 8000,
                   .embedding = 128,
                   .hidden = 312,
                   .layers = 4,
                   .heads = 12,
                   .intermediate = 1248,
                   .positions = 128,
                   .init = 0.02},
                  {.learning_rate = 1e-2, .warmup_epochs = 100, .total_epochs = 5000}, 8, 128, 512);
  else if (name == "base")
    recipe = make({.vocabulary = 32'000,
                   .embedding = 128,
                   .hidden = 768,
                   .layers = 12,
                   .heads = 12,
                   .intermediate = 3072,
                   .positions = 512,
                   .init = 0.02},
                  {.learning_rate = 1.76e-3, .warmup_epochs = 5000, .total_epochs = 125'000}, 4, 256, 4096);
  else if (name == "large")
    recipe = make({.vocabulary = 32'000,
                   .embedding = 128,
                   .hidden = 1024,
                   .layers = 24,
                   .heads = 16,
                   .intermediate = 4096,
                   .positions = 512,
                   .init = 0.02},
                  {.learning_rate = 1.76e-3, .warmup_epochs = 5000, .total_epochs = 125'000}, 4, 512, 4096);
  else
    return std::nullopt;
  recipe.data.held_out_one_in = 20;
  recipe.data.evaluate_every = 50;
  return recipe;
}

Schema albert_schema(const Recipe& recipe) {
  Schema schema;
  for_each_tensor(recipe.model, [&](std::string name, std::vector<std::int64_t> shape) {
    schema.tensors.push_back({std::move(name), DType::float32, std::move(shape), TensorRole::parameter});
  });
  return schema;
}

std::uint64_t parameter_values(const Recipe& recipe) noexcept {
  const auto& sizes = recipe.model;
  const std::uint64_t v = sizes.vocabulary, e = sizes.embedding, h = sizes.hidden, f = sizes.intermediate;
  const std::uint64_t embeddings = (v + sizes.positions + 2) * e + 2 * e + h * e + h;
  const std::uint64_t layer = 4 * (h * h + h) + 4 * h + 2 * f * h + f + h;
  const std::uint64_t heads = h * h + h + v + 2 * e + e * h + e + 2 * h + 2;
  return embeddings + layer + heads;
}

void initial_parameters(const Recipe& recipe, std::span<float> values) {
  assert(values.size() == parameter_values(recipe));
  const Random seeded(recipe.seed);
  const auto deviation = static_cast<float>(recipe.model.init);
  for_each_tensor(recipe.model, [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const bool matrix = shape.size() == 2;
    const auto size = static_cast<std::size_t>(matrix ? shape[0] * shape[1] : shape[0]);
    const auto mine = values.first(size);
    values = values.subspan(size);
    if (!matrix) {
      const bool scale = name.ends_with("weight");  // the only vectors called weight are LayerNorm's
      std::fill(mine.begin(), mine.end(), scale ? 1.0F : 0.0F);
      return;
    }
    Random random = seeded.derive(name);
    for (float& value : mine) value = deviation * normal_value(random);
    if (name.ends_with("word_embeddings.weight")) std::fill_n(mine.begin(), recipe.model.embedding, 0.0F);
  });
}

std::string config_json(const Recipe& recipe) {
  const auto& model = recipe.model;
  nlohmann::ordered_json json = {
      {"architectures", {"AlbertForPreTraining"}},
      {"model_type", "albert"},
      {"vocab_size", model.vocabulary},
      {"embedding_size", model.embedding},
      {"hidden_size", model.hidden},
      {"num_hidden_layers", model.layers},
      {"num_hidden_groups", 1},
      {"inner_group_num", 1},
      {"num_attention_heads", model.heads},
      {"intermediate_size", model.intermediate},
      {"max_position_embeddings", model.positions},
      {"type_vocab_size", 2},
      {"hidden_act", "gelu_new"},
      {"layer_norm_eps", 1e-12},
      {"initializer_range", model.init},
      {"hidden_dropout_prob", 0.0},
      {"attention_probs_dropout_prob", 0.0},
      {"classifier_dropout_prob", 0.1},
      {"position_embedding_type", "absolute"},
      {"pad_token_id", 0},
      {"bos_token_id", 2},
      {"eos_token_id", 3},
  };
  return json.dump(2) + "\n";
}

/// sentencepiece's own settings are in `spiece.model`; the two defaults that lose Bengali vowel signs are undone here.
std::string tokenizer_config_json(const Recipe& recipe) {
  const nlohmann::ordered_json json = {
      {"tokenizer_class", "AlbertTokenizer"},
      {"do_lower_case", false},
      {"keep_accents", true},
      {"remove_space", true},
      {"bos_token", "[CLS]"},
      {"eos_token", "[SEP]"},
      {"cls_token", "[CLS]"},
      {"sep_token", "[SEP]"},
      {"mask_token", "[MASK]"},
      {"pad_token", "<pad>"},
      {"unk_token", "<unk>"},
      {"model_max_length", recipe.model.positions},
  };
  return json.dump(2) + "\n";
}

}  // namespace collab::recipes
