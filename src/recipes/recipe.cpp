#include "recipes/recipe.hpp"

#include "recipes/albert.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <vector>

namespace collab::recipes {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepthMax = 32;  // writing recurses

template <class Model, class Optimizer, class Visit>
void visit_albert(Model& model, Optimizer& optimizer, Visit visit) {
  visit("model", "vocabulary", model.vocabulary, 8, 262'144);
  visit("model", "embedding", model.embedding, 4, 4096);
  visit("model", "hidden", model.hidden, 4, 8192);
  visit("model", "layers", model.layers, 1, 128);
  visit("model", "heads", model.heads, 1, 128);
  visit("model", "intermediate", model.intermediate, 4, 32'768);
  visit("model", "positions", model.positions, 8, 8192);
  visit("model", "init", model.init, 1e-6, 1.0);
  visit("optimizer", "beta1", optimizer.beta1, 0.0, 0.9999);
  visit("optimizer", "beta2", optimizer.beta2, 0.0, 0.999999);
  visit("optimizer", "epsilon", optimizer.epsilon, 1e-12, 1.0);
  visit("optimizer", "weight_decay", optimizer.weight_decay, 0.0, 1.0);
  visit("optimizer", "clamp", optimizer.clamp, 1e-3, 1e9);
  visit("optimizer", "grad_norm_max", optimizer.grad_norm_max, 1e-6, 1e9);
}

/// The one list of fields: reading, writing and checking all walk through it. `visit(section, key, field, low, high)`.
template <class R, class Visit>
void for_each_field(R& recipe, Visit visit) {
  auto& [job, model, optimizer, schedule, data, target_batch, microbatch, seed, settings] = recipe;
  visit("", "job", job, 1, 32);
  const bool albert = job == kAlbert;  // now, when it has been read
  if (albert) visit_albert(model, optimizer, visit);
  if (albert) visit("schedule", "learning_rate", schedule.learning_rate, 0.0, 10.0);
  if (albert) visit("schedule", "warmup_epochs", schedule.warmup_epochs, 0, 1'000'000'000);
  visit("schedule", "total_epochs", schedule.total_epochs, 1, 1'000'000'000);
  if (albert) visit("data", "sequence", data.sequence, 8, 8192);
  if (albert) visit("data", "held_out_one_in", data.held_out_one_in, 2, 1'000'000);
  visit("data", "evaluate_every", data.evaluate_every, 1, 1'000'000'000);
  visit("", "target_batch", target_batch, 1, 100'000'000);
  visit("", "microbatch", microbatch, 1, 65'536);
  visit("", "seed", seed, 0, (std::uint64_t{1} << 53U) - 1);
}

std::string path_of(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
}

template <class T>
bool read_value(const Json& json, T& field) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) return false;
    field = json.get<std::string>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is_number()) return false;
    field = json.get<T>();
  } else {
    if (!json.is_number_unsigned()) return false;
    const auto value = json.get<std::uint64_t>();
    // A number beyond the type is beyond the range too: the largest value keeps it there.
    field = static_cast<T>(std::min<std::uint64_t>(value, std::numeric_limits<T>::max()));
  }
  return true;
}

template <class T>
constexpr std::string_view type_name() {
  if constexpr (std::is_same_v<T, std::string>) return "a text";
  return std::is_floating_point_v<T> ? "a number" : "a whole number, not negative";
}

/// Parses and notices keys that are there twice, of which the library would silently take the last.
Checked<Json> parse_strictly(std::string_view text) {
  std::vector<std::set<std::string>> seen;
  std::string twice;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    too_deep = too_deep || depth > kDepthMax;
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key && !seen.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  auto json = Json::parse(text, watch, false);
  if (json.is_discarded()) return Refusal{"the recipe is no JSON text"};
  if (!json.is_object()) return Refusal{"the recipe is no JSON object"};
  if (too_deep) return Refusal{"the recipe is nested too deep"};
  if (!twice.empty()) return Refusal{fmt::format("{} is there twice", twice)};
  return Checked<Json>(boost::system::in_place_value, std::move(json));
}

/// As run ids are: a name that any terminal, log and file shows as it is.
bool is_job_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return std::all_of(name.begin(), name.end(), good);
}

/// What is left in `json` after every known field was taken out is unknown.
std::string first_unknown(const Json& json, const std::string& prefix = "") {
  for (const auto& [key, value] : json.items()) {
    const bool section = prefix.empty() && (key == "model" || key == "optimizer" || key == "schedule" || key == "data");
    if (!section) return prefix + key;
    if (const std::string inner = first_unknown(value, key + "."); !inner.empty()) return inner;
  }
  return {};
}

/// What a job of one's own has beside the fields that all have; sections that are empty now held nothing else.
std::string settings_of(Json json) {
  for (const char* section : {"schedule", "data"}) {
    if (json.contains(section) && json.at(section).empty()) json.erase(section);
  }
  return json.empty() ? std::string() : json.dump();
}

/// `settings` as an object; a Refusal when it is none, or has a field that is the recipe's.
Checked<Json> read_settings(const Recipe& recipe) {
  if (recipe.settings.empty()) return Checked<Json>(boost::system::in_place_value, Json::object());
  if (recipe.settings.size() > kRecipeTextMax) return Refusal{"settings are too long"};
  auto parsed = parse_strictly(recipe.settings);
  if (!parsed) return Refusal{"settings: " + parsed.error().why};
  std::string twice;
  for_each_field(recipe, [&](std::string_view section, const char* key, const auto&, auto, auto) {
    const Json* object = &*parsed;
    if (!section.empty()) {
      const auto found = parsed->find(std::string(section));
      if (found == parsed->end()) return;
      object = &*found;
    }
    if (!object->is_object() || object->contains(key)) twice = path_of(section, key);
  });
  if (!twice.empty()) return Refusal{fmt::format("settings: {} is a field of every recipe", twice)};
  return parsed;
}

}  // namespace

std::uint64_t activation_values(const Recipe& recipe) noexcept {
  const std::uint64_t tokens = std::uint64_t{recipe.microbatch} * recipe.data.sequence;
  const auto& model = recipe.model;
  return tokens * model.layers *
         (10U * std::uint64_t{model.hidden} + 3U * std::uint64_t{model.intermediate} +
          2U * std::uint64_t{model.heads} * recipe.data.sequence);
}

double Schedule::at(std::uint64_t epoch) const noexcept {
  if (epoch >= total_epochs) return 0;
  if (epoch < warmup_epochs) return learning_rate * static_cast<double>(epoch + 1) / static_cast<double>(warmup_epochs);
  return learning_rate * static_cast<double>(total_epochs - epoch) / static_cast<double>(total_epochs - warmup_epochs);
}

Checked<Recipe> check(Recipe recipe) {
  std::string problem;
  for_each_field(recipe, [&]<class T, class Low, class High>(auto section, auto key, const T& field, Low low,
                                                             High high) {
    if (!problem.empty()) return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (field.size() < static_cast<std::size_t>(low) || field.size() > static_cast<std::size_t>(high))
        problem = fmt::format("{} has {} letters; allowed: {} to {}", path_of(section, key), field.size(), low, high);
    } else {
      if (!(field >= static_cast<T>(low) && field <= static_cast<T>(high)))  // NaN fails as well
        problem = fmt::format("{} is {}; allowed: {} to {}", path_of(section, key), field, low, high);
    }
  });
  if (!problem.empty()) return Refusal{problem};
  if (!is_job_name(recipe.job)) return Refusal{"job is no name; allowed: a-z 0-9 . _ -"};
  if (recipe.job != kAlbert) {
    const auto settings = read_settings(recipe);
    if (!settings) return settings.error();
    return recipe;
  }
  if (!recipe.settings.empty()) return Refusal{"settings are for other jobs than albert"};
  const auto& model = recipe.model;
  if (model.hidden % model.heads != 0)
    return Refusal{fmt::format("model.hidden is {}, no multiple of model.heads, {}", model.hidden, model.heads)};
  if (recipe.data.sequence > model.positions)
    return Refusal{
        fmt::format("data.sequence is {}, above model.positions, {}", recipe.data.sequence, model.positions)};
  if (recipe.schedule.warmup_epochs >= recipe.schedule.total_epochs)
    return Refusal{fmt::format("schedule.warmup_epochs is {}; allowed: less than schedule.total_epochs, {}",
                               recipe.schedule.warmup_epochs, recipe.schedule.total_epochs)};
  if (std::uint64_t{recipe.microbatch} * recipe.data.sequence > kMicrobatchTokensMax)
    return Refusal{fmt::format("microbatch is {}; with data.sequence {} at most {} is allowed", recipe.microbatch,
                               recipe.data.sequence, kMicrobatchTokensMax / recipe.data.sequence)};
  if (const auto values = parameter_values(recipe); values > kParameterValuesMax)
    return Refusal{fmt::format("model has {} parameters; at most {} are allowed", values, kParameterValuesMax)};
  if (activation_values(recipe) > std::uint64_t{1} << 33U)
    return Refusal{
        fmt::format("microbatch is {}, too many samples at once for a model of this size", recipe.microbatch)};
  return recipe;
}

std::string to_json(const Recipe& recipe) {
  const auto settings = read_settings(recipe);
  Json json = recipe.job != kAlbert && settings ? *settings : Json();
  for_each_field(recipe, [&](std::string_view section, const char* key, const auto& field, auto, auto) {
    (section.empty() ? json : json[std::string(section)])[key] = field;
  });
  return json.dump(2);
}

Checked<Recipe> from_json(std::string_view text) {
  if (text.size() > kRecipeTextMax)
    return Refusal{fmt::format("the recipe has {} bytes; at most {} are allowed", text.size(), kRecipeTextMax)};
  auto parsed = parse_strictly(text);
  if (!parsed) return parsed.error();
  Json& json = *parsed;
  Recipe recipe;
  std::string problem;
  for_each_field(recipe, [&]<class T>(std::string_view section, const char* key, T& field, auto, auto) {
    if (!problem.empty()) return;
    Json* object = &json;
    if (!section.empty()) {
      const auto found = json.find(std::string(section));
      if (found == json.end() || !found->is_object()) {
        problem = fmt::format("{} is missing or no object", section);
        return;
      }
      object = &*found;
    }
    const auto found = object->find(key);
    if (found == object->end())
      problem = fmt::format("{} is missing", path_of(section, key));
    else if (!read_value(*found, field))
      problem = fmt::format("{} must be {}", path_of(section, key), type_name<T>());
    else
      object->erase(found);
  });
  if (!problem.empty()) return Refusal{problem};
  if (recipe.job != kAlbert) {
    recipe.settings = settings_of(std::move(json));
    return check(std::move(recipe));
  }
  if (const std::string unknown = first_unknown(json); !unknown.empty())
    return Refusal{fmt::format("{} is no field of a recipe", unknown)};
  return check(std::move(recipe));
}

}  // namespace collab::recipes
