#pragma once
// How much of what one peer says of itself is believed.

#include "progress/wire.hpp"

#include <cstdint>
#include <optional>

namespace collab::progress {

/// What a peer without a history is measured by.
struct Yardstick {
  double samples_per_s = 0;      ///< what such a peer may well do: twice our own or the others' median; 0: unknown
  std::uint64_t microbatch = 0;  ///< our own; 0: unknown
  std::uint64_t share = 0;       ///< of the target batch, if all did the same
  bool first_look = false;       ///< who is there gathered before we looked: its first record may show a share more
};

/// One peer's records held against their history: samples grow by at most 1.5 x rate history x elapsed + one
/// microbatch. In a new epoch they start from none, or from those of the last record, when it had fewer than one
/// before it in the old epoch: these were handed over, and the peer has gone on during the round.
///
/// The rate history is what the peer told, but rises by at most half in ten seconds, or to the yardstick, and falls
/// with a half-life of a minute, so a peer that comes back after a pause is as fast as before. Elapsed is counted by
/// the peer's own dates, so the way of a record makes no difference, but never for longer than two periods, and in all
/// for ten seconds longer than by ours. As long as there is nothing to measure it by, it counts for its share and
/// nothing is held against it. A peer whose clock is wrong by more than a second is read by ours as soon as its second
/// record has come. Pure.
///
/// One that leaves and hands on what it has is asked what of it could be believed; its heir may then grow by so much
/// more. So samples change hands, and there are no more of them than before.
class SelfReport {
 public:
  /// The record that is there now; the same `sequence` again changes nothing. `unix_ms`: our time.
  /// Returns the samples that are not believed, told ones less `believed().samples`.
  std::uint64_t see(const Record& told, std::uint64_t sequence, const Yardstick& yardstick, std::int64_t unix_ms);

  /// The last record with samples and rate cut to what is believed, dated by our clock.
  const Record& believed() const noexcept { return believed_; }
  /// What it handed over to a round of this epoch that has not ended, as far as its records show: it comes back when
  /// the round fails, and is believed again then. 0 in an epoch in which it handed over nothing.
  double handed_over() const noexcept { return handed_over_; }
  /// Of one that hands on what it has gathered: its epoch, and what of that is believed, once in an epoch.
  struct Left {
    std::uint64_t epoch = 0;
    std::uint64_t samples = 0;
  };
  const std::optional<Left>& left() const noexcept { return left_; }
  /// In `epoch` it may have so many samples more: another left them to it.
  void inherit(std::uint64_t epoch, std::uint64_t samples);
  /// What the peer can honestly bring to a round of `epoch` by `unix_ms`, also to one that is tried again with what it
  /// handed over: growth as above since its last record, for as long as that may be; a directory that is silent must
  /// not hold up an epoch.
  double samples_max(std::uint64_t epoch, std::int64_t unix_ms) const;

 private:
  std::uint64_t leave(const Record& told, std::uint64_t sequence, const Yardstick& yardstick, std::int64_t unix_ms);
  std::uint64_t use_inherited(const Record& told, double believed);
  void take(const Record& told, std::uint64_t sequence, std::int64_t date, double samples, std::int64_t unix_ms);
  std::int64_t elapsed_of(const Record& told, std::int64_t date, std::int64_t unix_ms);
  std::int64_t date_of(const Record& told, std::int64_t unix_ms);
  double rate_after(double told, double seconds, const Yardstick& yardstick) const;

  Record believed_;
  bool seen_ = false;
  bool goes_on_ = false;   // in this epoch it handed over: what was told since counts in the next one
  bool measured_ = false;  // since there was a yardstick
  std::uint64_t sequence_ = 0;
  std::int64_t ahead_ms_ = 0;  // of its clock before ours, known from its second record on
  bool ahead_known_ = false;
  std::int64_t told_ms_ = 0;  // the last record's date, by its clock
  std::int64_t came_ms_ = 0;  // and when we read it, by ours
  std::int64_t lead_ms_ = 0;  // how far the times between dates have run ahead of ours
  double rate_ = 0;           // history
  double slack_ = 0;          // one microbatch
  double handed_over_ = 0;    // and has not come back
  double credit_ = 0;         // of that microbatch, what later records of this epoch may still use
  std::optional<Left> left_;
  Left inherited_;  // and not used yet
};

}  // namespace collab::progress
