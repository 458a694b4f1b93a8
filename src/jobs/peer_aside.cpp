#include "jobs/peer_aside.hpp"

#include "jobs/peer_files.hpp"
#include "jobs/peer_run.hpp"
#include "jobs/presence.hpp"
#include "optim/auxiliary.hpp"
#include "optim/extras.hpp"
#include "optim/flatten.hpp"
#include "optim/parts.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>
#include <thread>

namespace collab::jobs {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);

const char* name_of(PeerRole role) {
  return role == PeerRole::auxiliary ? "auxiliary" : "monitor";
}

optim::RunOptions options_of(const node::Config& config, const std::string& link, PeerRole role) {
  optim::RunOptions options = run_options_of(config, link);
  options.role = name_of(role);
  if (role == PeerRole::auxiliary && options.client) {
    throw Failure(ExitCode::usage, "an auxiliary averages for others, who must be able to dial it: not with --client",
                  "leave out --client, or --role aux");
  }
  return options;
}

/// The tensors that the run trains; the model itself is gone afterwards.
Schema schema_of(const Registry& jobs, Presence& presence) {
  const RunFiles files = fetch_run_files(presence.run(), presence.config(),
                                         [&](const std::string& text) { presence.output().done(text); });
  const optim::Device cpu = optim::set_up_device(optim::DeviceWish::cpu, 1);
  const RunnableJob runnable = jobs.make({presence.recipe(), files.tokenizer, files.prepared, cpu});
  Schema schema = optim::FlatParameters(optim::named_parameters(runnable.job->module())).schema();
  optim::Extras extras;
  for (const auto& [name, buffer] : optim::named_buffers(runnable.job->module())) extras.track(name, buffer);
  schema.tensors.insert(schema.tensors.end(), extras.tensors().begin(), extras.tensors().end());
  return schema;
}

/// An epoch is over, as the others' records tell.
void tell_epoch(Presence& presence, const optim::Progress& progress, std::uint64_t rounds) {
  presence.output().epoch(progress);
  presence.output().json({{"event", "epoch"},
                          {"epoch", progress.epoch},
                          {"loss", std::isfinite(progress.loss) ? nlohmann::json(progress.loss) : nlohmann::json()},
                          {"peers", progress.peers},
                          {"rounds", rounds}});
}

}  // namespace

PeerRole role_of(const node::Config& config) {
  const std::string name = config.text("role");
  if (name == "trainer") return PeerRole::trainer;
  if (name == "aux") return PeerRole::auxiliary;
  if (name == "monitor") return PeerRole::monitor;
  throw Failure(ExitCode::usage, fmt::format("no role \"{}\"", name), "trainer, aux or monitor");
}

int run_aside(const Registry& jobs, const node::Config& config, Owner& owner, const std::string& link, PeerRole role) {
  Presence presence(config, owner, options_of(config, link, role));
  presence.join();
  std::optional<optim::Auxiliary> auxiliary;
  if (role == PeerRole::auxiliary) auxiliary.emplace(presence.run(), schema_of(jobs, presence));
  presence.answer();
  presence.output().done(auxiliary ? "averages for others when they need it" : "looks on");
  const auto rounds = [&] { return auxiliary ? auxiliary->rounds() : 0; };
  optim::Collaboration::Parts& parts = presence.run().parts();
  std::uint64_t epoch = 0;
  while (!presence.asked_to_stop()) {
    std::this_thread::sleep_for(kLook);
    parts.check();
    parts.deliver_events();
    const optim::Progress progress = presence.run().progress();
    presence.show(progress);
    if (progress.epoch > epoch) tell_epoch(presence, progress, rounds());
    epoch = std::max(epoch, progress.epoch);
  }
  const std::uint64_t averaged = rounds();
  presence.leave();
  presence.output().done(auxiliary ? fmt::format("thank you: {} rounds, {:.2f} hours", averaged, presence.hours())
                                   : fmt::format("looked on for {:.2f} hours", presence.hours()));
  presence.output().json(
      {{"event", "left"}, {"role", name_of(role)}, {"rounds", averaged}, {"hours", presence.hours()}});
  return static_cast<int>(ExitCode::done);
}

}  // namespace collab::jobs
