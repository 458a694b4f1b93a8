#pragma once
// Who is dead, frozen or slow, as far as one peer can tell during one round. Pure: times and link states in, ranks out.
//
// Suspicion may be wrong: commit.hpp stays safe under any. It only has to be right in the end, and soon.

#include "averaging/members.hpp"
#include "averaging/report.hpp"
#include "base/clock.hpp"
#include "net/endpoint.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace collab::averaging {

struct SuspicionOptions {
  Duration silence_min = std::chrono::seconds(1);  ///< a peer that is silent for less is never suspected
  Duration silence_max = std::chrono::seconds(4);  ///< a peer that is silent for longer always is
  double silence_share = 0.25;  ///< of a long round: on full lines one of many streams may stand still for seconds
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
  /// What is to come from a peer, over a line that has carried so much before.
  void plan_bytes(Rank peer, double bytes, const net::LinkState& link) {
    peers_.at(peer).planned_bytes = bytes;
    peers_.at(peer).line_bytes = link.line_bytes_received;
  }
  /// How long the exchange takes if all goes well; `guessed`: at rates that were not all measured.
  void plan_exchange(Duration exchange, bool guessed = false) {
    exchange_ = exchange;
    if (!guessed) known_exchange_ = exchange;
  }
  /// How long it took here, which may be longer than was planned: then it is for others too.
  void exchange_took(Duration exchange) {
    exchange_ = std::max(exchange_, exchange);
    known_exchange_ = std::max(known_exchange_, exchange);
  }
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
  /// How long all will have taken, at the rate of those from whom something comes.
  Duration expected(TimePoint now) const;

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
    double planned_bytes = 0;
    std::uint64_t frame_bytes = 0;            // also those that were there before the round
    std::optional<std::uint64_t> line_bytes;  // as of the last check
    std::uint64_t bytes = 0;                  // moved since the begin, whole frames or not
    std::uint64_t bytes_marked = 0;
    TimePoint moved_at{};                                   // when that had grown by more than pings make
    std::deque<std::pair<TimePoint, std::uint64_t>> moved;  // while it owes, one entry per check, one window long
    LeftOut ever = LeftOut::no;
  };

  Duration age(TimePoint since, TimePoint now) const;
  void notice_blocking(TimePoint now);
  void notice_moving(Peer& peer, const net::LinkState& link, TimePoint now);
  LeftOut judge(Rank rank, const net::LinkState& link, TimePoint now, const Debts& debts, Duration limit);
  bool too_slow(Peer& peer, TimePoint now);

  SuspicionOptions options_;
  Rank self_;
  Duration exchange_{};
  Duration known_exchange_{};  // not guessed
  Duration longest_gap_{};     // between two frames of a sender that lived
  TimePoint started_;
  TimePoint moved_at_{};  // something from anybody
  TimePoint last_check_;
  std::deque<std::pair<TimePoint, TimePoint>> blocked_;  // the latest 16
  std::vector<Peer> peers_;
  Ranks suspected_ = 0;
};

}  // namespace collab::averaging
