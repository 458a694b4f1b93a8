#pragma once
// How a peer that is behind gets to where the others are: by the rounds it missed, else by the whole state.

#include "averaging/committed_round.hpp"
#include "averaging/pass.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "data/ledger.hpp"
#include "epoch/bridge.hpp"
#include "epoch/member_options.hpp"
#include "epoch/missed_round.hpp"
#include "net/endpoint.hpp"
#include "progress/tracker.hpp"
#include "state/download.hpp"
#include "state/store.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace collab::epoch {

/// What taking over what others hold came to.
struct Arrival {
  enum class By : std::uint8_t {
    round,    ///< the step that others took in a round
    state,    ///< fetched whole
    nothing,  ///< it did not fit: parameters are as before
  };
  By by = By::nothing;
  std::uint64_t epoch = 0;  ///< the trainer stands at its begin
  bool finite = true;       ///< false: the step of the round came to nothing, see Trainer::step
  Digest parameters{};
  data::Ledger ledger;
  Gathered lost;                                           ///< what it had gathered for an older epoch
  std::shared_ptr<const averaging::CommittedRound> round;  ///< by a round: that one
  // by a state
  std::uint64_t bytes = 0;
  std::size_t donors = 0;
  double seconds = 0;
};

/// Each of the questions below but the last begins nothing new once `leave()` was called, and holds the trainer from
/// the first thing that is taken over on: whatever it computed on the way would be for nothing. The caller releases it.
/// Thread safety: none; belongs to the node's loop. One question at a time.
class CatchUp {
 public:
  struct Needs {
    net::Endpoint& net;
    Clock& clock;
    progress::Tracker& tracker;
    Log& log;
    asio::any_io_executor workers;
    Random random;
    Bridge& bridge;
    const SignatureScheme& scheme;  ///< of the rounds
    state::Store& store;            ///< gives on what is fetched
  };
  enum class Outcome : std::uint8_t {
    in_step,      ///< nobody has more
    needs_state,  ///< the next round is nobody's any more
    nobody,       ///< there is nobody to ask
  };
  using OnArrival = std::function<void(const Arrival&)>;

  /// `options` outlive it.
  CatchUp(Needs needs, const MemberOptions& options, OnArrival on_arrival);

  /// Applies the rounds from `epoch` on, one after the other, for as long as somebody has the next one; donors may wait
  /// so long for the first.
  Task<Outcome> by_rounds(std::uint64_t epoch, Duration wait = {});
  /// Whether one whose record is past `epoch`, though most are not, has the result of its round: one alone is no
  /// majority, but the signatures are, of a group in which this peer was, and more than half of those that it knows:
  /// else two keys would do to invent one. It is kept for `by_rounds`. Who was asked in vain is asked ever more seldom.
  /// Applies nothing, and may be cancelled.
  Task<bool> is_over(std::uint64_t epoch);
  /// The whole state from several donors, at an epoch not before `epoch` that all of them still have; with `newer`
  /// after it, for this peer has that one; false: nobody has one that fits. Rounds that end meanwhile are fetched
  /// beside it, for `by_rounds`, before the donors let go of them: as many as have together the bytes of the state.
  /// Throws `Failure(incompatible)` when the state that most of the others hold does not fit the trainer.
  Task<bool> by_state(std::uint64_t epoch, bool newer = false);
  /// By rounds, where they do not reach by the state, then by rounds again.
  Task<Outcome> by_either(std::uint64_t epoch, Duration wait = {});

  using Round = std::shared_ptr<const averaging::CommittedRound>;
  /// What the first group of its cell committed: by any other peer of that cell that has it, or will have it. Asks
  /// until it is there, or cancelled: one donor's word that the epoch is over is no reason to stop. Takes nothing over,
  /// and runs beside any other question, also while this peer leaves.
  Task<Round> first_group(averaging::WantedFirst wanted_first);

  void leave() noexcept { leaving_ = true; }

 private:
  using State = std::shared_ptr<const state::Snapshot>;
  /// Of a state that is being fetched.
  struct Meanwhile {
    std::uint64_t bytes = 0;  ///< 0: not known yet
    bool is_here = false;
    bool round_comes = false;  ///< one that has ended is being fetched
  };
  Task<boost::system::result<Round, Refusal>> fetch_round(std::uint64_t epoch, std::vector<PeerId> donors,
                                                          Duration wait);
  state::Context downloads();
  WantedRound wanted(std::uint64_t epoch, Duration wait) const;
  Task<> fetch_rounds_meanwhile(std::uint64_t first, Meanwhile& state);
  Round take_ahead(std::uint64_t epoch);
  bool is_ours(const averaging::CommittedRound& round) const;
  std::vector<PeerId> donors_of_round(std::uint64_t epoch, std::size_t others);
  void leave_out_silent(std::vector<PeerId>& donors) const;
  Task<bool> apply(std::shared_ptr<const averaging::CommittedRound> round);
  Task<boost::system::result<State, Refusal>> download(state::WantedState wanted, std::vector<PeerId> donors,
                                                       Arrival& arrival);
  Task<bool> restore(State snapshot, bool agreed, Arrival arrival);
  Task<> refuse_state(std::uint64_t epoch, bool agreed);
  Task<std::uint64_t> epoch_instead(std::uint64_t asked, std::uint64_t least, Refusal refusal);
  void arrived(const Arrival& arrival);

  Needs needs_;
  const MemberOptions& options_;
  OnArrival on_arrival_;
  std::uint64_t epoch_ = 0;               // the trainer's
  std::map<std::uint64_t, Round> ahead_;  // fetched before the trainer is there
  std::uint64_t ask_ahead_epoch_ = 0;
  TimePoint ask_ahead_at_{};  // in it
  Duration ask_ahead_pause_{};
  unsigned misfits_ = 0;  // in a row: states of another model or optimizer
  unsigned instead_in_a_row_ = 0;
  state::EpochInstead instead_;
  std::vector<PeerId> silent_;  // in the last round that was fetched
  bool leaving_ = false;
};

}  // namespace collab::epoch
