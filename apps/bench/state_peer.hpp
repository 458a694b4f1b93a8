#pragma once
// What a peer of `collab-bench state` does: it gives a state to joiners, or is one.

#include "base/random.hpp"
#include "base/task_group.hpp"
#include "state/download.hpp"
#include "state/store.hpp"
#include "workload.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace collab::bench {

struct FetchedState {
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::size_t donors = 0;  ///< that gave some of it
  bool whole = false;      ///< every byte is the donors'
};

/// Thread safety: none; belongs to the node's loop.
class StatePeer {
 public:
  struct Needs {
    net::Endpoint& net;
    Clock& clock;
    Log& log;
    asio::any_io_executor loop;
    asio::any_io_executor workers;
  };

  /// Adds the rows of the state protocol to `needs.net`. The state is one vector of `workload`, made when somebody
  /// asks.
  StatePeer(const Needs& needs, const Workload& workload);

  /// From now on it answers; its service lives in `tasks`. Holds the state when it `gives`.
  void start(TaskGroup& tasks, bool gives);
  /// All of it from `donors`, who hold it, and from who fetches it too. Errors: those of the state protocol.
  Task<Result<FetchedState>> fetch(std::vector<PeerId> donors);

 private:
  std::shared_ptr<const state::Snapshot> make() const;

  Needs needs_;
  Workload workload_;
  Random random_;
  std::shared_ptr<const state::Snapshot> held_;
  state::Store store_;
};

}  // namespace collab::bench
