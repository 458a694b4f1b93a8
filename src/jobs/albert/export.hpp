#pragma once
// The trained model as a folder that transformers opens.

#include "optim/flatten.hpp"
#include "recipes/recipe.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace collab::jobs {

/// Writes `model.safetensors` (float32, `facts` as its metadata), `config.json`, `spiece.model` (the bytes
/// `tokenizer`) and `tokenizer_config.json`.
///
/// `folder` appears complete or stays as it was: files go to a temporary folder beside it, reach the disk, and take its
/// place in one step; what was there before is removed. Throws `Failure(machine)` when the disk refuses.
void export_model(const std::filesystem::path& folder, const recipes::Recipe& recipe,
                  const std::vector<optim::NamedTensor>& parameters, const std::string& tokenizer,
                  const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace collab::jobs
