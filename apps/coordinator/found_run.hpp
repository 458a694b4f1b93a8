#pragma once
// How a run begins: tokenizer, prepared text and the signed manifest; of another job than ALBERT, its data file.

#include "crypto/identity.hpp"
#include "node/config.hpp"
#include "node/manifest.hpp"
#include "recipes/recipe.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace collab::coordinator {

/// Where a run's files lie in its home.
struct RunFiles {
  explicit RunFiles(const std::filesystem::path& home)
      : manifest(home / "manifest.signed"), tokenizer(home / "spiece.model"), prepared(home / "prepared.bin") {}
  std::filesystem::path manifest;
  std::filesystem::path tokenizer;
  std::filesystem::path prepared;
};

/// What can be said of the options, and of the files of another job than ALBERT, before anything is made. Throws
/// `Failure`: `usage`, or `data`.
void check_founding(const node::Config& config);

/// Whether tokenizer and text are still what the manifest says. Throws `Failure(data)` or `Failure(machine)`.
void check_files(const node::Manifest& manifest, const RunFiles& files);

/// Trains the tokenizer on the text, cuts samples, signs the manifest; writes all three to `files`. `say` is told what
/// happens, a line at a time. Text comes from --data, else from what tools/setup unpacked. With --job the file of
/// --data is taken as it is, and there is no tokenizer; nor is there data without --data. Throws `Failure`: `usage` for
/// options that do not fit, `data` for text that is missing or too small, `machine`.
Signed found_run(const node::Config& config, const std::string& run_id, const Identity& authority,
                 const RunFiles& files, const std::function<void(const std::string&)>& say);

/// The recipe in a manifest that this program signed or fetched. Throws `Failure(incompatible)`.
recipes::Recipe recipe_of(const node::Manifest& manifest);

}  // namespace collab::coordinator
