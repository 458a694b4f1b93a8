#pragma once
// What each peer owes of its parts, by the books: epoch/feedback.hpp once more, in the obvious way.

#include "averaging/committed_round.hpp"
#include "epoch/report.hpp"
#include "tensor/codec.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace collab::sim {

/// Follows what the peers send and what becomes of it. Where the books cannot know (nobody has told the round that a
/// peer fetched) nothing is compared until that peer's debt is known again. A codec map without feedback: does nothing.
class Owed {
 public:
  using Round = std::shared_ptr<const averaging::CommittedRound>;

  /// `codecs` outlives it.
  explicit Owed(const CodecMap& codecs) : codecs_(codecs) {}

  /// For `group`, in words. Empty, or what is wrong with the values that the parts are made of.
  std::string sends(std::size_t peer, std::uint64_t epoch, const std::string& group, std::span<const float> handed_over,
                    std::span<const float> values, std::uint64_t weight);
  /// The peer has committed. Empty, or: it was counted with parts that it never told of.
  std::string committed(std::size_t peer, const PeerId& id, const epoch::EpochReport& report);
  /// The peer has fetched the result of `epoch`, whose `round` is what others told; null: nobody has.
  void fetched(std::size_t peer, const PeerId& id, std::uint64_t epoch, const Round& round, const std::string& group);
  /// What a step alone takes, from what was handed over; then nothing is owed.
  std::vector<float> pay(std::size_t peer, std::span<const float> handed_over, std::uint64_t weight);
  /// Another state, or another life.
  void forget(std::size_t peer) { books_.erase(peer); }
  /// Of the last values sent whose round is not known yet.
  std::optional<std::uint64_t> open_epoch(std::size_t peer) const;

 private:
  struct Sent {
    std::uint64_t epoch = 0;
    std::string group;
    std::vector<float> values;
    std::uint64_t weight = 0;
  };
  struct Books {
    std::vector<float> owed;  // sums over samples; NaN: not known. Empty: nothing
    std::optional<Sent> sent;
  };

  void settle(Books& books, const PeerId& id, const averaging::CommittedRound& round);
  std::vector<bool> fed_back() const;

  const CodecMap& codecs_;
  std::map<std::size_t, Books> books_;
};

}  // namespace collab::sim
