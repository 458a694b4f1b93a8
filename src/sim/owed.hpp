#pragma once
// What each peer owes of its parts, by the books: epoch/feedback.hpp once more, in the obvious way.

#include "averaging/committed_round.hpp"
#include "epoch/report.hpp"
#include "sim/violation.hpp"
#include "tensor/codec.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace collab::sim {

struct PartsSent {
  std::size_t peer = 0;
  std::size_t history = 0;  ///< of its swarm
  std::uint64_t epoch = 0;
  std::string group;  ///< in words
  std::span<const float> handed_over;
  std::span<const float> values;  ///< that the parts are made of
  std::uint64_t weight = 0;
};

/// The invariant `owed`: parts are what was handed over and what earlier ones owe, once; a step alone takes all that is
/// owed. Where the books cannot know (nobody has told the round that a peer fetched) nothing is compared until that
/// peer's debt is known again. A codec map without feedback: does nothing. Thread safety: none.
class Owed {
 public:
  /// `codecs` and the others outlive it.
  Owed(Clock& clock, const CodecMap& codecs, Violations& violations)
      : clock_(clock), codecs_(codecs), violations_(violations) {}

  /// Numbers are given in this order.
  void add_peer(const PeerId& id) { ids_.push_back(id); }
  /// One more history, like this one until now.
  void fork(std::size_t history) { rounds_.push_back(rounds_.at(history)); }

  void undo(std::size_t history, std::uint64_t epoch) { rounds_.at(history).erase(epoch); }

  void sends(const PartsSent& parts);
  /// A step was taken, of what is `averaged`.
  void stepped(std::size_t peer, std::uint64_t epoch, std::span<const float> averaged);
  /// The peer tells of that step. `handed_over`: what it had for it; empty: nothing.
  void committed(std::size_t peer, std::size_t history, const epoch::EpochReport& report,
                 std::span<const float> handed_over);
  /// Another state, or another life.
  void forget(std::size_t peer) { books_.erase(peer); }
  /// Of these epochs nobody fetches a round any more.
  void forget_before(std::uint64_t epoch);

 private:
  using Round = std::shared_ptr<const averaging::CommittedRound>;
  struct Sent {
    std::uint64_t epoch = 0;
    std::string group;
    std::vector<float> values;
    std::uint64_t weight = 0;
  };
  struct Books {
    std::vector<float> owed;  // sums over samples; NaN: not known. Empty: nothing
    std::optional<Sent> sent;
    std::optional<std::uint64_t> stepped;  // epoch of the last step,
    std::vector<float> averaged;           // and what it took
  };

  void fetched(std::size_t peer, std::size_t history);
  void settle(std::size_t peer, const averaging::CommittedRound& round);
  void settle_committed(std::size_t peer, const epoch::EpochReport& report);
  void pay(std::size_t peer, const epoch::EpochReport& report, std::span<const float> handed_over);
  std::vector<bool> fed_back() const;
  void add(std::size_t peer, std::uint64_t epoch, std::string text);

  Clock& clock_;
  const CodecMap& codecs_;
  Violations& violations_;
  std::vector<PeerId> ids_;
  std::map<std::size_t, Books> books_;
  std::vector<std::map<std::uint64_t, Round>> rounds_ =
      std::vector<std::map<std::uint64_t, Round>>(1);  // by history and epoch: the last, as the first who told has it
};

}  // namespace collab::sim
