#pragma once
// ALBERT on paper: presets, names and shapes, first parameters, config.json.

#include "recipes/recipe.hpp"
#include "tensor/schema.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace collab::recipes {

/// demo | tiny | base | large; empty for another name. `model.vocabulary` is the nominal size: whoever creates a run
/// replaces it by the size that the trained tokenizer has.
std::optional<Recipe> preset(std::string_view name);

/// Names and shapes in the order of the flat vector, as `AlbertForPreTraining` of the Python package transformers
/// names them. The decoder of the masked words is tied to the word embeddings, so it is no tensor of its own.
Schema albert_schema(const Recipe&);

/// Values of all tensors: `albert_schema(recipe).values()` without building it.
std::uint64_t parameter_values(const Recipe&) noexcept;

/// Parameters of epoch 0, the same bits on every machine: matrices normal with deviation `model.init`, LayerNorm's
/// weights 1, biases and the row of <pad> 0. Every tensor has its own stream, made of `seed` and its name.
/// The normal values are sums of twelve uniform whole numbers: no logarithm whose last bit is the library's choice.
/// `values.size()` is `parameter_values(recipe)`.
void initial_parameters(const Recipe&, std::span<float> values);

/// `config.json` beside the exported parameters: enough for transformers to open them.
std::string config_json(const Recipe&);

/// `tokenizer_config.json` beside `spiece.model`: keeps the vowel signs that transformers drops by default.
std::string tokenizer_config_json(const Recipe&);

}  // namespace collab::recipes
