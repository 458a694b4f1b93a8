#pragma once
// What a Collaboration is made of. Only sources of `optim` and `jobs` include this.

#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "crypto/identity.hpp"
#include "epoch/auxiliary.hpp"
#include "epoch/member.hpp"
#include "net/limited_network.hpp"
#include "net/tcp.hpp"
#include "node/node.hpp"
#include "node/runtime.hpp"
#include "optim/collaboration.hpp"
#include "progress/tracker.hpp"
#include "state/store.hpp"

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

namespace collab::optim {

/// What a node is told, but for its name and the text that goes with it. Throws `Failure(usage)` for an address, a link
/// or a run book that cannot be read.
node::NodeOptions node_options_of(const RunOptions& options);

/// Objects of the loop are made and destroyed on the loop, in the order of their declaration and in reverse.
struct Collaboration::Parts {
  struct Visit;

  explicit Parts(RunOptions run_options);
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  /// Everything that a member of the run has, as soon as the manifest is known.
  void assemble();
  /// Runs the node and what belongs to it until `stop` is set. The one task of this object on the loop.
  Task<> serve();
  /// `laggards_until`: so long it stays for those who are behind.
  Task<> leave(TimePoint laggards_until);
  /// The first part of it, in `member` or `auxiliary`.
  Task<> leave_rounds();
  /// Once `member` and `auxiliary` are null: waits until nobody is in them any more.
  Task<> visited();
  Task<Result<std::shared_ptr<const state::Snapshot>>> snapshot(std::uint64_t epoch);
  /// What others ask of `member`.
  Task<net::Answer> take_on(PeerId from, Frame request, TimePoint deadline);
  Task<net::Answer> was_counted(PeerId from, Frame request);

  // any thread
  /// Keeps what a task let out, for the user's thread.
  void fail(std::string_view task, std::exception_ptr what);
  /// Throws what `fail` kept.
  void check();
  void tell(Event event);
  /// Bytes of all classes of traffic since the start; `direction`: sent or received.
  double moved(const char* direction) const;
  void measure_rates(Progress& progress);
  /// Calls the user's callback with what has happened. On the trainer's thread.
  void deliver_events();
  /// Nothing is asked of the trainer from now on.
  void tell_trainer_of_leaving();
  const Identity& identity() const noexcept { return node->identity(); }

  RunOptions options;
  node::RunName run;
  std::filesystem::path home;
  std::string name;
  PeerId id;
  Log log;
  Metrics metrics;
  std::uint64_t incarnation = 0;
  std::uint64_t seed = 0;  ///< of everything on the loop that needs chance
  node::Runtime runtime;
  net::TcpNetwork tcp;
  net::LimitedNetwork network;

  // on the loop
  std::unique_ptr<node::Node> node;
  std::unique_ptr<progress::Tracker> tracker;
  std::unique_ptr<state::Store> store;
  epoch::Member* member = nullptr;                    ///< the optimizer's; null before and after. See Visit
  std::shared_ptr<const state::Snapshot> last_state;  ///< for who may want it once the trainer has ended; null: nobody
  std::uint64_t epochs = std::numeric_limits<std::uint64_t>::max();  ///< of the run; set before there is a member
  epoch::Auxiliary* auxiliary = nullptr;  ///< of a peer that only reduces; null before and after
  unsigned visits = 0;  ///< tasks of this object that are in `member` or `auxiliary`: those stay until they are out
  std::unique_ptr<Signal> visit_over;
  std::unique_ptr<Signal> stopping;
  bool stop = false;
  std::function<void()> on_failure;  ///< the optimizer's: lets the trainer go on

  // on the user's threads
  std::optional<node::Manifest> manifest;
  std::future<void> served;
  bool started = false;
  bool gave_up = false;  ///< looking for the run, because the user said so
  std::atomic<bool> left = false;
  std::optional<TimePoint> leave_by;  ///< set by whoever begins to leave before leave()
  std::mutex mutex;                   ///< of what follows
  struct Rates {
    TimePoint at{};
    double sent = 0;
    double received = 0;
    double up_bytes_per_s = 0;
    double down_bytes_per_s = 0;
  };
  Rates rates;
  std::function<void()> on_leave;  ///< the optimizer's: nothing is asked of the trainer any more
  std::exception_ptr failure;
  std::deque<Event> events;
  std::function<void(const Event&)> callback;
};

}  // namespace collab::optim
