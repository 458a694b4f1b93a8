#pragma once
// How far is the swarm, and who belongs to it.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "directory/directory.hpp"
#include "progress/self_report.hpp"
#include "progress/standing.hpp"
#include "progress/yardsticks.hpp"

#include <boost/container/flat_map.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace collab::progress {

/// Who was not heard of for so long is none of the recent peers, of which a group needs more than half.
inline constexpr std::chrono::seconds kSilentCounts{10};

struct TrackerOptions {
  std::uint64_t target_batch = 1;
  Duration period_min = std::chrono::milliseconds(500);  ///< between two records of this peer
  Duration period_max = std::chrono::seconds(10);
  /// That each peer reads: in a swarm of more than `period_min` allows for, all write less often. What one adds to the
  /// samples of all is then the smaller, and a leader is told every microbatch.
  double read_per_s_max = 32;
  /// With a server of the directory that was lost, before silence of those who were there means that they are gone: by
  /// then they are back there, too.
  Duration back_after = std::chrono::seconds(20);
  Duration alone_after = std::chrono::seconds(3);  ///< after the first own record: by then others would have shown up
  Duration read_pause = Duration::zero();          ///< after each reading of the others, for who only looks on
  std::size_t history = 128;                       ///< own epochs whose hash is remembered
};

/// Publishes this peer's record, if it ever shows one, and reads everybody's. What others tell is held against their
/// history (SelfReport): every number below is what is believed; the excess is counted as
/// `collab_refused_total{reason="self_report"}`. Thread safety: none; belongs to the node's loop. Memory: a history
/// each of 1024 peers.
class Tracker {
 public:
  struct Needs {
    directory::Directory& directory;
    Clock& clock;
    Log& log;
    Random random;  ///< jitter of the period
    asio::any_io_executor loop;
    PeerId self;
    Metrics* metrics = nullptr;  ///< counts what is refused; null: nobody asks
    /// Who is out of the run: its record says nothing any more, however fresh. Empty: nobody ever is.
    std::function<bool(const PeerId&)> expelled = {};
  };

  Tracker(Needs needs, TrackerOptions options);
  ~Tracker();

  /// Until cancelled. Publishes nothing before the first `show`.
  Task<> run();

  /// Reads everybody's records at once, instead of waiting until they come. Errors: `gone`, `late`.
  Task<Result<>> look(TimePoint deadline);

  /// What this peer says of itself from now on; a new epoch or group, rounds given up and the first rate are published
  /// soon, who its heir is at once, the rest when it is due.
  /// `unix_ms` and `period_ms` are filled in here.
  void show(Record own);
  /// `ask` is called before a record goes out and calls `show`: what is told is so then, however long nothing was
  /// shown. Empty: nobody is asked.
  void ask_before_publishing(std::function<void()> ask) { ask_ = std::move(ask); }
  const Record& own() const noexcept { return own_; }

  /// This peer gathers no more. It stays for those who take part and are behind it, until they have caught up, somebody
  /// else stays who can give them what they lack, or `deadline` has passed; then its record goes. So it does for
  /// keepers that lack its state, when `run_is_over` with that, or when nobody else takes part; and until everybody has
  /// read who its heir is, for that is what its heir is believed by. While `run` runs.
  Task<> leave(TimePoint deadline, bool run_is_over = false);
  /// Whether somebody who takes part is behind this peer, by its last record.
  bool somebody_is_behind() const;

  /// Fresh records of the others, sorted by peer; what is not fresh any more is left out.
  const std::vector<Standing>& others() const;
  /// With this peer's own, when it shows one.
  std::vector<Standing> all() const;

  std::optional<std::uint64_t> global_epoch() const;
  /// This peer's; the swarm's of a peer that only watches.
  std::uint64_t epoch() const { return shown_ ? own_.epoch : global_epoch().value_or(0); }
  /// Peers that gather samples now, this one included.
  std::size_t current_peers() const;
  /// The same with those who fell silent less than 10 s ago and have not said that they stop, or left: a group of more
  /// than half of them is the only one, also while a line is cut for so long, which silences many at once on both of
  /// its sides. Who waits for word of what it may have signed counts from when on it waits no longer.
  std::size_t recent_peers() const;
  /// Who they are, sorted; this one only while it gathers samples.
  std::vector<PeerId> recent() const;
  /// Who takes part by a fresh record, this peer among them when it does.
  std::vector<PeerId> taking_part() const;
  /// Who only dials, by the last record of each, however old; sorted.
  std::vector<PeerId> clients() const;
  /// Two or more take part, and all of them only dial: unless somebody averages for them, no group comes about.
  bool nobody_can_be_dialled() const;
  /// Whether the silence of others means that they are gone. Where all were cut off from the directory at once, or its
  /// only server is there anew, it does not: they are on their way back.
  bool hears_all() const;
  /// The directory has long known of this peer, and when it was asked because nobody else was heard of, it answered and
  /// showed nobody else who takes part or is ahead. Silence alone is no proof: whoever is cut off hears nobody, and
  /// still trusts the answers it got before.
  bool alone() const;
  /// Somebody else was in its round: what the directory said before is out of date, and the record may be on its way.
  void has_met_others() {
    met_others_ = true;
    confirmed_alone_.reset();
  }
  /// Samples of everybody for this peer's epoch.
  double samples() const;
  /// The same of all but this peer and `peers`, with what they have handed over to a round that has not ended: whoever
  /// begins last of several groups must not see fewer samples because the others have begun.
  double samples_elsewhere(const std::vector<PeerId>& peers) const;
  /// The first of the others from `from` on, in the order of ids, of whom there is a record, however old.
  std::optional<Standing> first_from(const PeerId& from) const;
  /// The most that `peer` can honestly have gathered for this peer's epoch in `ahead` from now; of who has no record,
  /// an equal share of the target batch, and so much at least of everybody; of this peer, no bound.
  std::uint64_t samples_max(const PeerId& peer, Duration ahead = Duration(0)) const;
  /// Of what `peer`, that leaves, says to have left to this one, the samples that are believed; empty: nothing of the
  /// present epoch.
  std::optional<std::uint64_t> left_by(const PeerId& peer) const;
  /// Of all who take part.
  double samples_per_s() const;
  /// Seconds until the target batch; infinite: unknown.
  double eta_s() const;
  /// The same when this peer adds no more to what it has.
  double eta_of_others_s() const;
  /// Mean training loss that peers tell; NaN: unknown.
  double loss() const;
  /// Others at `epoch` or beyond, the most advanced first: who can give its state or result.
  std::vector<PeerId> donors(std::uint64_t epoch) const;
  /// Whether there is no record of anybody else in the run, however old.
  bool knows_nobody() const noexcept { return told_.empty(); }
  /// Whether this peer does what one peer must do for `epoch`, such as evaluating: nobody else who takes part has a
  /// lower hash(peer, epoch).
  bool is_lowest_of_epoch(std::uint64_t epoch) const { return turn_in_epoch(epoch) == 0; }
  /// How many of those who take part have a lower hash(peer, epoch) than this peer: they come first.
  std::size_t turn_in_epoch(std::uint64_t epoch) const;

  /// An epoch at which the majority holds other parameters than this peer held, or the same with another ledger,
  /// whatever those tell who are not there yet; empty: none is known.
  std::optional<std::uint64_t> diverged_at() const;
  /// Whether somebody tells that it has handed over to a pass of `epoch`: first groups have begun.
  bool has_handed_over(std::uint64_t epoch) const;
  /// Whether two of those who take part in `epoch`, or are still in the one before, said lately that they are in a
  /// round of a pass: as every round has two, one liar is none.
  bool others_average(std::uint64_t epoch) const;
  /// How long it takes until everybody has read something of everybody.
  Duration spread() const;
  /// Whether `peer` said that it cannot bring the result of a round of `epoch` any more in which it was, in this
  /// `incarnation`, at this `attempt`. Of who has begun a new life since nothing is known: the former one may have
  /// handed the result on.
  bool has_given_up(const PeerId& peer, std::uint64_t epoch, std::uint32_t attempt, std::uint64_t incarnation) const;
  /// Whether this peer's former life may have signed for a result of `epoch` or a later one, not long ago, and this one
  /// does not know it: a record of it was found before the first own one, and the batch was nearly full.
  bool may_have_promised(std::uint64_t epoch) const;
  /// Forgets own hashes: they belonged to a state that was replaced.
  void forget_history() { history_.clear(); }

  /// Notified when a record has come or gone.
  Signal& changed() noexcept { return changed_; }

 private:
  Task<> publish();
  void send();
  Task<> follow();
  Task<> ask_whether_alone();
  bool hears_nobody() const;
  bool somebody_stays() const;
  Task<bool> a_keeper_is_behind(TimePoint deadline);
  Duration period();
  void read_records(const std::vector<directory::Record>& records);
  /// What `peer` is measured by.
  Yardstick yardstick(const PeerId& peer, const Yardsticks& all) const;
  void forget_all_but(const std::vector<PeerId>& present);
  void believe(const directory::Record& from, const Yardsticks& all);
  void credit_heir(const PeerId& leaver);
  void tell_odd(const std::vector<const directory::Record*>& news);
  /// What most of those who take part hold at the swarm's epoch.
  struct Common {
    std::size_t voters = 0;
    std::uint64_t epoch = 0;
    std::optional<Digest> parameters;
  };
  Common common_of() const;
  void note_who_gathers();

  /// In one piece, for all of it is gone through with each reading.
  template <class T>
  using ByPeer = boost::container::flat_map<PeerId, T>;
  struct Told {
    std::uint64_t sequence = 0;
    Record record;
  };

  Needs needs_;
  TrackerOptions options_;
  std::unique_ptr<directory::Watch> watch_;
  ByPeer<Told> told_;            // what is there now, as it was written
  std::vector<PeerId> present_;  // whose that is
  ByPeer<Record> known_;
  /// Of what fresh records show: it grows evenly for as long as these are the fresh ones.
  struct Sum {
    std::uint64_t epoch = 0;
    double samples = 0;  ///< at `Fresh::from_ms`
    double per_ms = 0;
    double handed_over = 0;
  };
  /// Who is fresh depends on the time: true from then until then, unless a record comes. Many ask in between.
  struct Fresh {
    std::int64_t from_ms = 0;
    std::int64_t until_ms = -1;  ///< before `from_ms`: not known
    std::vector<Standing> standings;
    std::size_t taking_part = 0;
    double samples_per_s = 0;  ///< of those who take part
    EpochsShown epochs;
    std::optional<Sum> sum;  ///< for the epoch in which it was asked for last
  };
  const Fresh& fresh() const;
  const Sum& sum() const;
  Steps steps() const;
  mutable Fresh fresh_;            // keeps its memory: in a large swarm it is made anew with each record
  ByPeer<TimePoint> gathered_at_;  // when a fresh record last said that they take part; in the future: will by then
  /// Until then none of them is silent for too long, as long as `gathered_at_` does not change.
  struct Recent {
    std::size_t peers = 0;
    TimePoint until = TimePoint::min();
  };
  /// Who comes when in the turns of one epoch: asked each second, and a hash each.
  struct Turns {
    std::uint64_t epoch = 0;
    ByPeer<Digest> places;
  };
  mutable Turns turns_;
  mutable Recent recent_;                     // asked at every border of a microbatch
  std::map<PeerId, SelfReport> reports_;      // also of peers that are gone: they come back with their history
  std::map<PeerId, double> handed_over_;      // of whom it is more than nothing
  std::map<PeerId, std::uint64_t> credited_;  // who left something, and the epoch that is credited with it
  std::set<PeerId> doubted_;                  // whose last record was not believed whole
  std::set<PeerId> odd_;                      // whose last record did not fit the others'
  bool read_any_ = false;
  struct Held {
    Digest parameters{};
    Digest ledger{};
    bool is_unlike(const Record& other) const { return other.parameters != parameters || other.ledger != ledger; }
  };
  std::map<std::uint64_t, Held> history_;
  Steps steps_;  // of this peer
  std::optional<Record> former_life_;
  std::function<void()> ask_;
  Record own_;
  std::optional<Record> sent_;
  bool shown_ = false;
  bool urgent_ = false;
  Duration pace_ = Duration::zero();  // in which records are looked at
  bool left_ = false;                 // its record is withdrawn for good
  std::int64_t leaving_since_{};      // unix_ms
  std::optional<TimePoint> first_published_;
  std::optional<TimePoint> heir_shown_;
  bool met_others_ = false;
  std::optional<TimePoint> confirmed_alone_;  // when the directory last said so; none while anybody is heard of
  Signal changed_;
  Signal due_;
};

}  // namespace collab::progress
