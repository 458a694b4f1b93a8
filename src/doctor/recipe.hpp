#pragma once
// Whether this program can train what a run trains.

#include "doctor/finding.hpp"
#include "recipes/recipe.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace collab::doctor {

struct RecipeCheck {
  Finding finding;
  std::optional<recipes::Recipe> recipe;  ///< none: it cannot be read. Of a job that is not known, too
};

/// `json`: of the manifest, so a stranger's words. `knows`: whether the program has a job. `microbatch`: the user's,
/// instead of the recipe's.
RecipeCheck check_recipe(const std::string& json, const std::function<bool(const std::string& job)>& knows,
                         std::optional<std::uint32_t> microbatch);

}  // namespace collab::doctor
