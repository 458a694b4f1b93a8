#pragma once
// How fast this machine's own line carries tensors to many at once, and what of it each connection gets. No I/O, no
// clock of its own.

#include "base/clock.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace collab::net {

inline constexpr double kUnpaced = std::numeric_limits<double>::infinity();

/// One connection on which planned bytes have not all left.
struct Flow {
  std::uint64_t id = 0;         ///< never used again for another connection
  double planned_bytes = 0;     ///< in all: flows get parts of the line in this proportion
  std::uint64_t delivered = 0;  ///< bytes that the other end has confirmed, since the connection began
  bool waiting = false;         ///< more could leave at once: nothing but the way is slow
};

/// TCP finds out how fast it may send by sending too much: a queue fills before the line, somebody's packets are
/// dropped, and of several connections some get half of the others for seconds. But a round is over when the last of
/// them is done. So who has so much to say to each of its groupmates keeps to a pace: what the line carries in all, in
/// the proportion of what each is to get. Then nothing queues, all are done at once, and a vote beside it waits for
/// nobody.
///
/// What the line carries is measured in windows of half a second in which all flows wait. While their paces are kept
/// these grow a little; when most are not, the line is full, and they fall below what came through, until what has
/// queued is gone. One packet lost holds up what is confirmed, and it then comes at once: so the window after counts
/// too. Of flows that alone fall behind the receiver is slow: the others share what these leave. A pace that is too
/// high is no worse than TCP alone, and one too low is, so none is far below the best of late; and what is over before
/// it could be measured is paced less each time, for the line may have become faster.
///
/// No pace at all: while nothing was measured, on a fast line, and of flows that are too slow to tell anything in a
/// window. Thread safety: none; belongs to the node's loop.
class Line {
 public:
  struct Options {
    Duration settle = std::chrono::milliseconds(200);  ///< after flows begin or end, before a window
    Duration window = std::chrono::milliseconds(450);
    double paced_max = 60e6;   ///< bytes/s; faster lines need no pace, and each takes processor time
    double paced_min = 200e3;  ///< of one flow, on average: 60 packets in a window
    Duration remembered = std::chrono::minutes(1);  ///< so long unused it may have become faster
  };

  Line() : Line(Options()) {}
  explicit Line(const Options& options) : options_(options) {}

  /// To be told several times a second, and when flows begin or end: all of them. Returns the pace of each in bytes/s,
  /// in their order.
  std::vector<double> look(TimePoint now, std::span<const Flow> flows);

  /// Of all flows together; 0: not known yet.
  double bytes_per_s() const noexcept { return pace_; }

 private:
  struct Seen {
    double pace = kUnpaced;
    double rate = kUnpaced;    ///< in the last whole window, if there was one
    std::uint64_t before = 0;  ///< delivered when this one began
  };
  struct Window {
    double bytes_per_s = 0;  ///< of all flows
    double kept = 0;         ///< of what is planned, the part whose flows kept their pace
    double ratio = 1;        ///< what came through, of the paces of those that are not stuck
  };
  /// What was thought when the last window showed a full line; the next one may take it back.
  struct Doubt {
    double pace = 0;
    double full = 0;
  };

  bool is_paced(std::size_t flows) const;
  bool is_new(std::span<const Flow> flows) const;
  void begin_window(TimePoint at, bool counts, std::span<const Flow> flows);
  Window measure(TimePoint now, std::span<const Flow> flows);
  void learn(const Window& window, bool paced);
  void grow();
  std::vector<double> deal(std::span<const Flow> flows);

  Options options_;
  double pace_ = 0;
  double full_ = 0;    ///< at this pace the line was full,
  double step_ = 0;    ///< and by how much more was tried last
  double before_ = 0;  ///< what came through in the last window,
  double came_ = 0;    ///< of that what had not been held up before,
  double best_ = 0;    ///< and in the best two of late, on average
  std::optional<Doubt> doubt_;
  std::map<std::uint64_t, Seen> seen_;
  TimePoint began_{};    ///< the window, or when what there is will have settled,
  bool counts_ = false;  ///< and which of both
  bool told_ = false;    ///< these flows were measured, or waited for others
  TimePoint looked_{};
};

}  // namespace collab::net
