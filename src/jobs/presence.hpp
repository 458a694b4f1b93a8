#pragma once
// One stay of this program in a run, whatever it does there: joining, and what is said of it.

#include "cli/program.hpp"
#include "jobs/owner.hpp"
#include "jobs/peer_output.hpp"
#include "jobs/peer_status.hpp"
#include "node/config.hpp"
#include "optim/collaboration.hpp"
#include "recipes/recipe.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace collab::jobs {

class Presence {
 public:
  /// Both outlive it.
  Presence(const node::Config& config, Owner& owner, optim::RunOptions options);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  /// Joins, and reads what the run trains. Throws `Failure`.
  void join();
  /// From now on `collab-peer status` and `leave` find this program.
  void answer() { status_.emplace(collaboration_); }
  void leave();
  /// Its progress and, once, how its dials travel.
  void show(const optim::Progress& progress);
  /// By Ctrl+C, by `collab-peer leave`, or because its owner wants it to rest.
  bool asked_to_stop();

  const node::Config& config() const noexcept { return config_; }
  PeerOutput& output() noexcept { return owner_.output(); }
  optim::Collaboration& run() noexcept { return collaboration_; }
  /// After join().
  const recipes::Recipe& recipe() const noexcept { return recipe_; }
  /// Since it began.
  double hours() const;

 private:
  void say_event(const optim::Event& event);
  std::uint64_t carried();

  const node::Config& config_;
  Owner& owner_;
  cli::Interrupt interrupt_;
  PeerOutput& output_;
  optim::Collaboration collaboration_;
  recipes::Recipe recipe_;
  std::optional<PeerStatus> status_;
  bool told_path_ = false;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace collab::jobs
