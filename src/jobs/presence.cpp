#include "jobs/presence.hpp"

#include "jobs/peer_run.hpp"
#include "optim/parts.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace collab::jobs {
namespace {

constexpr const char* kVersion = "0.1.0";

}  // namespace

Presence::Presence(const node::Config& config, Owner& owner, optim::RunOptions options)
    : config_(config), owner_(owner), output_(owner.output()), collaboration_(std::move(options)) {}

Presence::~Presence() {
  owner_.left(carried(), interrupt_.asked());
}

std::uint64_t Presence::carried() {
  return collaboration_.parts().network.carried();
}

bool Presence::asked_to_stop() {
  return interrupt_.asked() || (status_ && status_->asked_to_leave()) || owner_.must_rest(carried());
}

void Presence::join() {
  output_.done(fmt::format("collab-peer {}: {} ({}), home {}", kVersion, collaboration_.name(),
                           collaboration_.id().short_text(), collaboration_.home().string()));
  output_.json({{"event", "started"}, {"name", collaboration_.name()}, {"id", collaboration_.id().text()}});
  collaboration_.on_event([this](const optim::Event& event) { say_event(event); });
  collaboration_.start([this](const std::string& what) {
    if (!what.empty()) output_.note(what);
    return !asked_to_stop();
  });
  const node::Manifest& manifest = collaboration_.manifest();
  auto recipe = recipes::from_json(manifest.recipe);
  if (!recipe) {
    throw Failure(ExitCode::incompatible, fmt::format("this run's recipe cannot be read: {}", recipe.error().why),
                  "a newer version of collab");
  }
  recipe_ = *recipe;
  output_.done(fmt::format("run {} found; its key is {}", manifest.run_id, manifest.authority.text()));
  output_.done(fmt::format("{}: target batch {}, codec {}", recipe_.job, manifest.target_batch, manifest.codec));
}

void Presence::show(const optim::Progress& progress) {
  output_.progress(progress);
  if (told_path_ || progress.path.empty()) return;
  told_path_ = true;
  if (progress.path != "tcp") output_.done(fmt::format("path: {}", progress.path));
  output_.json({{"event", "path"}, {"path", progress.path}});
}

void Presence::leave() {
  output_.note("leaving");
  status_.reset();
  collaboration_.leave();
}

double Presence::hours() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count() / 3600;
}

void Presence::say_event(const optim::Event& event) {
  output_.json({{"event", event.type == "round.failed"  ? "round_failed"
                          : event.type == "peer.joined" ? "joined"
                                                        : event.type},
                {"epoch", event.epoch},
                {"text", event.text}});
  if (event.type != "epoch.committed" && !event.text.empty()) output_.note(event.text);
}

}  // namespace collab::jobs
