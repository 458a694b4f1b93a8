#pragma once
// Keeps checkpoints of a run: a copy of the state every so many epochs, and the last one, so that a swarm that died can
// begin where it was.

#include "base/log.hpp"
#include "base/random.hpp"
#include "directory/directory.hpp"
#include "monitor/events.hpp"
#include "net/endpoint.hpp"
#include "progress/tracker.hpp"
#include "recipes/recipe.hpp"
#include "state/checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace collab::coordinator {

struct KeeperOptions {
  std::string run_id;
  recipes::Recipe recipe;
  std::filesystem::path tokenizer;  ///< goes into each checkpoint of an albert
  std::filesystem::path folder;     ///< of the checkpoints
  std::uint64_t every = 50;         ///< epochs, at least 1
  std::size_t keep = 5;             ///< checkpoints; the oldest go
};

/// Fetches the state from the peers, and tells them under key "keeper" what it has: who leaves waits for that.
/// Thread safety: none; belongs to the node's loop.
class Keeper {
 public:
  /// All of it outlives the keeper.
  struct Context {
    net::Endpoint& net;
    Clock& clock;
    directory::Directory& directory;
    progress::Tracker& tracker;
    asio::any_io_executor workers;
    Log& log;
    monitor::Events& events;
    Random random;
  };

  Keeper(Context context, KeeperOptions options);

  /// Until cancelled.
  Task<> run();
  /// Nobody who leaves waits for this keeper any more.
  void leave();
  /// When the newest checkpoint was written; none: not since the begin.
  std::optional<TimePoint> saved_at() const noexcept { return saved_at_; }

 private:
  bool is_last_state(std::uint64_t epoch) const;
  void tell();
  Task<bool> keep(std::uint64_t epoch);
  Task<std::optional<state::Snapshot>> fetch(std::uint64_t epoch);
  /// Empty, or why nothing was written.
  Task<std::string> write(state::Snapshot snapshot);

  Context context_;
  KeeperOptions options_;
  state::Checkpoints checkpoints_;
  std::uint64_t kept_ = 0;  // the epoch of the newest
  std::optional<TimePoint> saved_at_;
};

}  // namespace collab::coordinator
