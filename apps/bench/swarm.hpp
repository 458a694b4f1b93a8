#pragma once
// The peers of a measurement, seen from the process that started them.

#include "averaging/load_balance.hpp"
#include "child.hpp"
#include "crypto/peer_id.hpp"
#include "matchmaking/group.hpp"
#include "shaped_lines.hpp"
#include "workload.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::bench {

/// What one round cost. Per peer: in the order in which they were started.
struct RoundFigures {
  double seconds = 0;                     ///< from "go" to the last "done", in this process
  std::vector<double> seconds_of_peer;    ///< of all_reduce, in each peer
  std::vector<double> cpu_s;              ///< user and system time of the process, with serving groupmates afterwards
  std::vector<std::uint64_t> bytes_sent;  ///< frames to all others
  double exchange_s = 0;                  ///< of the slowest peer, like the next two
  double commit_s = 0;
  double apply_s = 0;
  double predicted_s = 0;   ///< of the peers the longest, before the round; from rates that they have measured
  double counted = 1;       ///< share of the values in which all inputs are, as the peers know
  std::uint32_t views = 1;  ///< plans that were needed; more than one: somebody was taken for lost
};

/// What the peers are after the last round.
struct Results {
  std::vector<std::string> digests;  ///< of the values, in hexadecimal
  bool equal_bytes = false;
  double max_relative_error = 0;        ///< the largest of all peers
  std::uint64_t peak_memory_bytes = 0;  ///< resident set of the largest process
  std::uint64_t descriptors = 0;        ///< open in the process with most
};

/// What is done to one peer in the middle of a round.
struct Strike {
  std::size_t victim = 0;
  int signal = 0;      ///< SIGKILL or SIGSTOP
  double after_s = 0;  ///< since "go"
};

/// How a round with a strike ended for one peer.
struct End {
  bool answered = false;  ///< else it is dead, or still frozen
  bool committed = false;
  bool unchanged = false;  ///< its values are those that it brought
  double seconds = 0;      ///< since "go"
  std::string digest;      ///< of its values
};

struct StruckRound {
  std::vector<End> ends;  ///< by peer
  double seconds = 0;     ///< from "go" until the last of the others was done
  double noticed_s = 0;   ///< from a SIGKILL until the last of the others had lost its connection to the victim

  /// Whether all of the others committed, and all with the same bytes.
  bool committed() const;
  /// Whether whoever committed has the same bytes, the victim too, and whoever did not has its own values.
  bool all_or_nothing() const;
};

struct Meeting {
  std::vector<double> seconds;  ///< by peer: from the last one's declaration until it had its group
  bool full = false;            ///< one group of everybody
};

/// A pass over a grid, of all peers.
struct PassOfAll {
  double seconds = 0;           ///< from "go" to the last "done", in this process
  std::size_t rounds = 0;       ///< of the grid, of all peers
  std::size_t rounds_full = 0;  ///< of them, in a group of all who belong to it, with the values of each
};

/// What one peer received, and what it cost there.
struct Carried {
  std::uint64_t bytes = 0;  ///< of bulk, after the first second
  double seconds = 0;       ///< in which those came
  std::uint64_t bytes_in_all = 0;
  double cpu_s = 0;
  std::vector<double> answers;  ///< seconds, of small questions that it asked
};

/// How one peer came to a state; of who only gave it `cpu_s` alone.
struct Fetched {
  bool joined = false;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::size_t donors = 0;
  bool whole = false;
  double cpu_s = 0;
};

/// What one peer wrote to the directory, and saw there.
struct Written {
  std::vector<double> stored_s;  ///< by record
  std::vector<double> found_s;
  std::size_t missing = 0;
  double seconds = 0;  ///< that all of it took
  double cpu_s = 0;
  using Versions = std::map<std::size_t, double>;  ///< when, by the steady clock
  Versions written_at;
  std::map<std::size_t, Versions> seen_at;  ///< by index of who wrote it
};

/// Every failure is thrown: `Failure(machine)` names the peer that died, was late or could not average.
class Swarm {
 public:
  /// Starts the processes and connects each to all others.
  Swarm(const Workload& workload, const std::string& log_level);

  /// One round with its own inputs, of those who were not killed. `number` > 0, each once.
  RoundFigures average(std::uint64_t number);
  /// From now on peers note when connections end. Costs each loop a look a millisecond.
  void watch_links();
  /// The same with a strike in it. Who is killed is in no round any more; who is stopped waits for thaw().
  StruckRound average_with(std::uint64_t number, const Strike& strike);
  /// The victim of the last round goes on: its own end of that round. All others are there for it until then.
  End thaw(std::size_t victim);
  /// Everybody looks for a group, each so many seconds from now. `number` > 0, each once.
  Meeting seek(std::uint64_t number, const std::vector<double>& after);
  /// Everybody's values are averaged over a grid of `radices`. `number` > 0, each once.
  PassOfAll pass(std::uint64_t number, const std::vector<std::uint32_t>& radices);
  /// The first sends frames to the second, or each to the other, for so long; of a relay between them there is
  /// `cpu_s`. `number` > 0, each once.
  std::vector<Carried> carry(std::uint64_t number, double seconds, bool both_ways, std::size_t frame_bytes);
  /// The first `joiners` fetch the state that all others hold. By peer.
  std::vector<Fetched> fetch(std::size_t joiners);
  /// Each writes so many records, one in so many seconds, and sees those of the others. Once.
  std::vector<Written> write_records(std::size_t records, double every_s);
  /// Of the round before.
  Results results();
  /// That a round takes if the lines carry nothing but encoded values, and nobody computes; 0 on loopback.
  double ideal_seconds() const { return lines_.empty() ? 0 : plan().seconds; }

 private:
  averaging::LoadPlan plan() const;
  TimePoint answer_deadline() const;
  matchmaking::Group group_of(std::uint64_t round) const;
  std::vector<nlohmann::json> ask_all(const nlohmann::json& order, TimePoint deadline);
  std::vector<nlohmann::json> ask(const std::vector<bool>& whom, const nlohmann::json& order, TimePoint deadline);
  std::vector<nlohmann::json> ask_each(const std::vector<bool>& whom,
                                       const std::function<nlohmann::json(std::size_t)>& order, TimePoint deadline);
  void prepare(std::uint64_t number, TimePoint deadline);
  void look_at(const std::vector<bool>& whom, std::vector<End>& ends, TimePoint deadline);
  std::string name(std::size_t index) const;

  Workload workload_;
  CodecMap codecs_;
  std::vector<Line> lines_;  // by peer; none: loopback
  std::optional<ShapedLines> network_;
  Children peers_;
  std::vector<bool> alive_;  // by peer
  std::vector<PeerId> ids_;
};

}  // namespace collab::bench
