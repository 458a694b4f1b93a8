#pragma once
// How the loss went since this node started, for a curve: bounded, however long the run.

#include "crypto/peer_id.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace collab::monitor {

/// What was told about a stretch of epochs.
struct LossPoint {
  std::uint64_t epoch = 0;  ///< the last one in it
  double low = 0;           ///< of one peer
  double high = 0;
  double sum = 0;
  std::uint64_t told = 0;  ///< losses in the sum, at least 1
  double mean() const { return sum / static_cast<double>(told); }
};

/// At most `kPointsMax` stretches of equal length; when they are full the length doubles.
class LossCurve {
 public:
  static constexpr std::size_t kPointsMax = 1024;

  void note(std::uint64_t epoch, double loss);
  /// By epoch.
  std::vector<LossPoint> points() const;

 private:
  void fold(std::uint64_t stretch, const LossPoint& point);
  void halve();

  std::uint64_t epochs_a_point_ = 1;
  std::map<std::uint64_t, LossPoint> points_;  ///< by epoch / epochs_a_point_
};

/// Training and held-out loss as peers tell them in their progress records. Thread safety: none.
class LossHistory {
 public:
  static constexpr std::size_t kPeersMax = 4096;  ///< others are not heard
  static constexpr double kLossMax = 1e6;         ///< what is larger, negative as well, or not finite is no loss

  /// `peer` tells its `loss` of `epoch`: each counts once. The caller judges whether the epoch is possible.
  void note_training(const PeerId& peer, std::uint64_t epoch, double loss);
  void note_heldout(const PeerId& peer, std::uint64_t epoch, double loss);

  const LossCurve& training() const noexcept { return training_.curve; }
  const LossCurve& heldout() const noexcept { return heldout_.curve; }

 private:
  struct Told {
    LossCurve curve;
    std::map<PeerId, std::uint64_t> last_epoch;
    void note(const PeerId& peer, std::uint64_t epoch, double loss);
  };
  Told training_;
  Told heldout_;
};

}  // namespace collab::monitor
