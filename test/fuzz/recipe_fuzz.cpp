// The job part of a manifest, as anybody may have signed it: refused with a reason, or within its bounds and the same
// when written and read again.
#include "recipes/albert.hpp"
#include "recipes/recipe.hpp"
#include "support.hpp"

namespace collab::fuzz::recipe_target {

COLLAB_FUZZ_TARGET(recipe) {
  using fuzz::require;
  const fuzz::AllocationBound bound(512 * size + (1U << 20U));
  const auto recipe = recipes::from_json(fuzz::text_of(fuzz::bytes_of(data, size)));
  if (!recipe) {
    require(!recipe.error().why.empty());
    return 0;
  }
  require(recipes::parameter_values(*recipe) <= recipes::kParameterValuesMax);
  require(recipe->target_batch > 0 && recipe->model.hidden % recipe->model.heads == 0);
  const auto again = recipes::from_json(recipes::to_json(*recipe));
  require(again && *again == *recipe);
  for (const std::uint64_t epoch : {std::uint64_t(0), recipe->schedule.total_epochs / 2, ~std::uint64_t(0)}) {
    const double rate = recipe->schedule.at(epoch);
    require(rate >= 0 && rate <= recipe->schedule.learning_rate);
  }
  return 0;
}

}  // namespace collab::fuzz::recipe_target
