#pragma once
// Error feedback: what a peer's parts leave out is sent with later ones.

#include "averaging/committed_round.hpp"
#include "matchmaking/group.hpp"
#include "tensor/codec.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace collab::epoch {

/// With a codec that `leaves_out`, a part is one value in 32, or a matrix of low rank, of what there is to say. The
/// rest is owed: it is added to what the peer hands over next, and of that sum again the largest is sent. So nothing
/// is lost, only late (Seide et al. 2014; arXiv 1809.07599, 1905.13727).
///
/// A peer's mean gradient counts by its samples, and so does what it owes: kept are sums over samples, and a hand-over
/// of w samples carries owed / w. In the average of W samples it weighs what it would have weighed in the round that
/// left it out, however many samples the peer has now. What is owed is the peer's own: no part of the state, not handed
/// on by who leaves, and zero in the beginning.
///
/// Only a committed round changes it, chunk by chunk where it names this peer among the senders: after a round that
/// failed, or left this peer out, it is as before. Nor is it touched where this peer never learns whether a round
/// counted its parts (a pass over a grid that is fetched): then some of it may count twice. Runs of the vector with
/// other codecs have no feedback.
///
/// Memory: one flat vector, from the hand-over to the end of the round two; nothing where no codec leaves out.
/// Thread safety: none; the loop's. One pass over the vector each way, the second with the codec there and back.
class Feedback {
 public:
  /// `codecs` outlives it.
  explicit Feedback(const CodecMap& codecs) : codecs_(codecs) {}

  bool in_use() const noexcept { return codecs_.leaves_out(); }

  /// Adds to the mean of `weight` > 0 samples what is owed; `options`: how the parts will be encoded. If that is not
  /// finite, what was owed is forgotten, and `mean` is as before.
  void add_to(std::span<float> mean, std::uint64_t weight, const matchmaking::Group& group, EncodeOptions options);
  /// The round failed: `mean` as it was before add_to(), to the bit.
  void restore(std::span<float> mean) const;
  /// The round of the last add_to(), or another try with the same values, has committed: what parts of `self` that it
  /// counted have left out is owed from now on, instead of what was.
  void settle(const averaging::CommittedRound& round, const PeerId& self);
  /// As `settle` when `round`, which this peer has fetched, is that of the group of the last add_to(); else nothing.
  void missed(const averaging::CommittedRound& round, const PeerId& self);
  /// Parameters of another state: what is owed were gradients of the old ones.
  void forget();

  /// Sums over samples; empty: nothing is owed.
  std::span<const float> owed() const noexcept { return owed_; }

 private:
  struct Sent {
    std::vector<float> mean;  // as it was handed over
    std::uint64_t weight = 0;
    Digest group{};
    EncodeOptions options;
  };

  template <class Visit>
  void for_each_left_out(Range range, Visit visit) const;
  float with_owed(std::size_t i) const;
  void settle_unit(Range unit);

  const CodecMap& codecs_;
  std::vector<float> owed_;
  std::optional<Sent> sent_;
};

}  // namespace collab::epoch
