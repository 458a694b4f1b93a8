#include "doctor/recipe.hpp"

#include <fmt/format.h>

#include <utility>

namespace collab::doctor {
namespace {

constexpr const char* kRecipeName = "recipe";

}  // namespace

RecipeCheck check_recipe(const std::string& json, const std::function<bool(const std::string& job)>& knows,
                         std::optional<std::uint32_t> microbatch) {
  RecipeCheck check;
  auto recipe = recipes::from_json(json);
  if (!recipe) {
    check.finding = fail(kRecipeName, fmt::format("it cannot be read: {}", words_of_stranger(recipe.error().why)),
                         "a newer version of collab", ExitCode::incompatible);
    return check;
  }
  if (microbatch) recipe->microbatch = *microbatch;
  const std::string job = words_of_stranger(recipe->job);
  check.finding = knows(recipe->job)
                      ? ok(kRecipeName, fmt::format("{}, {} samples at once", job, recipe->microbatch))
                      : fail(kRecipeName, fmt::format("this run trains \"{}\", which this program does not know", job),
                             "a newer collab-peer, or a program that adds this job", ExitCode::incompatible);
  check.recipe = std::move(*recipe);
  return check;
}

}  // namespace collab::doctor
