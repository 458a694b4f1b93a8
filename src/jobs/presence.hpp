#pragma once
// One stay of this program in a run, whatever it does there: joining, and what is said of it.

#include "cli/program.hpp"
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
  Presence(const node::Config& config, optim::RunOptions options);

  /// Joins, and reads what the run trains. Throws `Failure`.
  void join();
  /// From now on `collab-peer status` and `leave` find this program.
  void answer() { status_.emplace(collaboration_); }
  void leave();
  /// Its progress and, once, how its dials travel.
  void show(const optim::Progress& progress);
  /// By Ctrl+C, or by `collab-peer leave`.
  bool asked_to_stop() const { return interrupt_.asked() || (status_ && status_->asked_to_leave()); }

  const node::Config& config() const noexcept { return config_; }
  PeerOutput& output() noexcept { return output_; }
  optim::Collaboration& run() noexcept { return collaboration_; }
  /// After join().
  const recipes::Recipe& recipe() const noexcept { return recipe_; }
  /// Since the program began.
  double hours() const;

 private:
  void say_event(const optim::Event& event);

  const node::Config& config_;
  cli::Interrupt interrupt_;
  PeerOutput output_;
  optim::Collaboration collaboration_;
  recipes::Recipe recipe_;
  std::optional<PeerStatus> status_;
  bool told_path_ = false;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace collab::jobs
