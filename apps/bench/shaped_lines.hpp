#pragma once
// Lines of limited rate between processes of this machine: real TCP on them is as slow as at home.

#include <cstddef>
#include <string>
#include <vector>

namespace collab::bench {

struct Line {
  double up_bytes_per_s = 0;  ///< of whole packets, as a provider counts: 4.4 % of them are headers
  double down_bytes_per_s = 0;
};

/// "20/100" or "1x2/10,3x20/100": Mbit/s up and down, how many peers have them one after the other, again and again;
/// empty: no lines. Of `peers`, in their order. Throws `Failure(usage)`.
std::vector<Line> lines_of(const std::string& table, std::size_t peers);

/// A network for each peer, behind a box with its line, and one network between the boxes.
///
/// A box holds back what is more than its line carries, in a queue for each direction: 200 ms of it and at least 64 kB,
/// then packets are dropped. There is no delay but that queue's, so rtt of an idle line is that of the machine. Peers
/// use TCP CUBIC, as nearly everybody at home does, or where the machine's administrator allows only others Reno, which
/// is the same on such lines. All of it is anonymous: it goes with the processes in it, however these end. Changes the
/// network of the thread that calls.
class ShapedLines {
 public:
  /// This thread is now in the network between the boxes. Throws `Failure(machine)`, which says what is missing.
  explicit ShapedLines(std::vector<Line> lines);
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
  std::vector<Line> lines_;
  std::size_t made_ = 0;
  int home_ = -1;  // descriptors of networks
  int between_ = -1;
};

}  // namespace collab::bench
