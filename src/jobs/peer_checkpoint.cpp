#include "jobs/peer_checkpoint.hpp"

#include "epoch/manifest_options.hpp"
#include "jobs/peer_files.hpp"
#include "jobs/peer_run.hpp"
#include "node/manifest.hpp"
#include "optim/model_trainer.hpp"
#include "state/checkpoint.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace collab::jobs {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Of the newest checkpoint. Throws `Failure(data)` when there is none.
fs::path newest_checkpoint(const node::Config& config) {
  Log log;
  const fs::path home = home_of(config);
  state::Checkpoints checkpoints(checkpoints_in(home), log);
  const auto epochs = checkpoints.epochs();
  if (epochs.empty()) {
    throw Failure(ExitCode::data, fmt::format("{} holds no checkpoint", home.string()),
                  "train first; a peer saves one when it leaves, and every --checkpoint-every epochs");
  }
  return checkpoints.folder_of(epochs.back());
}

node::Manifest manifest_in(const node::Config& config) {
  const fs::path home = home_of(config);
  const auto stored = node::load_manifest(home / "manifest.signed");
  if (!stored) {
    throw Failure(ExitCode::data, fmt::format("{} has never seen the run {}", home.string(), run_id_of(config)),
                  "join it once with collab-peer --run-id NAME");
  }
  auto manifest = node::read_manifest(*stored, run_id_of(config), std::nullopt);
  if (!manifest) throw Failure(ExitCode::incompatible, manifest.error().reason, "another --home");
  return std::move(*manifest);
}

recipes::Recipe recipe_of(const node::Manifest& manifest) {
  auto recipe = recipes::from_json(manifest.recipe);
  if (!recipe) throw Failure(ExitCode::incompatible, recipe.error().why, "a newer version of collab");
  return *recipe;
}

}  // namespace

int export_checkpoint(const node::Config& config) {
  const fs::path from = newest_checkpoint(config);
  if (!config.has("to")) throw Failure(ExitCode::usage, "where to export to is not said", "--to DIR");
  const fs::path to = config.text("to");
  if (fs::exists(to) && !fs::is_empty(to)) {
    throw Failure(ExitCode::usage, fmt::format("{} exists and is not empty", to.string()), "another --to");
  }
  // what is damaged is found here, not by whoever opens it
  if (const auto whole = state::read_checkpoint(from); !whole) {
    throw Failure(ExitCode::data, fmt::format("the checkpoint in {} is damaged: {}", from.string(), whole.error().what),
                  "train on from an older one: collab-peer run sets damaged ones aside");
  }
  const fs::path partial = to.string() + ".partial";
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  fs::directory_iterator file;
  if (!error) file = fs::directory_iterator(from, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    const fs::path name = file->path().filename();
    if (name != "resume.safetensors" && !fs::copy_file(from / name, partial / name, error)) break;
  }
  if (!error) fs::remove_all(to, error);
  if (!error) fs::rename(partial, to, error);
  if (error) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw Failure(ExitCode::machine, fmt::format("cannot write {}: {}", to.string(), error.message()),
                  "free some disk space, or another --to");
  }
  const bool albert = fs::exists(to / "config.json");
  fmt::print("{} exported to {}{}\n", from.filename().string(), to.string(),
             albert ? "; open it with transformers' AlbertForPreTraining.from_pretrained" : "");
  return 0;
}

int evaluate_checkpoint(const Registry& jobs, const node::Config& config) {
  const fs::path folder = newest_checkpoint(config);
  const optim::Device device = device_of(config);
  const node::Manifest manifest = manifest_in(config);
  const recipes::Recipe recipe = recipe_of(manifest);
  const RunFiles files = files_in(home_of(config), manifest);
  RunnableJob runnable = jobs.make({recipe, files.tokenizer, files.prepared, device});
  auto checkpoint = state::read_checkpoint(folder);
  if (!checkpoint)
    throw Failure(ExitCode::data,
                  fmt::format("the checkpoint in {} is damaged: {}", folder.string(), checkpoint.error().what),
                  "train on from an older one: collab-peer run sets damaged ones aside");
  optim::Stepper stepper(runnable.job->module(), runnable.optimizer, runnable.stepper);
  const auto trainer = optim::make_trainer(stepper, epoch::mode_of(manifest));
  for (const auto& [name, buffer] : optim::named_buffers(runnable.job->module())) trainer->track(name, buffer);
  if (!trainer->restore(snapshot_of(*checkpoint))) {
    throw Failure(ExitCode::incompatible, "the checkpoint is of another model than the run's", "another --home");
  }
  const auto scores = runnable.job->evaluate();
  const bool albert = recipe.job == recipes::kAlbert;
  json object = {{"event", "evaluation"}, {"epoch", checkpoint->epoch}};
  if (albert) object["vocabulary"] = recipe.model.vocabulary;
  for (const auto& [name, value] : scores) object[name] = value;
  if (config.toggle("json")) {
    fmt::print("{}\n", object.dump());
    return 0;
  }
  fmt::print("epoch {}, held-out data", checkpoint->epoch);
  if (albert) fmt::print("; ln({}) = {:.3f}", recipe.model.vocabulary, std::log(double(recipe.model.vocabulary)));
  fmt::print("\n");
  for (const auto& [name, value] : scores) fmt::print("  {:<14} {:.4f}\n", name, value);
  return 0;
}

}  // namespace collab::jobs
