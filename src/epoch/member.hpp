#pragma once
// One peer's life in a run: it catches up with the swarm, takes part in epoch after epoch, and leaves.

#include "averaging/all_reduce.hpp"
#include "averaging/moshpit.hpp"
#include "base/metrics.hpp"
#include "base/random.hpp"
#include "epoch/bridge.hpp"
#include "epoch/catch_up.hpp"
#include "epoch/legacy.hpp"
#include "epoch/member_event.hpp"
#include "epoch/member_options.hpp"
#include "epoch/owed_keeper.hpp"
#include "epoch/run_epoch.hpp"
#include "epoch/seating_keeper.hpp"
#include "matchmaking/matchmaker.hpp"
#include "progress/tracker.hpp"
#include "state/store.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::epoch {

/// What a progress line shows.
struct MemberStatus {
  bool in_step = false;
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;  ///< gathered by everybody for this epoch
  std::uint64_t own_samples = 0;
  std::uint64_t peers = 0;
  double eta_s = 0;  ///< infinite: unknown
  double loss = 0;   ///< mean over current peers; NaN: unknown
};

/// Thread safety: none; belongs to the node's loop. The bridge's trainer outlives `run()`.
class Member {
 public:
  struct Context {
    net::Endpoint& net;
    Clock& clock;
    directory::Directory& directory;
    progress::Tracker& tracker;
    state::Store& store;  ///< its source asks `snapshot()`
    Log& log;
    Metrics& metrics;
    const Identity& identity;
    asio::any_io_executor loop;
    asio::any_io_executor workers;
    Random random;
    data::Leases* leases = nullptr;  ///< told what is committed and what was in vain; null: no units here
  };
  using OnEvent = std::function<void(const MemberEvent&)>;

  Member(Context context, MemberOptions options, Bridge& bridge, OnEvent on_event);
  ~Member();

  /// Ends after `leave()`, at `epochs_max`, or when the trainer has left. `first_epoch`: that of the parameters that
  /// the trainer begins with (0, or a checkpoint's). Throws `Failure(incompatible)` when the state that most of the
  /// others hold does not fit the trainer.
  Task<> run(std::uint64_t first_epoch);
  /// Tells the others not to wait and ends `run()`. Samples of an epoch that is not full yet are lost, unless they are
  /// handed on before.
  Task<> leave();

  /// To whom what is in hand can be handed on; empty: nobody. See Legacy.
  std::optional<PeerId> heir() const;
  /// Instead of a first `leave`, which comes afterwards: leaves the rounds, tells everybody who the heir is, and gives
  /// it what the trainer has handed on. Errors: as Legacy::hand_on.
  Task<Result<>> hand_on(PeerId heir, Estate estate, TimePoint deadline);
  /// What `epoch.take_on` asks. Nobody may be in it when this is destroyed; it ends soon after `stop()`.
  Task<net::Answer> take_on(PeerId from, Frame request, TimePoint deadline);
  /// What `averaging.counted` asks: see averaging::FirstGroups.
  net::Answer was_counted(const PeerId& from, const Frame& request) const;

  /// After run(), however it ended and before the destructor: answers nobody any more.
  Task<> stop();

  /// A copy of the state at the begin of `epoch`: the source of the store. Errors: `stale` when that is over, `late`
  /// when it is not reached, `gone` when the trainer has left.
  Task<Result<std::shared_ptr<const state::Snapshot>>> snapshot(std::uint64_t epoch);

  std::uint64_t epoch() const noexcept { return epoch_; }
  bool in_step() const noexcept { return in_step_; }
  MemberStatus status() const;

 private:
  struct Release;
  struct Shown;

  Task<> keep_showing();
  Task<> synchronise();
  void arrived(const Arrival& arrival);
  void missed(std::shared_ptr<const averaging::CommittedRound> round);
  void restored(const Arrival& arrival);
  Task<> keep_seats();
  void look_at_seats();
  std::size_t turns_passed(bool stuck);
  /// Where this peer sits now; null: everybody is in one group.
  const matchmaking::Seating* grid() const;
  Task<> wait_for_a_seat();
  void tell_no_leader(TimePoint now);
  Task<> look_for_donors();
  Task<> take_part(TaskGroup& tasks);
  bool waits_for_joiner();
  void tell_lost(const EpochReport& report);
  void tell_not_finite(std::uint64_t epoch);
  void tell_codec(const averaging::RoundReport& round);
  Task<> after_failure(boost::system::error_code why, const EpochReport& report);
  void give_up_rounds();
  Task<> await_word_of_others(std::optional<matchmaking::Group> group);
  void epoch_begins();
  void committed(EpochReport report);
  Task<> heal();
  void tell_changed(const Digest& parameters, const Digest& ledger);
  void tell_bandwidth();
  matchmaking::Role role_now() const;
  Task<> await_role(TimePoint until);
  void follow_role();
  void settle(const data::Ledger& ledger, const Gathered& lost);
  void show();
  Task<> leave_rounds();
  bool takes_part() const;
  /// How long borders may pass unheard: while the batch is far from full, nobody does anything about one more.
  Duration quiet_time() const;
  /// Nobody's weight may pass a bound: who has nearly so much computes no further until some of it is used. Nor does a
  /// peer that has no place on the grid yet.
  bool may_compute() const;
  void pause_or_go_on();
  void release();
  void tell(MemberEvent::Kind kind, std::string text = {}, std::uint64_t samples = 0);
  averaging::MoshpitOptions moshpit_options() const;

  Context context_;
  MemberOptions options_;  // `role`: the present one
  const matchmaking::Role role_at_first_;
  Bridge& bridge_;
  OnEvent on_event_;
  averaging::ClaimedRates rates_;
  matchmaking::Matchmaker matchmaker_;
  CatchUp catch_up_;
  SeatingKeeper seats_;
  Legacy legacy_;
  OwedKeeper owed_;
  std::optional<averaging::Moshpit> moshpit_;  // from run() on
  std::uint64_t epoch_ = 0;
  unsigned failures_ = 0;                 ///< in a row
  std::uint32_t given_up_ = 0;            ///< attempts of this epoch below it are over for this peer, without a result
  std::int64_t decided_ms_ = 0;           ///< when its former life's promise binds it no longer
  std::optional<TimePoint> epoch_began_;  ///< none for who came while it ran: its end tells nothing of its length
  Duration last_epoch_{};
  std::optional<TimePoint> full_since_;   ///< since when the swarm has the batch of this epoch
  std::optional<TimePoint> stuck_since_;  ///< and since when it has not come to an end with it
  TimePoint no_waiting_until_{};          ///< for joiners
  bool told_no_seat_ = false;
  bool coarse_ = false;  // how values travelled in the last epoch
  TimePoint led_at_{};   ///< when somebody led its search
  bool told_no_leader_ = false;
  Digest parameters_{};
  Digest ledger_{};  ///< its hash
  Digest group_{};   ///< of the last committed round
  double loss_ = std::numeric_limits<double>::quiet_NaN();
  bool in_step_ = false;
  bool leaving_ = false;
  std::optional<PeerId> heir_;      ///< of this peer, which leaves,
  std::uint64_t left_samples_ = 0;  ///< and what it is given
  Signal left_;
};

}  // namespace collab::epoch
