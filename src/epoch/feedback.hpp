#pragma once
// Error feedback: what a peer's parts owe is sent with later ones.

#include "averaging/committed_round.hpp"
#include "matchmaking/group.hpp"
#include "tensor/codec.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace collab::epoch {

/// What one hand-over carried.
struct SentParts {
  std::vector<float> mean;  ///< as it was handed over
  std::uint64_t weight = 0;
  std::uint64_t epoch = 0;
  Digest group{};
  EncodeOptions options;
};

/// What is owed after a round, from what was owed before and what was sent. Has all that it needs, so that it can run
/// while the loop goes on.
class Settling {
 public:
  /// Encodes anew what was sent, and decodes it: the round has put the average in its place.
  void run();

 private:
  friend class Feedback;

  void settle_unit(Range unit);

  const CodecMap* codecs_ = nullptr;
  std::vector<float> owed_;
  SentParts sent_;
  std::shared_ptr<const averaging::CommittedRound> round_;
  averaging::Rank rank_ = 0;  // in its group
};

/// With a codec that `owes`, a part is one value in 32, or a matrix of low rank, of what there is to say. The
/// rest is owed: it is added to what the peer hands over next, and of that sum again the largest is sent. So nothing
/// is lost, only late (Seide et al. 2014; arXiv 1809.07599, 1905.13727).
///
/// A peer's mean gradient counts by its samples, and so does what it owes: kept are sums over samples, and a hand-over
/// of w samples carries owed / w. In the average of W samples it weighs what it would have weighed in the round that
/// began to owe it, however many samples the peer has now. What is owed is the peer's own: no part of the state, not
/// handed on by who leaves, and zero in the beginning.
///
/// Only a committed round changes it, chunk by chunk where it names this peer among the senders: after a round that
/// failed, or left this peer out, it is as before. Where this peer does not learn whether a round counted its parts (it
/// has only a later round of the pass over a grid) all of it is forgotten: lost once is better than doubled again and
/// again. Runs of the vector with other codecs have no feedback.
///
/// A value beyond float16 is sent as the largest one of float16, as it would be with that codec, and the excess is not
/// owed: one spike would be paid for ever. With that, sums stay finite.
///
/// Memory: one flat vector, from the hand-over until its round is settled two; nothing where no codec owes. After a
/// round that failed here the second stays until the next hand-over, or until it shows what became of the epoch: others
/// may have committed that round, with this peer's parts.
/// Thread safety: none. One pass over the vector each way, the second with the codec there and back; that one is a
/// `Settling`, which shares nothing with it.
class Feedback {
 public:
  /// `codecs` outlives it.
  explicit Feedback(const CodecMap& codecs) : codecs_(codecs) {}

  bool in_use() const noexcept { return codecs_.owes(); }

  /// Adds to the mean of `weight` > 0 samples what is owed; `options`: how the parts will be encoded.
  void add_to(std::span<float> mean, std::uint64_t weight, const matchmaking::Group& group, EncodeOptions options);
  /// The round failed: `mean` as it was before add_to(), to the bit.
  void restore(std::span<float> mean) const;
  /// The round of the last add_to(), or another try with the same values, has committed: what the parts of `self`
  /// that it counted did not say is owed from now on, instead of what was. `round`: the first that this peer has of its
  /// epoch; when that is not round 1, all is forgotten. What is returned has to be run, and given to settled() before
  /// the next add_to() or pay(); nothing: it is done.
  std::optional<Settling> settle(std::shared_ptr<const averaging::CommittedRound> round, const PeerId& self);
  /// Nothing comes of it when all was forgotten meanwhile.
  void settled(Settling settling);
  /// The round of the last add_to() has committed without the values of this peer.
  void left_out() { sent_.reset(); }
  /// This peer has fetched `round`. As `settle` when it is that of the group of the last add_to(); of the same epoch
  /// and another group, all is forgotten when the parts may be in it.
  std::optional<Settling> missed(std::shared_ptr<const averaging::CommittedRound> round, const PeerId& self);
  /// A step alone: `mean` carries all that is owed, and nothing is owed any more.
  void pay(std::span<float> mean, std::uint64_t weight);
  /// Parameters of another state: what is owed were gradients of the old ones.
  void forget();

  /// Sums over samples; empty: nothing is owed, or it is being settled.
  std::span<const float> owed() const noexcept { return owed_; }

 private:
  const CodecMap& codecs_;
  std::vector<float> owed_;
  std::optional<SentParts> sent_;
  bool settling_ = false;
};

}  // namespace collab::epoch
