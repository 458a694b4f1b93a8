#include "jobs/peer_main.hpp"

#include "cli/program.hpp"
#include "jobs/peer_aside.hpp"
#include "jobs/peer_checkpoint.hpp"
#include "jobs/peer_doctor.hpp"
#include "jobs/peer_front.hpp"
#include "jobs/peer_run.hpp"

#include <future>

namespace collab::jobs {
namespace {

/// As often as its owner lets it.
int take_part(const Registry& jobs, const node::Config& config, const std::string& link) {
  const PeerRole role = role_of(config);
  Owner owner(config);
  while (owner.await()) {
    const auto stay = [&] {
      return role == PeerRole::trainer ? run_peer(jobs, config, owner, link)
                                       : run_aside(jobs, config, owner, link, role);
    };
    try {
      // in a thread of its own: who computes gives up its priority for good
      const int code = std::async(std::launch::async, stay).get();
      if (!owner.rests()) return code;
    } catch (const Failure& failure) {
      const bool looked_for_the_run = failure.code() == ExitCode::done;
      if (!owner.rests() || !looked_for_the_run) throw;
    }
  }
  return static_cast<int>(ExitCode::done);
}

int use_jobs(const Registry& jobs, const node::Config& config, const cli::Parsed& parsed) {
  if (parsed.command == "doctor") return examine(jobs, config, parsed.argument);
  if (parsed.command == "export") return export_checkpoint(config);
  if (parsed.command == "eval") return evaluate_checkpoint(jobs, config);
  try {
    return take_part(jobs, config, parsed.argument);
  } catch (const Failure& failure) {
    throw after_failed_start(config, parsed.argument, failure);
  }
}

}  // namespace

int peer_main(const Registry& jobs, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto with_jobs = [&](const node::Config& config, const cli::Parsed& parsed) {
    return use_jobs(jobs, config, parsed);
  };
  return cli::run_program("collab-peer", [&] { return peer_front(arguments, with_jobs); });
}

}  // namespace collab::jobs
