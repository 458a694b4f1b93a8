#pragma once
// What must hold in every run, checked with the knowledge of all peers.

#include "crypto/peer_id.hpp"
#include "epoch/run_epoch.hpp"
#include "sim/ledger.hpp"
#include "sim/liveness.hpp"
#include "sim/owed.hpp"
#include "sim/round_check.hpp"
#include "sim/violation.hpp"
#include "sim/witness.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace collab::sim {

struct InvariantOptions {
  explicit InvariantOptions(CodecMap map) : codecs(std::move(map)) {}
  CodecMap codecs;
  std::uint64_t weight_min = 0;      ///< of a committed epoch
  std::uint64_t target_batch = 0;    ///< that is there when an epoch begins
  std::uint64_t units_per_pass = 0;  ///< 0: samples are no units
  LivenessOptions live;
};

/// agree: all steps of one epoch end with equal parameters. atomic: parameters move by a step or a fetched state only,
/// and a failed round gives back to the bit what it took. mean: a committed result is that of the senders it names.
/// begin: when an epoch begins, its target batch is there. units: the ledgers of one epoch are equal, and say what was
/// computed; nothing is left out of a pass. ledger (no sample, so no unit, counts twice), owed and live: see there.
/// Memory: what was handed over in the last few epochs.
class Invariants {
 public:
  Invariants(Clock& clock, InvariantOptions options);

  /// Numbers are given in this order.
  void add_peer(const PeerId& id) {
    numbers_.emplace(id, numbers_.size());
    owed_.add_peer(id);
  }
  /// These peers and all others do not hear of each other any more: from now on each side has a history of its own,
  /// and whoever fetches the other's state goes over to it.
  void split(const std::vector<std::size_t>& side);
  /// Nobody can dial it: it may own no segment.
  void hide(std::size_t peer) { hidden_.insert(peer); }
  /// The next hand-over of the peer is for `group`, in words of the log, of so many peers; or the last one of `epoch`,
  /// if it was for a try that failed.
  void begun(std::size_t peer, std::uint64_t epoch, const std::string& group, std::uint64_t peers);
  void handed_over(const HandOver& mine);
  void sends(std::size_t peer, std::span<const float> values, std::uint64_t weight);
  void gave_back(std::size_t peer, std::span<const float> values, std::uint64_t weight, const Digest& parameters);
  /// What a leaver hands on is taken on once or never, by one peer, and whole.
  void handed_on(const HandOver& mine);
  std::vector<SampleRun> taken_on(std::size_t peer, const PeerId& from, std::uint64_t samples,
                                  std::span<const float> values);
  void dropped(std::size_t peer, std::span<const SampleRun> samples);
  void told_lost(std::size_t peer, std::uint64_t samples) { ledger_.told_lost(peer, samples); }
  void stepped(const StepTaken& step);
  void restored(std::size_t peer, std::uint64_t epoch, const Digest& parameters);
  void has_ledger(std::size_t peer, std::uint64_t epoch, const data::Ledger& ledger);
  void committed(std::size_t peer, const epoch::EpochReport& report);
  void decided(std::size_t peer);
  /// It is killed without a word. A result that it alone had, for a moment, is as though it had never been: the others
  /// make that epoch anew, and what its disk brings back of it is a state that differs, as a spoilt one.
  void died(std::size_t peer);
  /// The process is gone, `blank`: and its disk.
  void killed(std::size_t peer, bool blank);
  /// Banned from now on, or no more. A banned peer may take a last step that is its own: it may be the one by whom a
  /// round was decided, and nobody asks it any more.
  void expelled(std::size_t peer, bool is);
  /// Bad memory gave it these parameters: it may differ from others until it has fetched theirs, and so may whoever
  /// fetches its state.
  void spoilt(std::size_t peer, const Digest& parameters);
  /// The same of its ledger alone; at the end nobody's is another one.
  void ledger_spoilt(std::size_t peer) { ledger_spoilt_.insert(peer); }
  /// It tells its leaders of more samples than it has.
  void exaggerates(std::size_t peer, bool is);
  bool is_expelled(std::size_t peer) const { return expelled_.contains(peer); }

  /// What a peer holds at the end of a run in which others have come to `newest`. Who was spoilt has three epochs to
  /// heal.
  void ended(std::size_t peer, std::uint64_t epoch, const Digest& parameters, std::uint64_t newest);

  Liveness& live() noexcept { return live_; }
  /// At the end of a run.
  void close();
  void add(std::string invariant, std::vector<std::size_t> peers, std::string text);

  /// The parameters that epoch began with, as the first who took the step had them.
  /// In the history that most peers share, as below.
  std::optional<Digest> parameters_of(std::uint64_t epoch) const;
  std::uint64_t samples_committed() const { return ledger_.samples(common()).count(); }
  /// Of the newest epoch.
  const data::Ledger& newest_ledger() const { return histories_[common()].newest; }
  const Violations& violations() const noexcept { return violations_; }
  /// Samples of each sender in the epoch that `peer` has committed, by peer number; empty when nobody has told yet.
  std::map<std::size_t, Sent> senders_of_epoch(std::size_t peer, std::uint64_t epoch) const;

 private:
  struct Taken {
    std::uint64_t epoch = 0;
    std::vector<float> values;
    std::vector<float> sent;  // what its parts are made of; empty: of `values`
    Contribution contribution;
    std::vector<SampleRun> samples;
    std::uint64_t told_max = 0;  // that an honest leader can have believed it had
  };
  struct HandedOn {
    std::vector<float> values;
    std::vector<SampleRun> samples;
  };
  struct Committed {
    std::string group;
    Digest result{};
    std::uint64_t weight = 0;
    std::map<std::size_t, Sent> senders;
    std::set<std::string> first_groups;  // on a grid: of those whose samples are counted here
  };
  /// What one swarm agrees on.
  struct History {
    std::map<std::uint64_t, Digest> parameters;  // by epoch
    std::map<std::uint64_t, Committed> epochs;
    std::map<std::uint64_t, Digest> ledgers;  // by epoch that begins with it
    data::Ledger newest;
    data::Ledger before;  // the newest
    std::uint64_t newest_epoch = 0;
  };
  struct PeerBooks {
    std::size_t history = 0;
    std::optional<Digest> parameters;  // as of the last step or restore
    TimePoint stepped_at{};
    std::string group;  // of the round it is in; empty when it has its samples back
    Digest averaged{};  // hash of what its last step took
    bool exaggerates = false;
    bool exaggerated = false;  // since its last hand-over
  };

  History& history_of(std::size_t peer) { return histories_[books_[peer].history]; }
  /// As far as anybody in the history of most peers has come.
  std::uint64_t newest_epoch() const;
  /// The history of most peers.
  std::size_t common() const;
  void check_untouched(std::size_t peer, const Digest& parameters, const char* when);
  /// Bent parameters that everybody has come to hold are the swarm's from now on: of two no vote has a majority.
  void take_over(std::uint64_t epoch, const Digest& parameters);
  void first_report(std::size_t peer, const std::string& group, const epoch::EpochReport& report);
  void committed_on_grid(std::size_t peer, const epoch::EpochReport& report);
  /// The round's mean is that of what its senders handed over, and their samples are in the epoch.
  void count_senders(std::size_t peer, std::uint64_t epoch, const averaging::CommittedRound& round);
  void check_told(std::size_t peer, const epoch::EpochReport& report);
  void check_owed(std::size_t peer, const epoch::EpochReport& report);
  void check_owners(std::size_t peer, const averaging::CommittedRound& round);
  void check_applied(std::size_t peer, const epoch::EpochReport& report);
  /// No epoch begins before its batch is there, as far as a leader can know; a group whose members have not all handed
  /// over cannot tell.
  void check_begin(std::size_t peer, const epoch::EpochReport& report);
  void check_weight(std::size_t peer, const Committed& committed, const epoch::EpochReport& report);
  void forget(std::uint64_t before_epoch);

  Clock& clock_;
  InvariantOptions options_;
  Violations violations_;
  Ledger ledger_;
  Owed owed_;
  Liveness live_;
  std::map<PeerId, std::size_t> numbers_;
  std::set<std::size_t> hidden_;
  std::map<std::size_t, PeerBooks> books_;
  std::set<std::size_t> expelled_;
  std::map<std::size_t, std::uint64_t> spoilt_;  // and the swarm's epoch then
  std::set<std::size_t> ledger_spoilt_;
  std::set<Digest> spoilt_parameters_;
  std::set<Digest> dead_parameters_;  // some of those, of an epoch that had died: its ledger is another one, too
  std::map<std::string, std::map<std::size_t, Taken>> taken_;  // by group and peer
  std::map<std::size_t, HandedOn> handed_on_;                  // by leaver, its last, until it is taken on
  std::vector<History> histories_ = std::vector<History>(1);
  bool on_grid_ = false;
};

}  // namespace collab::sim
