#include "found_run.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "crypto/hash.hpp"
#include "data/prepared.hpp"
#include "data/text.hpp"
#include "matchmaking/group_key.hpp"
#include "node/mode.hpp"
#include "recipes/albert.hpp"
#include "state/snapshot.hpp"
#include "tensor/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace collab::coordinator {
namespace {

constexpr std::uint64_t kEndless = 1'000'000'000;                 // epochs of a job that says nothing of an end
constexpr std::size_t kPreparedBytesMax = std::size_t(2) << 30U;  // what peers fetch from each other at most

/// What tools/setup unpacks.
std::filesystem::path text_of_setup() {
  if (const char* cache = std::getenv("COLLAB_CACHE")) return std::filesystem::path(cache) / "text-bn";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : ".") / ".cache/collab/text-bn";
}

std::filesystem::path text_folder(const node::Config& config) {
  if (config.has("data")) return config.text("data");
  const auto folder = text_of_setup();
  if (std::filesystem::exists(folder)) return folder;
  throw Failure(ExitCode::data, "no text to train on: --data was not given, and there is none from tools/setup",
                "collab-coordinator --new-run --data DIR with a folder of .txt, .txt.zst or .jsonl");
}

bool own_job(const node::Config& config) {
  return config.text("job") != recipes::kAlbert;
}

recipes::Recipe recipe_of_own_job(const node::Config& config) {
  if (config.origin("preset") != node::Origin::built_in) {
    throw Failure(ExitCode::usage, fmt::format("presets are of albert, and this run is of \"{}\"", config.text("job")),
                  "--settings FILE for what your job reads, or no --job");
  }
  recipes::Recipe recipe;
  recipe.job = config.text("job");
  recipe.schedule.total_epochs = kEndless;
  if (config.has("settings")) {
    const std::filesystem::path file = config.text("settings");
    if (std::filesystem::is_regular_file(file) && std::filesystem::file_size(file) > recipes::kRecipeTextMax) {
      throw Failure(ExitCode::usage, fmt::format("{} has {} bytes", file.string(), std::filesystem::file_size(file)),
                    fmt::format("at most {}; what is longer goes into --data", node::kRecipeBytesMax));
    }
    const Bytes text = read_file(file, recipes::kRecipeTextMax);
    recipe.settings.assign(reinterpret_cast<const char*>(text.data()), text.size());
  }
  if (!config.has("target-batch")) {
    throw Failure(ExitCode::usage, fmt::format("no preset knows how many samples are a step of \"{}\"", recipe.job),
                  "--target-batch SAMPLES");
  }
  return recipe;
}

recipes::Recipe recipe_of_preset(const node::Config& config) {
  const std::string name = config.text("preset");
  const auto recipe = recipes::preset(name);
  if (!recipe) throw Failure(ExitCode::usage, fmt::format("no preset \"{}\"", name), "demo, tiny, base or large");
  if (config.has("settings")) {
    throw Failure(ExitCode::usage, "albert has no --settings", "--preset, or --job with the name of your own");
  }
  return *recipe;
}

node::Mode chosen_mode(const node::Config& config) {
  const auto mode = node::parse_mode(config.text("mode"));
  if (mode) return *mode;
  throw Failure(ExitCode::usage, fmt::format("no mode \"{}\"", config.text("mode")),
                "synchronous, local, or diloco, perhaps with ,inner_steps=100 ,rate=0.7 ,momentum=0.9 ,fragments=4 "
                ",overlap=5 ,mix=0.5: fragments divide inner_steps, and overlap is less than a part of them");
}

/// An epoch with inner steps does the work of so many of the preset's: numbers of epochs shrink to as many.
void shrink_schedule(recipes::Recipe& recipe, std::uint64_t epoch_steps) {
  const auto shrunk = [epoch_steps](std::uint64_t epochs) { return (epochs + epoch_steps - 1) / epoch_steps; };
  recipe.schedule.warmup_epochs = shrunk(recipe.schedule.warmup_epochs);
  recipe.schedule.total_epochs = std::max(shrunk(recipe.schedule.total_epochs), recipe.schedule.warmup_epochs + 1);
  recipe.data.evaluate_every = shrunk(recipe.data.evaluate_every);
}

recipes::Recipe chosen_recipe(const node::Config& config) {
  recipes::Recipe recipe = own_job(config) ? recipe_of_own_job(config) : recipe_of_preset(config);
  if (!own_job(config)) shrink_schedule(recipe, chosen_mode(config).epoch_steps());
  if (config.has("target-batch")) recipe.target_batch = static_cast<std::uint64_t>(config.number("target-batch"));
  if (config.has("epochs")) recipe.schedule.total_epochs = static_cast<std::uint64_t>(config.number("epochs"));
  if (config.has("seed")) recipe.seed = static_cast<std::uint64_t>(config.number("seed"));
  return recipe;
}

/// Throws `Failure(usage)`.
recipes::Recipe checked(const recipes::Recipe& recipe) {
  const auto whole = recipes::check(recipe);
  if (!whole) throw Failure(ExitCode::usage, "the recipe does not hold: " + whole.error().why, "other options");
  if (const auto bytes = recipes::to_json(*whole).size(); bytes > node::kRecipeBytesMax) {
    throw Failure(ExitCode::usage, fmt::format("settings make a recipe of {} bytes", bytes),
                  fmt::format("at most {}; what is longer goes into --data", node::kRecipeBytesMax));
  }
  return *whole;
}

Admission chosen_admission(const node::Config& config) {
  const std::string text = config.text("admission");
  if (text == "open") return Admission::open;
  if (text == "list") return Admission::allow_list;
  if (text == "token") return Admission::token;
  throw Failure(ExitCode::usage, fmt::format("admission cannot be \"{}\"", text),
                "open, token, or list with --allow FILE");
}

void check_file(const std::filesystem::path& file, const Digest& hash) {
  if (hash == Digest()) return;
  const bool there = std::filesystem::exists(file);
  if (there && state::content_hash(read_file(file, kPreparedBytesMax)) == hash) return;
  throw Failure(ExitCode::data,
                fmt::format("{} is {}", file.string(), there ? "not what the run's manifest names" : "gone"),
                "put it back from a copy; every peer of the run has one in its home");
}

/// Throws `Failure(data)`.
void check_data(const std::filesystem::path& file) {
  const char* problem = nullptr;
  if (!std::filesystem::is_regular_file(file))
    problem = "no file";
  else if (std::filesystem::file_size(file) == 0)
    problem = "empty";
  if (problem == nullptr) return;
  throw Failure(ExitCode::data, fmt::format("{} is {}", file.string(), problem),
                "--data FILE: one file that every peer is given, or none when peers bring their own");
}

/// The data of a job of one's own travels as it is. Returns its hash.
Digest copy_data(const std::filesystem::path& from, const std::filesystem::path& to) {
  const Bytes bytes = read_file(from, kPreparedBytesMax);
  write_file(to, bytes);
  return state::content_hash(bytes);
}

/// Writes tokenizer and prepared text, and says in `recipe` how large the vocabulary became.
void train_tokenizer(const node::Config& config, recipes::Recipe& recipe, const RunFiles& files,
                     const std::function<void(const std::string&)>& say) {
  const auto folder = text_folder(config);
  say(fmt::format("reading text in {}", folder.string()));
  const auto documents = data::read_documents(folder);
  std::vector<std::string> sentences;
  for (const auto& document : documents)
    sentences.insert(sentences.end(), document.sentences.begin(), document.sentences.end());
  say(fmt::format("{} documents, {} sentences; training a tokenizer of {} pieces", documents.size(), sentences.size(),
                  recipe.model.vocabulary));
  const auto tokenizer = data::Tokenizer::train(sentences, recipe.model.vocabulary);
  recipe.model.vocabulary = tokenizer.vocabulary();
  recipe = checked(recipe);
  write_file(files.tokenizer, tokenizer.bytes());

  data::PrepareOptions prepare;
  prepare.sequence = recipe.data.sequence;
  prepare.held_out_one_in = recipe.data.held_out_one_in;
  data::Prepared::write(files.prepared, documents, tokenizer, prepare);
  const auto prepared = data::Prepared::open(files.prepared);
  say(fmt::format("{} samples of {} tokens to train on, {} held out; vocabulary {}",
                  prepared.windows(data::Part::train), recipe.data.sequence, prepared.windows(data::Part::held_out),
                  recipe.model.vocabulary));
}

}  // namespace

void check_founding(const node::Config& config) {
  const recipes::Recipe recipe = chosen_recipe(config);
  if (own_job(config)) (void)checked(recipe);
  if (own_job(config) && config.has("data")) check_data(config.text("data"));
  const auto codec = config.text("codec") == kAutoCodec ? CodecId::float16 : codec_named(config.text("codec"));
  if (!codec) {
    throw Failure(ExitCode::usage, fmt::format("no codec \"{}\"", config.text("codec")), kCodecChoices);
  }
  if (owes(*codec) && chosen_mode(config).average != node::Mode::Average::gradients) {
    throw Failure(ExitCode::usage,
                  fmt::format("{} writes gradients, and this mode averages moves", config.text("codec")),
                  "--codec float16, or --mode synchronous");
  }
  const auto grid = matchmaking::parse_grid(config.text("grid"));
  if (!grid) {
    throw Failure(ExitCode::usage, fmt::format("no grid \"{}\"", config.text("grid")),
                  "auto, or the sizes of groups as in 4x3: 2 to 64 each, at most 8 of them");
  }
  if (!grid->empty() && *std::max_element(grid->begin(), grid->end()) > config.number("group-size-max")) {
    throw Failure(ExitCode::usage,
                  fmt::format("grid {} has groups above --group-size-max {}", config.text("grid"),
                              config.number("group-size-max")),
                  "smaller numbers, or a greater --group-size-max");
  }
  const double samples =
      static_cast<double>(recipe.target_batch) * static_cast<double>(chosen_mode(config).epoch_steps());
  if (samples > static_cast<double>(node::kTargetBatchMax)) {
    throw Failure(ExitCode::usage, fmt::format("an epoch of {:.0f} samples is too long", samples),
                  "a smaller --target-batch, or fewer inner_steps in --mode");
  }
  if (chosen_admission(config) == Admission::allow_list && !config.has("allow")) {
    throw Failure(ExitCode::usage, "admission list needs the list of who may join",
                  "--allow FILE with peer ids, one a line");
  }
}

void check_files(const node::Manifest& manifest, const RunFiles& files) {
  check_file(files.tokenizer, manifest.tokenizer);
  check_file(files.prepared, manifest.data);
}

recipes::Recipe recipe_of(const node::Manifest& manifest) {
  auto recipe = recipes::from_json(manifest.recipe);
  if (recipe) return *recipe;
  throw Failure(ExitCode::incompatible, fmt::format("this run's recipe cannot be read: {}", recipe.error().why),
                "a newer version of collab");
}

Signed found_run(const node::Config& config, const std::string& run_id, const Identity& authority,
                 const RunFiles& files, const std::function<void(const std::string&)>& say) {
  node::Manifest manifest;
  manifest.run_id = run_id;
  manifest.authority = authority.id();
  manifest.sequence = 1;
  recipes::Recipe recipe = chosen_recipe(config);
  if (own_job(config)) {
    recipe = checked(recipe);
    if (config.has("data")) manifest.data = copy_data(config.text("data"), files.prepared);
  } else {
    train_tokenizer(config, recipe, files, say);
    manifest.schema = hash_bytes("collab schema", recipes::albert_schema(recipe).canonical());
    manifest.tokenizer = state::content_hash(read_file(files.tokenizer, kPreparedBytesMax));
    manifest.data = state::content_hash(read_file(files.prepared, kPreparedBytesMax));
  }
  manifest.recipe = recipes::to_json(recipe);
  const node::Mode mode = chosen_mode(config);
  manifest.target_batch = recipe.target_batch * mode.epoch_steps();
  manifest.codec = config.text("codec");
  manifest.group_size_max = static_cast<std::uint32_t>(config.number("group-size-max"));
  manifest.grid = config.text("grid");
  manifest.mode = node::to_string(mode);
  manifest.commit_fraction = config.real("commit-fraction");
  manifest.admission = chosen_admission(config);
  Signed statement = node::sign_manifest(authority, manifest);
  node::save_manifest(files.manifest, statement);
  return statement;
}

}  // namespace collab::coordinator
