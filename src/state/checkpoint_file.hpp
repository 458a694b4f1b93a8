#pragma once
// The two safetensors files of a checkpoint: how they are written and what makes them whole. See checkpoint.hpp.

#include "state/checkpoint.hpp"

#include <filesystem>

namespace collab::state {

/// Writes every file of a checkpoint into `folder`, each on disk before it returns. Throws `Failure(machine)`.
void write_checkpoint(const std::filesystem::path& folder, const CheckpointContents& contents);

}  // namespace collab::state
