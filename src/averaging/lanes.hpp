#pragma once
// Frames on their way out of one round: three queues per groupmate, each with its own task, so that nobody waits behind
// a peer that is frozen and no control message behind a tensor.

#include "averaging/members.hpp"
#include "base/bytes.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "net/endpoint.hpp"

#include <boost/container/deque.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace collab::averaging {

/// Control frames that wait for one peer. An honest one reads them as fast as it causes them.
inline constexpr std::size_t kControlQueueMax = 4096;

/// Belongs to the node's loop. Queued bulk frames are shared with the results that are kept anyway; parts are encoded
/// one at a time, when their peer's window is open.
class Lanes {
 public:
  struct Hooks {
    std::function<Frame(Rank)> next_part;  ///< null: none now
    std::function<void(Rank)> refused;     ///< a dial failed; the frame is tried again later
    std::function<void(Rank)> departed;  ///< it closed its end, or is in another group: nothing is sent to it any more
  };

  /// `talk`, `clock` and what the hooks use outlive the tasks.
  Lanes(net::Conversation& talk, Clock& clock, asio::any_io_executor executor, std::vector<PeerId> peers, Rank self,
        Hooks hooks);

  /// Spawns the sending tasks; they run until `tasks` is stopped. Frames are given up at `deadline`.
  void start(TaskGroup& tasks, TimePoint deadline);
  void extend(TimePoint deadline) { deadline_ = deadline; }
  void push(Ranks to, net::TrafficClass traffic, const Frame& frame);
  /// Whoever has closed its end, or is in another group, has departed, also those to whom there is nothing more to
  /// send.
  void look_for_closed();
  /// There may be parts to send.
  void wake_parts(Rank to);
  /// Nothing is queued or being sent to peers that are still here and not `gone`.
  bool idle(Ranks gone = 0) const noexcept;
  /// The same of one peer.
  bool idle_to(Rank to) const noexcept;
  std::uint64_t bytes_sent(Rank to) const { return lanes_.at(to)->bytes_sent; }

 private:
  enum class Kind : std::uint8_t { control, results, parts };
  struct Lane {
    explicit Lane(const asio::any_io_executor& executor)
        : has_control(executor), has_results(executor), has_parts(executor) {}
    Signal& has(Kind kind) {
      return kind == Kind::control ? has_control : kind == Kind::results ? has_results : has_parts;
    }
    boost::container::deque<Frame> control;  // that takes no memory while it is empty: lanes are many
    boost::container::deque<Frame> results;
    Signal has_control;  // each wakes one task: for nothing, two of three would be woken by every frame
    Signal has_results;
    Signal has_parts;
    std::size_t sending = 0;
    std::uint64_t bytes_sent = 0;
    bool closed = false;
  };

  Task<> drain(Rank to, Kind kind);
  Task<> deliver(Rank to, net::TrafficClass traffic, Frame frame);
  Frame take(Rank to, Kind kind);
  void close(Rank to);

  net::Conversation& talk_;
  Clock& clock_;
  std::vector<PeerId> peers_;
  Rank self_;
  Hooks hooks_;
  TimePoint deadline_{};
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace collab::averaging
