#pragma once
// Lines of limited rate between processes of this machine: real TCP on them is as slow as at home.

#include "slow_switch.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace collab::bench {

struct Line {
  double up_bytes_per_s = 0;  ///< of whole packets, as a provider counts: 4.4 % of them are headers
  double down_bytes_per_s = 0;
  double rtt_s = 0;  ///< between two peers with such lines, beside what wait in queues; of unequal lines the mean
};

/// "20/100", "50/50/80" or "1x2/10,3x20/100": Mbit/s up and down, and milliseconds of a round trip; how many peers have
/// them one after the other, again and again; empty: no lines. Of `peers`, in their order. Throws `Failure(usage)`.
std::vector<Line> lines_of(const std::string& table, std::size_t peers);

/// A network for each peer, behind a box with its line, and one network between the boxes.
///
/// A box holds back what is more than its line carries, in a queue for each direction: `queue` of it and at least 16
/// kB, then packets are dropped. What has passed it takes half of a round trip to the other's box (SlowSwitch), or no
/// time where no line has one. Peers use TCP CUBIC, as nearly everybody at home does, or where the machine's
/// administrator allows only others Reno, which is the same on such lines. All of it is anonymous: it goes with the
/// processes in it, however these end. Changes the network of the thread that calls.
class ShapedLines {
 public:
  /// This thread is now in the network between the boxes. Throws `Failure(machine)`, which says what is missing.
  ShapedLines(std::vector<Line> lines, Duration queue);
  /// And now in that from which it came.
  ~ShapedLines();
  ShapedLines(const ShapedLines&) = delete;
  ShapedLines& operator=(const ShapedLines&) = delete;

  /// Makes the network of the next peer and moves this thread there: a process that it starts now is that peer.
  /// Returns the address that it has there. Throws alike.
  std::string enter_next();
  /// Back between the boxes. The network that was left goes with whoever was started in it.
  void leave();

 private:
  void connect_far();

  std::vector<Line> lines_;
  Duration queue_;
  std::unique_ptr<SlowSwitch> switch_;  // when there is a way between the boxes, from the last peer's on
  std::size_t made_ = 0;
  int home_ = -1;  // descriptors of networks
  int between_ = -1;
};

}  // namespace collab::bench
