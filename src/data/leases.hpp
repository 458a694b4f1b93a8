#pragma once
// This peer's units of work: leased ahead of need, handed out, given back, done.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/signal.hpp"
#include "base/task.hpp"
#include "data/ledger.hpp"
#include "directory/directory.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace collab::data {

struct LeaseOptions {
  std::uint64_t units_per_pass = std::uint64_t(1) << 40U;  ///< the default never ends
  double ahead_s = 8;                                      ///< units for so long are leased at a time, or for half of
                                                           ///< the time that a pass takes all peers, if that is less,
  std::uint64_t ahead_max = 16'384;                        ///< but not more, nor half of one's share of a pass,
  std::uint64_t ahead_min = 16;                            ///< nor less: who is slow keeps a pass open
  Duration claim_timeout = std::chrono::seconds(3);
  Duration patience = std::chrono::milliseconds(100);  ///< for units; then the hash decides which
  Duration gone = std::chrono::seconds(1);   ///< not among the peers for so long: its leases keep nobody from its units
  Duration avoid = std::chrono::seconds(1);  ///< a run that another had, until his record is here, or his heir's
  Duration ttl_min = std::chrono::seconds(15);  ///< of a lease: 3 x the time its units take, within these bounds
  Duration ttl_max = std::chrono::seconds(100);
};

/// Claims runs under `lease/<pass>` (directory/lease_record.hpp), renews and releases them. When more than half of the
/// storers cannot be reached, owners follow from a hash over the known peers: work goes on, and is counted as unleased.
/// So it does for who has used up its units and waits for more than `patience`; and before a pass is begun, what those
/// hold who are gone is shared out in the same way, for their leases would keep the pass before open. Two who compute
/// the same all the same do so in one epoch, and its round counts one of them (averaging/segment_reducer.hpp).
/// Thread safety: none; belongs to the node's loop.
class Leases {
 public:
  struct Needs {
    directory::Directory& directory;
    Clock& clock;
    Log& log;
    asio::any_io_executor loop;
    PeerId self;
    std::function<std::vector<PeerId>()> peers;  ///< who works, this peer included; in any order
    std::function<double()> units_per_s;         ///< of all of them together; 0: unknown
  };
  Leases(Needs needs, LeaseOptions options);
  ~Leases();

  /// Keeps units ready. Until cancelled. Waits for the first `advance`, before which nobody knows what is committed,
  /// and for the first `take`.
  Task<> run();

  /// Up to `n` units that are ready, in order; fewer, or none, while more are being claimed.
  Work take(std::uint64_t n);
  /// Computed for nothing: the epoch ended without them. Handed out again, unless they are committed.
  void give_back(const Work& work);
  /// Whether some of it was handed out here, or is in a lease of anybody but `holder`.
  bool is_of_others_than(const PeerId& holder, const Work& work) const;
  /// Computed by another, who leaves them to this peer. They are leased here as soon as its own lease
  /// is gone, for storers grant them to one at a time.
  void inherit(const Work& work);
  /// Not computed here: anybody may lease them.
  void release(const Work& work);
  /// The run's state is that of another epoch now.
  void advance(const Ledger& ledger);
  /// Of this peer.
  void speed(double units_per_s) { units_per_s_ = units_per_s; }
  /// Gives everything back: a planned leave.
  void leave();

  /// Notified when units became ready.
  Signal& ready() noexcept { return ready_signal_; }
  const Work& held() const noexcept { return held_; }
  /// Units that were handed out without a lease, in all.
  std::uint64_t unleased() const noexcept { return unleased_; }

 private:
  std::uint64_t ahead() const;
  bool runs_low() const;
  Work choose(std::uint64_t wanted, Work taken) const;
  std::vector<PeerId> peers() const;
  struct Others {
    Work all;      ///< what live records of others name
    Work present;  ///< of those who are not gone
  };
  Others of_others();
  bool is_gone(const PeerId& holder, const std::vector<PeerId>& present);
  Work of_pass(const Work& work, std::uint64_t pass) const;
  Task<> claim_some();
  Duration ttl() const;
  void take_over(const Work& run);
  void avoid(const Work& run);
  void avoid_let_go(const Work& others);
  void publish_passes();
  void lease_inherited();
  Work taken(Work by_others);
  Work own_runs(std::uint64_t wanted, const Work& by_others, std::uint64_t end);
  void feed_the_starved(std::uint64_t n);
  bool fill_gaps(std::uint64_t wanted, const Work& next, const Others& others);
  void drop_disputed(const Work& others);
  void drop_lapsed();

  Needs needs_;
  LeaseOptions options_;
  Ledger ledger_;
  bool known_ = false;
  bool left_ = false;
  Work held_;                                                           // ours, not committed
  Work ready_;                                                          // of them, not handed out
  Work inherited_;                                                      // of them, not leased yet
  std::vector<std::pair<TimePoint, Work>> avoided_;                     // until then
  Work of_others_before_;                                               // when this peer last claimed something
  std::map<std::uint64_t, std::unique_ptr<directory::Watch>> watches_;  // by pass
  std::map<std::uint64_t, Work> published_;                             // by pass
  double units_per_s_ = 0;
  std::uint64_t largest_take_ = 0;
  std::uint64_t unleased_ = 0;
  bool leasing_ = true;
  bool began_ = false;                         // units were ready once
  std::optional<TimePoint> starved_since_;     // nothing is ready, and somebody asks
  std::map<PeerId, TimePoint> missing_since_;  // holders of leases who are not among the peers
  std::optional<TimePoint> claiming_since_;    // while a claim waits, what is published is the claim's
  Work claiming_;
  TimePoint inherited_at_{};
  TimePoint looked_at_{};
  Signal wanted_;
  Signal ready_signal_;
};

}  // namespace collab::data
