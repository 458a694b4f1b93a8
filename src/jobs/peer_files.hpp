#pragma once
// The files of a run in a peer's home: fetched once, checked by hash, written as checkpoints.

#include "node/config.hpp"
#include "node/manifest.hpp"
#include "optim/collaboration.hpp"
#include "optim/optimizer.hpp"
#include "recipes/recipe.hpp"
#include "state/checkpoint.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace collab::jobs {

struct RunFiles {
  std::filesystem::path tokenizer;    ///< spiece.model; empty: the run has none
  std::filesystem::path prepared;     ///< data/prepared.hpp, or a file that only the job knows; empty: the run has none
  std::filesystem::path checkpoints;  ///< folder of state/checkpoint.hpp
};
RunFiles files_in(const std::filesystem::path& home, const node::Manifest& manifest);
std::filesystem::path checkpoints_in(const std::filesystem::path& home);

/// What the manifest names: taken from the home, else made from --data, else fetched from the run's members; offered to
/// others afterwards. Without a hash in the manifest there is no such file. Throws `Failure(data)` when nobody has it,
/// or --data gives something else.
RunFiles fetch_run_files(optim::Collaboration& run, const node::Config& config,
                         const std::function<void(const std::string&)>& say);

/// Saves what `optimizer` has as a folder that a later process goes on from, and transformers opens if it is ALBERT.
/// Throws `Failure(machine)`; the older checkpoints are then untouched.
void save_checkpoint(state::Checkpoints& checkpoints, const optim::Optimizer& optimizer, const recipes::Recipe& recipe,
                     const std::string& run_id, const std::filesystem::path& tokenizer);
/// The state that `checkpoint` holds.
state::Snapshot snapshot_of(const state::Checkpoint& checkpoint);

}  // namespace collab::jobs
