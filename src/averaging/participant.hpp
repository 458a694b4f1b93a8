#pragma once
// One peer in one round: the data exchange (round.hpp) and the commit (commit.hpp) together. Frames and suspicions in,
// frames out; no clock, no network, no coroutine. Whatever drives it calls `take_outgoing` after every call.

#include "averaging/committed_round.hpp"
#include "averaging/report.hpp"
#include "averaging/round.hpp"
#include "net/endpoint.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace collab::averaging {

class Participant {
 public:
  struct Outgoing {
    Ranks to = 0;
    net::TrafficClass traffic = net::TrafficClass::control;
    Frame frame;
  };
  /// `identity` (signs Holds), `rule` and `guard` outlive it; the values of `own` must live until `finished()`.
  /// `result`: how averages are encoded.
  struct Setup {
    std::shared_ptr<const Shape> shape;
    const Identity& identity;
    const Rule& rule;
    Guard& guard;
    Contribution own;
    EncodeOptions result;
    std::shared_ptr<const Work> done;  ///< as SegmentReducer::Plan::done
  };

  /// The identity's peer is in the roster.
  explicit Participant(Setup setup);
  Participant(const Participant&) = delete;
  Participant& operator=(const Participant&) = delete;

  /// Once. Frames that came before are taken up.
  void start();
  /// Errors: `denied` for a stranger; those of round.hpp and commit.hpp. A frame of a view to come is kept, up to
  /// `early_bytes_max()` from one sender, and has no error.
  Result<> on_frame(const PeerId& from, const Frame& frame);
  void suspect(Ranks suspected);
  /// The line to that peer broke: sends again what it may have lost.
  void repeat(Rank to);
  /// The round's deadline passed.
  void fail();
  /// Asks a guard that said `wait` again.
  void poke();
  /// Committed: tells those again who have not said that they are done.
  void remind(Ranks them);

  std::vector<Outgoing> take_outgoing();
  /// Our next part for that peer, encoded now; null when there is none in this view.
  Frame next_part(Rank to) { return round_.next_part(to); }
  bool has_parts(Rank to) const { return round_.has_parts(to); }

  Commit::State state() const noexcept { return commit_.state(); }
  /// Committed and everything is here (an auxiliary needs nothing), or failed.
  bool finished() const;
  /// After a commit, with everything here; null for an auxiliary that does not hold all.
  std::shared_ptr<const CommittedRound> committed_round() const;
  /// The values are copied or abandoned: they are never read again.
  void release_values() { round_.release_values(); }

  Rank self() const noexcept { return self_; }
  const Shape& shape() const noexcept { return *shape_; }
  const Commit& commit() const noexcept { return commit_; }
  const Round& round() const noexcept { return round_; }
  /// Who said that they have the result and need nothing more.
  Ranks done() const noexcept { return done_; }
  bool all_results_here() const { return all_here_; }
  std::size_t early_bytes_max() const;
  /// Fills in what this object knows: outcome, views, peers, segments, weights, digest.
  void describe(RoundReport& report) const;

 private:
  struct Early {
    Rank from = 0;
    Frame frame;
  };

  Result<> dispatch(Rank from, const Frame& frame);
  Result<> keep_for_later(Rank from, const Frame& frame);
  void replay_early();
  void settle();
  void settle_once(bool& changed);
  void announce_done();

  std::shared_ptr<const Shape> shape_;
  Rank self_;
  Guard& guard_;
  Round round_;
  Commit commit_;
  bool started_ = false;
  bool entered_ = false;
  bool wanted_ = false;
  bool announced_ = false;
  bool all_here_ = false;
  Ranks done_ = 0;
  Ranks lied_ = 0;  ///< told what they did not hold, or two something different
  std::vector<Early> early_;
  std::vector<std::size_t> early_bytes_;  // by rank
  std::uint64_t bad_frames_ = 0;
  std::uint64_t dropped_frames_ = 0;
  std::vector<Outgoing> outgoing_;
};

}  // namespace collab::averaging
