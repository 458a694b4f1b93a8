#pragma once
// What happened in a simulated run: facts, and ways to show them.

#include "data/ledger.hpp"
#include "sim/fake_crypto.hpp"
#include "sim/faults.hpp"
#include "sim/violation.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace collab::sim {

/// One committed epoch, as the first who reported it told.
struct EpochFact {
  std::uint64_t epoch = 0;
  Duration begun{};      ///< when the first peer's group stood
  Duration committed{};  ///< when the first peer had taken the step
  std::uint64_t weight = 0;
  double loss = 0;                               ///< of the parameters after the step
  std::map<std::size_t, std::uint64_t> weights;  ///< samples by peer
};

/// One virtual minute, or what was left of the last.
struct Minute {
  Duration end{};
  std::size_t peers = 0;  ///< in step at its end
  std::uint64_t epoch = 0;
  double samples_per_s = 0;  ///< of committed epochs
  std::uint64_t rounds_ok = 0;
  std::uint64_t rounds_failed = 0;
  std::uint64_t rounds_behind = 0;
  std::uint64_t bytes = 0;
  double loss = 0;
};

struct FaultFact {
  Fault fault;
  std::optional<Duration> struck;  ///< none: it never did
  std::size_t victim = 0;
  std::string why_not;  ///< when it did not
};

struct PeerFact {
  double rate = 0;  ///< samples per second while it computes
  double busy = 0;  ///< share of its time in step that it computed
  double records_per_s = 0;
  std::uint64_t epoch = 0;
  Duration units_wait_max{};   ///< the longest that its last process's trainer waited for units
  std::uint64_t unleased = 0;  ///< units that this took without a lease
};

/// What a run holds at a moment: what a swarm that does nothing must not gather.
struct Holdings {
  Duration at{};
  std::size_t memory_bytes = 0;  ///< allocated by the whole process
  std::size_t tasks = 0;         ///< of all peers' own groups
  std::size_t timers = 0;
  std::size_t connections = 0;  ///< counted at both ends
  std::size_t streams = 0;      ///< of the network, open or with bytes on the way: two for each connection
};

struct Outcome {
  std::uint64_t seed = 0;
  std::uint64_t fingerprint = 0;
  Crypto crypto = Crypto::real;
  Duration length{};  ///< virtual
  std::uint64_t epochs = 0;
  std::uint64_t samples_committed = 0;
  data::Ledger ledger;  ///< of the newest epoch
  std::uint64_t rounds_failed = 0;
  std::uint64_t checkpoints_refused = 0;  ///< the disk was full
  std::uint64_t checkpoints_damaged = 0;  ///< that a peer came back to, and went to the one before
  std::uint64_t bytes = 0;
  std::vector<EpochFact> epoch_facts;
  std::vector<Minute> minutes;
  std::vector<FaultFact> faults;
  std::vector<PeerFact> peers;
  std::vector<Holdings> holdings;  ///< as often as was asked for
  std::vector<Violation> violations;
  std::size_t violations_total = 0;
  std::vector<std::string> last_events;  ///< of the peers in the first violation
  bool interrupted = false;
  bool out_of_budget = false;  ///< stuck: nobody's timer was set, or too many events

  /// It was to have faults, and none struck: it shows nothing.
  bool fault_missed() const;
  /// From the begin of an epoch's group until its first step, the median; 0 when there was none.
  double median_round_s() const;
};

/// Minutes as lines, then one line of totals and what broke.
std::string text_table(const Outcome& outcome);
nlohmann::json to_json(const Outcome& outcome);
/// Throughput, peers and loss over time, faults as ticks. A picture of its own, without scripts.
std::string to_svg(const Outcome& outcome);

}  // namespace collab::sim
