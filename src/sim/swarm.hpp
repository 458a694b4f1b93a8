#pragma once
// A whole run in one thread: a coordinator and peers, each the production node and member on a host of its own.

#include "sim/faults.hpp"
#include "sim/peer.hpp"
#include "sim/report.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace collab::sim {

struct SwarmOptions {
  std::uint64_t seed = 1;
  std::size_t peers = 8;
  std::size_t clients = 0;            ///< of them, the last ones: only dial, never listen
  bool coordinator_averages = false;  ///< where nobody can be dialled; it hands the state on then, too
  std::size_t contacts = 0;           ///< of them, the first: everybody was told their address beside the coordinator's
  LinkOptions links;
  LineOptions line;
  std::vector<LineOptions> lines;  ///< by peer, instead; who has none has `line`
  bool equal_split = false;        ///< nobody tells how fast its line is, so all own segments of one size
  std::size_t values = 32'768;
  CodecId codec = CodecId::float16;
  bool codec_by_lines = false;  ///< `codec` is float16, and linear8 where lines are slow
  std::uint64_t target_batch = 1024;
  std::size_t group_size_max = 64;                                        ///< with more peers groups are on a grid
  std::vector<std::uint32_t> grid;                                        ///< its radices; empty: they follow the peers
  std::size_t result_bytes_max = state::StoreOptions().result_bytes_max;  ///< that each peer keeps of the last rounds
  double commit_fraction = 0.5;
  epoch::Delay delay = epoch::Delay::none;
  std::uint64_t microbatch = 4;
  std::uint64_t units_per_pass = 0;  ///< peers lease units of passes so long; 0: each has samples of its own
  double samples_per_s = 16;         ///< of the median peer; log-normal with `spread`, drawn from the seed
  double spread = 0.7;
  std::vector<double> rates;  ///< samples/s by peer, instead; empty: drawn
  bool trains = true;         ///< false: a microbatch takes months, so no epoch ends
  Duration weigh_every{};     ///< what the run holds is looked at so often; zero: never
  double noise = 0.5;         ///< of one sample's gradient
  StepOptions step;
  std::uint64_t epochs = 0;            ///< ends when every live peer has so many; 0: by `length`
  Duration length{};                   ///< virtual; with `epochs`: the budget, zero: four times what the rates promise
  std::uint64_t checkpoint_every = 0;  ///< epochs: a peer that dies goes back to its last; 0: it loses nothing
  bool leave_at_end = false;           ///< who has had the last epoch leaves, as programs do
  /// Of the peers but the first 30 % can be dialled, 40 % are behind a box that maps endpoint-independently, 20 %
  /// behind a symmetric one, 10 % get out to port 443 only, where all who listen do so then.
  bool boxes = false;
  Crypto crypto = Crypto::fake;
  Duration clock_ahead_max{};  ///< of a peer's calendar, either way; who is 60 s beside the median is refused
  double drift_ppm_max = 0;    ///< of a peer's clock, either way
  FaultPlan faults;
  Plant plant = Plant::none;
  std::string stop_at;  ///< ends as soon as this invariant is violated; empty: none
  std::uint64_t events_max =
      0;  ///< wake-ups; then the run is a livelock; 0: 5e7, or 2000 a peer and second of `length`
  std::uint64_t aborted_rounds = 0;  ///< the first so many rounds are kept from being decided, at every peer
};

inline constexpr std::size_t kCoordinator = std::numeric_limits<std::size_t>::max();

/// One log event, for who follows a run.
struct TraceLine {
  Duration at{};
  std::size_t peer = 0;  ///< or `kCoordinator`
  std::string event;
  std::string text;  ///< event and fields
};

/// A run's world. Use once. A hang or livelock of the simulation itself is a violation of that name, that says who
/// waits; what a peer's task let out is thrown.
class Swarm {
 public:
  explicit Swarm(SwarmOptions options);
  ~Swarm();
  Swarm(const Swarm&) = delete;
  Swarm& operator=(const Swarm&) = delete;

  /// Sees every event of every peer. Before `run`.
  void trace(std::function<void(const TraceLine&)> see);
  /// The same of the coordinator.
  void trace_coordinator(std::function<void(const TraceLine&)> see);
  /// Asked now and then, in virtual time; true ends the run early. Before `run`.
  void stop_when(std::function<bool(Duration now)> asked);
  Outcome run();

  // after `run`
  /// The samples of each committed epoch by peer, as far as they were reported.
  const std::vector<std::map<std::size_t, Sent>>& samples() const;
  const Quadratic& problem() const;

 private:
  struct World;
  std::unique_ptr<World> world_;
};

/// The same seed twice: adds a violation of determinism when the fingerprints differ.
void check_determinism(const SwarmOptions& options, Outcome& outcome);

}  // namespace collab::sim
