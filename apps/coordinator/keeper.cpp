#include "keeper.hpp"

#include "base/file.hpp"
#include "base/offload.hpp"
#include "recipes/albert.hpp"
#include "state/download.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace collab::coordinator {
namespace {

constexpr Duration kLookAtEpochs = std::chrono::seconds(1);
constexpr Duration kRetryMin = std::chrono::seconds(10);  // after a checkpoint that could not be kept; doubles
constexpr Duration kRetryMax = std::chrono::minutes(10);
constexpr Duration kDownloadTime = std::chrono::hours(1);
constexpr Duration kRecordTtl = std::chrono::seconds(60);
constexpr int kTriesMax = 8;  // for one checkpoint, of a state that is over or not there yet when our question arrives
constexpr std::size_t kTokenizerBytesMax = std::size_t(64) << 20U;

Bytes bytes_of(const std::string& text) {
  const auto raw = std::as_bytes(std::span(text));
  return Bytes(raw.begin(), raw.end());
}

/// What transformers wants to see beside the parameters.
std::vector<state::NamedFile> model_files(const recipes::Recipe& recipe, const std::filesystem::path& tokenizer) {
  if (recipe.job != recipes::kAlbert) return {};
  return {{"config.json", bytes_of(recipes::config_json(recipe))},
          {"tokenizer_config.json", bytes_of(recipes::tokenizer_config_json(recipe))},
          {"spiece.model", read_file(tokenizer, kTokenizerBytesMax)}};
}

/// A state of another model, or of none. Of a job that is not known here any number of values will do.
bool fits(const state::Snapshot& snapshot, const recipes::Recipe& recipe) {
  const auto* parameters = snapshot.find("parameters");
  if (parameters == nullptr || parameters != &snapshot.sections.front()) return false;
  const std::size_t bytes = parameters->bytes.size();
  if (recipe.job != recipes::kAlbert) return bytes > 0 && bytes % sizeof(float) == 0;
  return bytes == recipes::parameter_values(recipe) * sizeof(float);
}

/// What the parameters are called. Only peers know the tensors of a job of their own: they stay one vector.
Schema schema_of(const recipes::Recipe& recipe, const state::Snapshot& snapshot) {
  if (recipe.job == recipes::kAlbert) return recipes::albert_schema(recipe);
  const std::size_t values = snapshot.sections.front().bytes.size() / sizeof(float);
  return {{{"parameters", DType::float32, {static_cast<std::int64_t>(values)}, TensorRole::parameter}}};
}

}  // namespace

Keeper::Keeper(Context context, KeeperOptions options)
    : context_(std::move(context)),
      options_(std::move(options)),
      checkpoints_(options_.folder, context_.log, options_.keep) {
  const auto kept = checkpoints_.epochs();
  if (!kept.empty()) kept_ = kept.back();
}

Task<> Keeper::run() {
  tell();
  Duration pause = kRetryMin;
  TimePoint not_before = TimePoint::min();
  bool was_last = false;
  for (;;) {
    co_await context_.clock.sleep_until(context_.clock.now() + kLookAtEpochs);
    const auto epoch = context_.tracker.global_epoch();
    if (!epoch || *epoch <= kept_) continue;
    const bool last = is_last_state(*epoch);
    const bool news = last && !was_last;  // who leaves waits for us now, whatever happened before
    was_last = last;
    if (!last && *epoch < kept_ + options_.every) continue;
    if (!news && context_.clock.now() < not_before) continue;
    const bool saved = co_await keep(*epoch);
    if (saved) tell();
    // every try costs donors an upload: a disk that is full stays so for a while
    pause = saved || news ? kRetryMin : std::min<Duration>(2 * pause, kRetryMax);
    if (!saved) not_before = context_.clock.now() + pause;
  }
}

/// Nobody adds to this state: the run has no more epochs, or nobody is left who gathers for the next one.
bool Keeper::is_last_state(std::uint64_t epoch) const {
  return epoch >= options_.recipe.schedule.total_epochs || context_.tracker.taking_part().empty();
}

void Keeper::tell() {
  progress::KeeperRecord record;
  record.epoch = kept_;
  context_.directory.publish(std::string(progress::kKeeperKey), "", progress::encode(record), kRecordTtl);
}

void Keeper::leave() {
  context_.directory.withdraw(std::string(progress::kKeeperKey), "");
}

Task<bool> Keeper::keep(std::uint64_t epoch) {
  auto snapshot = co_await fetch(epoch);
  if (!snapshot) co_return false;
  const std::uint64_t fetched = snapshot->epoch;
  const std::string problem = co_await write(std::move(*snapshot));
  if (!problem.empty()) {
    context_.log.error("keeper.failed", {{"epoch", epoch}, {"reason", problem}});
    context_.events.add({monitor::EventType::alert, epoch, {}, {{"text", problem}}});
    co_return false;
  }
  kept_ = fetched;
  saved_at_ = context_.clock.now();
  context_.log.info("keeper.saved", {{"epoch", fetched}});
  context_.events.add({monitor::EventType::checkpoint_saved, fetched, {}, {}});
  co_return true;
}

Task<std::optional<state::Snapshot>> Keeper::fetch(std::uint64_t epoch) {
  const auto donors = context_.tracker.donors(0);
  if (donors.empty()) co_return std::nullopt;
  state::WantedState wanted;
  wanted.epoch = epoch;
  wanted.deadline = context_.clock.now() + kDownloadTime;
  const state::Context download{context_.net, context_.clock, context_.workers, context_.log, context_.random};
  const state::OnProgress nothing_to_tell;
  auto snapshot = co_await state::download(download, wanted, donors, nothing_to_tell);
  state::EpochInstead epochs;
  for (int tries = 0; !snapshot && tries < kTriesMax; ++tries) {
    const auto instead = epochs.after(snapshot.error(), wanted.epoch, options_.recipe.schedule.total_epochs);
    if (!instead || *instead <= kept_) break;
    wanted.epoch = *instead;
    snapshot = co_await state::download(download, wanted, context_.tracker.donors(0), nothing_to_tell);
  }
  if (!snapshot) {
    context_.log.warn("keeper.failed", {{"epoch", epoch}, {"reason", snapshot.error().reason}});
    co_return std::nullopt;
  }
  if (!fits(*snapshot, options_.recipe)) {
    context_.log.warn("keeper.failed", {{"epoch", epoch}, {"reason", "the state has other sizes than the recipe"}});
    co_return std::nullopt;
  }
  co_return std::move(*snapshot);
}

Task<std::string> Keeper::write(state::Snapshot snapshot) {
  struct Written {
    state::Snapshot snapshot;
    Schema schema;
    std::vector<state::NamedFile> files;
    std::string problem;
  };
  const auto written = std::make_shared<Written>();
  written->snapshot = std::move(snapshot);
  written->schema = schema_of(options_.recipe, written->snapshot);
  written->files = model_files(options_.recipe, options_.tokenizer);
  const auto work = [this, written] {
    try {
      const auto& sections = written->snapshot.sections;
      std::vector<float> parameters(written->schema.values());
      std::memcpy(parameters.data(), sections.front().bytes.data(), sections.front().bytes.size());
      checkpoints_.save({written->snapshot.epoch, options_.run_id, state::index_snapshot(written->snapshot).root(),
                         written->schema, parameters, std::span(sections).subspan(1), written->files});
    } catch (const Failure& failure) {  // a full disk must not end the run
      written->problem = failure.cause();
    }
  };
  co_await offload(context_.workers, work);
  co_return written->problem;
}

}  // namespace collab::coordinator
