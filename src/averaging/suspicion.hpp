#pragma once
// Who is dead, frozen or slow, as far as one peer can tell during one round. Pure: times and link states in, ranks out.
//
// Suspicion may be wrong: commit.hpp stays safe under any. It only has to be right in the end, and soon.

#include "averaging/members.hpp"
#include "averaging/report.hpp"
#include "base/clock.hpp"
#include "net/endpoint.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace collab::averaging {

struct SuspicionOptions {
  Duration silence_min = std::chrono::seconds(1);  ///< a peer that is silent for less is never suspected
  Duration silence_max = std::chrono::seconds(4);  ///< a peer that is silent for longer always is
  /// So long nothing comes before somebody is asked for a sign of life: that silence says nothing.
  Duration unasked = std::chrono::milliseconds(500);
  Duration hand_over{};  ///< so long after its begin who was not heard yet may collect its values: it owes no part then
  double slow_below = 0.05;  ///< of its planned rate, over `slow_window`
  Duration slow_window = std::chrono::seconds(5);
  Duration redial_max = std::chrono::seconds(2);          ///< a lost connection is not back after this: dead
  Duration blocked_min = std::chrono::milliseconds(250);  ///< our own loop was away: no time passed for the others
  Duration period = std::chrono::milliseconds(100);       ///< how often `check` is called
};

class Suspicion {
 public:
  /// What others owe this peer now.
  struct Debts {
    Ranks parts = 0;     ///< and tells, and fetched results: things a peer has and can send
    Ranks results = 0;   ///< averages, for which the owner may itself be waiting: more patience
    Ranks holds = 0;     ///< the word that it has everything, when a quorum has said so: as long as the exchange takes
    Ranks decision = 0;  ///< a coordinator's, which gives others that long first
  };

  Suspicion(std::size_t peers, Rank self, TimePoint now, SuspicionOptions options);

  /// A peer that owes bytes is to move about this much; 0: unknown, then nobody is too slow.
  void plan_rate(Rank peer, double bytes_per_s) { peers_.at(peer).planned_bytes_per_s = bytes_per_s; }
  /// How long the exchange takes if all goes well.
  void plan_exchange(Duration exchange) { exchange_ = exchange; }
  /// A frame came: whatever was thought of its sender, it lives. (A slow one stays slow for a window.)
  void heard(Rank from, std::size_t bytes, TimePoint now);
  /// A dial failed.
  void refused(Rank peer) { peers_.at(peer).refused = true; }
  /// It closed its end of the round, or is in another group: nothing will come any more.
  void departed(Rank peer) { peers_.at(peer).departed = true; }

  /// Judges everyone. `links`: by rank. Returns who is suspected.
  Ranks check(TimePoint now, std::span<const net::LinkState> links, Debts debts);
  Ranks suspected() const noexcept { return suspected_; }
  /// The gravest that was thought of it in this round.
  LeftOut ever(Rank peer) const { return peers_.at(peer).ever; }
  TimePoint heard_at(Rank peer) const { return peers_.at(peer).heard_at; }
  bool has_departed(Rank peer) const { return peers_.at(peer).departed; }
  /// How long a healthy peer of that link may be silent.
  Duration silence(const net::LinkState& link) const;

 private:
  struct Peer {
    TimePoint heard_at{};
    TimePoint owes_since{};
    bool owes = false;
    TimePoint owes_hold_since{};
    bool owes_hold = false;
    bool stuck = false;  // owed and moved nothing, or was given up before it said a word; until a frame comes
    bool refused = false;
    bool departed = false;
    TimePoint slow_until{};
    double planned_bytes_per_s = 0;
    std::uint64_t bytes = 0;
    std::deque<std::pair<TimePoint, std::uint64_t>> moved;  // while it owes, one entry per check, one window long
    LeftOut ever = LeftOut::no;
  };

  Duration age(TimePoint since, TimePoint now) const;
  void notice_blocking(TimePoint now);
  LeftOut judge(Rank rank, const net::LinkState& link, TimePoint now, const Debts& debts);
  bool too_slow(Peer& peer, TimePoint now);

  SuspicionOptions options_;
  Rank self_;
  Duration exchange_{};
  TimePoint started_;
  TimePoint last_check_;
  std::deque<std::pair<TimePoint, TimePoint>> blocked_;  // the latest 16
  std::vector<Peer> peers_;
  Ranks suspected_ = 0;
};

}  // namespace collab::averaging
