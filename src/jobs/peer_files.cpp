#include "jobs/peer_files.hpp"

#include "base/file.hpp"
#include "data/prepared.hpp"
#include "data/text.hpp"
#include "optim/parts.hpp"
#include "recipes/albert.hpp"
#include "state/checkpoint.hpp"
#include "state/download.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace collab::jobs {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t(2) << 30U;
constexpr Duration kNobodyTime = std::chrono::seconds(30);
constexpr Duration kAskAgain = std::chrono::milliseconds(200);
constexpr Duration kDownloadTime = std::chrono::hours(6);

/// Everybody who might have a file: members of the run, and who is connected though the directory has not told of him.
std::vector<PeerId> peers_of(node::Node& node) {
  std::vector<PeerId> peers = node.endpoint().connected();
  for (const node::Member& member : node.members()) {
    if (member.peer != node.self()) peers.push_back(member.peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

Bytes bytes_of(const std::string& text) {
  const auto raw = std::as_bytes(std::span(text));
  return Bytes(raw.begin(), raw.end());
}

bool is_here(const std::filesystem::path& file, const Digest& hash) {
  return std::filesystem::exists(file) && state::content_hash(read_file(file, kFileBytesMax)) == hash;
}

/// From everybody who may have it; the hash decides, so any donor will do.
void download(optim::Collaboration& run, const Digest& hash, const std::filesystem::path& target,
              const std::string& what, const std::function<void(const std::string&)>& say) {
  auto& parts = run.parts();
  const auto fetch = [&]() -> Task<boost::system::result<void, Refusal>> {
    Random random = Random(parts.seed).derive("files");
    const state::Context context{parts.node->endpoint(), parts.runtime.clock(), parts.runtime.workers(), parts.log,
                                 random};
    state::WantedFile wanted;
    wanted.name = hash;
    wanted.target = target;
    Clock& clock = parts.runtime.clock();
    wanted.deadline = clock.now() + kDownloadTime;
    const state::OnProgress nothing_to_tell;
    const TimePoint give_up = clock.now() + kNobodyTime;
    auto done = co_await state::download_file(context, wanted, peers_of(*parts.node), nothing_to_tell);
    while (!done && clock.now() < give_up) {  // right after the start connections are still being made
      co_await clock.sleep_until(clock.now() + kAskAgain);
      done = co_await state::download_file(context, wanted, peers_of(*parts.node), nothing_to_tell);
    }
    co_return done;
  };
  const auto fetched = parts.runtime.call(fetch());
  if (!fetched) {
    throw Failure(ExitCode::data, fmt::format("cannot fetch the run's {}: {}", what, fetched.error().reason),
                  "try again when a coordinator or another peer is there, or give --data DIR with the run's text");
  }
  say(fmt::format("{} fetched from the run, checked by hash", what));
}

/// The run's data from the user's own copy: equal text gives equal bytes.
void prepare(const std::filesystem::path& folder, const RunFiles& files, const recipes::Recipe& recipe,
             const Digest& hash) {
  if (recipe.job != recipes::kAlbert) {
    if (!is_here(folder, hash)) {
      throw Failure(ExitCode::data, fmt::format("{} is not this run's data (its hash differs)", folder.string()),
                    "leave out --data: the run's own is then fetched");
    }
    write_file(files.prepared, read_file(folder, kFileBytesMax));
    return;
  }
  data::PrepareOptions options;
  options.sequence = recipe.data.sequence;
  options.held_out_one_in = recipe.data.held_out_one_in;
  data::Prepared::write(files.prepared, data::read_documents(folder), data::Tokenizer::load(files.tokenizer), options);
  if (is_here(files.prepared, hash)) return;
  std::filesystem::remove(files.prepared);
  throw Failure(ExitCode::data,
                fmt::format("the text in {} is not what this run trains on (its hash differs)", folder.string()),
                "leave out --data: the run's own text is then fetched");
}

}  // namespace

std::filesystem::path checkpoints_in(const std::filesystem::path& home) {
  return home / "checkpoints";
}

RunFiles files_in(const std::filesystem::path& home, const node::Manifest& manifest) {
  RunFiles files;
  if (manifest.tokenizer != Digest()) files.tokenizer = home / "spiece.model";
  if (manifest.data != Digest()) files.prepared = home / "prepared.bin";
  files.checkpoints = checkpoints_in(home);
  return files;
}

RunFiles fetch_run_files(optim::Collaboration& run, const node::Config& config,
                         const std::function<void(const std::string&)>& say) {
  const node::Manifest& manifest = run.manifest();
  const RunFiles files = files_in(run.home(), manifest);
  if (!files.tokenizer.empty() && !is_here(files.tokenizer, manifest.tokenizer)) {
    download(run, manifest.tokenizer, files.tokenizer, "tokenizer", say);
  }
  if (!files.prepared.empty() && !is_here(files.prepared, manifest.data)) {
    if (config.has("data")) {
      prepare(config.text("data"), files, *recipes::from_json(manifest.recipe), manifest.data);
      say(fmt::format("data of {} taken; it is the run's", config.text("data")));
    } else {
      download(run, manifest.data, files.prepared, "data", say);
    }
  }
  auto& parts = run.parts();
  const auto offer = [&]() -> Task<> {
    const bool tokenizer = !files.tokenizer.empty();
    const bool data = !files.prepared.empty();
    if (tokenizer) (void)co_await parts.store->add_file(manifest.tokenizer, files.tokenizer);  // two: never too many
    if (data) (void)co_await parts.store->add_file(manifest.data, files.prepared);
  };
  parts.runtime.call(offer());
  return files;
}

void save_checkpoint(state::Checkpoints& checkpoints, const optim::Optimizer& optimizer, const recipes::Recipe& recipe,
                     const std::string& run_id, const std::filesystem::path& tokenizer) {
  const state::Snapshot snapshot = optimizer.snapshot();
  const Schema& schema = optimizer.stepper().schema();
  std::vector<float> parameters(schema.values());
  std::memcpy(parameters.data(), snapshot.sections.front().bytes.data(), parameters.size() * sizeof(float));
  std::vector<state::NamedFile> files;
  if (recipe.job == recipes::kAlbert) {
    files = {{"config.json", bytes_of(recipes::config_json(recipe))},
             {"tokenizer_config.json", bytes_of(recipes::tokenizer_config_json(recipe))},
             {"spiece.model", read_file(tokenizer, kFileBytesMax)}};
  }
  std::vector<state::Section> sections(snapshot.sections.begin() + 1, snapshot.sections.end());
  for (state::Section& own : optimizer.own_sections()) sections.push_back(std::move(own));
  checkpoints.save(
      {snapshot.epoch, run_id, state::index_snapshot(snapshot).root(), schema, parameters, sections, files});
}

state::Snapshot snapshot_of(const state::Checkpoint& checkpoint) {
  state::Snapshot snapshot;
  snapshot.epoch = checkpoint.epoch;
  const auto parameters = std::as_bytes(std::span(checkpoint.parameters));
  snapshot.sections.push_back({"parameters", Bytes(parameters.begin(), parameters.end())});
  snapshot.sections.insert(snapshot.sections.end(), checkpoint.sections.begin(), checkpoint.sections.end());
  return snapshot;
}

}  // namespace collab::jobs
