#include "recipes/albert.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

#include "support/doctest.hpp"

namespace collab::recipes {
namespace {

std::size_t place_of(const Schema& schema, std::string_view name) {
  std::size_t place = 0;
  for (const TensorInfo& tensor : schema.tensors) {
    if (tensor.name == name) return place;
    place += tensor.values();
  }
  FAIL("no tensor of that name");
  return place;
}

}  // namespace

TEST_CASE("albert: the presets have as many parameters as the paper design says, by schema and by formula") {
  const std::pair<const char*, std::uint64_t> expected[] = {
      {"demo", 773'026}, {"tiny", 2'399'930}, {"base", 12'071'810}, {"large", 18'105'474}};
  for (const auto& [name, values] : expected) {
    CAPTURE(name);
    const Recipe recipe = preset(name).value();
    CHECK(check(recipe).has_value());
    CHECK(parameter_values(recipe) == values);
    const Schema schema = albert_schema(recipe);
    CHECK(schema.values() == values);
    std::set<std::string> names;
    for (const TensorInfo& tensor : schema.tensors) names.insert(tensor.name);
    CHECK(names.size() == schema.tensors.size());
  }
  CHECK_FALSE(preset("huge").has_value());
}

TEST_CASE("albert: the schema follows the vocabulary that the tokenizer really has") {
  Recipe recipe = preset("demo").value();
  recipe.model.vocabulary = 3000;
  CHECK(albert_schema(recipe).values() == 773'026 - 1000 * 129);
  CHECK(albert_schema(recipe).tensors.front().shape == std::vector<std::int64_t>{3000, 128});
  const auto json = nlohmann::json::parse(config_json(recipe));
  CHECK(json["vocab_size"] == 3000);
  CHECK(json["num_hidden_groups"] == 1);
  CHECK(json["hidden_act"] == "gelu_new");
}

TEST_CASE("albert: first parameters are normal where they are matrices, follow the seed, and are the same everywhere") {
  Recipe recipe = preset("demo").value();
  std::vector<float> values(parameter_values(recipe)), again(values.size());
  initial_parameters(recipe, values);
  initial_parameters(recipe, again);
  CHECK(values == again);

  const Schema schema = albert_schema(recipe);
  const std::size_t words = place_of(schema, "albert.embeddings.word_embeddings.weight");
  CHECK(std::all_of(&values[words], &values[words + 128], [](float value) { return value == 0; }));
  double sum = 0, squares = 0, within = 0;
  const std::size_t count = 3999 * 128;
  for (std::size_t i = words + 128; i < words + 128 + count; ++i) {
    sum += values[i];
    squares += double{values[i]} * values[i];
    within += std::abs(values[i]) < 0.04F;
  }
  CHECK(std::abs(sum / double(count)) < 0.0003);
  CHECK(std::sqrt(squares / double(count)) == doctest::Approx(0.04).epsilon(0.01));
  CHECK(within / double(count) == doctest::Approx(0.6827).epsilon(0.01));
  CHECK(values[place_of(schema, "predictions.LayerNorm.weight")] == 1);
  CHECK(values[place_of(schema, "predictions.bias")] == 0);
  // Literal values: a change of the generator would split a swarm of old and new programs.
  const std::size_t pooler = place_of(schema, "albert.pooler.weight");
  CHECK(std::vector<float>(&values[pooler], &values[pooler + 3]) ==
        std::vector<float>{-0x1.c463d6p-6F, 0x1.442f5cp-5F, 0x1.e8028ep-6F});

  recipe.seed = 2;
  initial_parameters(recipe, again);
  CHECK(values != again);
}

}  // namespace collab::recipes
