#include "averaging/suspicion.hpp"

#include <algorithm>

namespace collab::averaging {
namespace {

constexpr std::size_t kBlockedKept = 16;
constexpr std::uint64_t kMovedMin = 1024;  // bytes; pings of some seconds are less

}  // namespace

Suspicion::Suspicion(std::size_t peers, Rank self, TimePoint now, SuspicionOptions options)
    : options_(options), self_(self), started_(now), last_check_(now), peers_(peers) {}

void Suspicion::heard(Rank from, std::size_t bytes, TimePoint now) {
  Peer& peer = peers_.at(from);
  peer.frame_bytes += bytes;
  peer.heard_at = moved_at_ = now;
  peer.refused = false;
  peer.stuck = false;
  if (now >= peer.slow_until && !peer.departed) suspected_ &= ~bit(from);
}

Duration Suspicion::silence(const net::LinkState& link) const {
  return std::clamp<Duration>(8 * link.rtt + 4 * link.rtt_deviation, options_.silence_min, options_.silence_max);
}

Duration Suspicion::expected(TimePoint now) const {
  double planned = 0;
  double moved = 0;
  for (const Peer& peer : peers_) {
    const std::uint64_t bytes = std::max(peer.bytes, peer.frame_bytes);
    if (bytes < kMovedMin) continue;
    planned += peer.planned_bytes;
    moved += std::min(static_cast<double>(bytes), peer.planned_bytes);
  }
  if (moved >= planned) return known_exchange_;
  // until something moved last: that all stand still makes nothing slower
  return std::max(known_exchange_, from_seconds(to_seconds(age(started_, std::min(now, moved_at_))) * planned / moved));
}

void Suspicion::notice_blocking(TimePoint now) {
  const TimePoint due = last_check_ + options_.period;
  if (now - due > options_.blocked_min) {
    blocked_.emplace_back(due, now);
    if (blocked_.size() > kBlockedKept) blocked_.pop_front();
  }
  last_check_ = now;
}

/// On a slow line a frame takes longer than anybody may be silent.
void Suspicion::notice_moving(Peer& peer, const net::LinkState& link, TimePoint now) {
  const std::uint64_t before = peer.line_bytes.value_or(link.line_bytes_received);
  const bool another_line = link.line_bytes_received < before;
  peer.bytes += another_line ? link.line_bytes_received : link.line_bytes_received - before;
  peer.line_bytes = link.line_bytes_received;
  if (peer.bytes < peer.bytes_marked + kMovedMin) return;
  peer.bytes_marked = peer.bytes;
  peer.moved_at = moved_at_ = now;
}

/// Time since then, without the times when we could not listen.
Duration Suspicion::age(TimePoint since, TimePoint now) const {
  Duration age = now - since;
  for (const auto& [from, to] : blocked_) age -= std::max(Duration(0), to - std::max(from, since));
  return age;
}

Ranks Suspicion::check(TimePoint now, std::span<const net::LinkState> links, Debts debts) {
  notice_blocking(now);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (rank != self_) notice_moving(peers_[rank], links[rank], now);
  const Duration in_long_round =
      std::min(from_seconds(options_.silence_share * to_seconds(expected(now))), options_.silence_max);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == self_) continue;
    Peer& peer = peers_[rank];
    const Duration limit = std::max(silence(links[rank]), in_long_round);
    const LeftOut verdict = judge(static_cast<Rank>(rank), links[rank], now, debts, limit);
    if (verdict == LeftOut::no) {
      suspected_ &= ~bit(rank);
      continue;
    }
    if (peer.ever == LeftOut::no || verdict < peer.ever) peer.ever = verdict;
    suspected_ |= bit(rank);
    // who was never heard and is given up has no round to answer in: that its line is back is no word of it
    if (verdict != LeftOut::slow && peer.heard_at == TimePoint()) peer.stuck = true;
  }
  return suspected_;
}

/// `limit`: so long it may be silent.
LeftOut Suspicion::judge(Rank rank, const net::LinkState& link, TimePoint now, const Debts& debts, Duration limit) {
  Peer& peer = peers_[rank];
  const bool owes_parts = contains(debts.parts, rank);
  const bool owes_results = contains(debts.results, rank);
  const bool owes_hold = contains(debts.holds, rank);
  const bool owes = owes_parts || owes_results || owes_hold || contains(debts.decision, rank);
  if (owes && !peer.owes) peer.owes_since = now;
  if (owes_hold && !peer.owes_hold) peer.owes_hold_since = now;
  if (!owes_parts) peer.moved.clear();
  peer.owes = owes;
  peer.owes_hold = owes_hold;

  if (peer.departed) return LeftOut::dead;
  if (!link.connected) {
    const TimePoint lost = std::max({link.lost_at, started_, peer.heard_at});
    return peer.refused || age(lost, now) >= options_.redial_max ? LeftOut::dead : LeftOut::no;
  }
  if (age(std::max({link.last_received, started_, peer.heard_at}), now) >= limit + options_.unasked)
    return LeftOut::frozen;
  if (owes) {
    // an owner may wait itself: until it has given up a sender whose connection broke, or for one as slow as we know
    // some
    const Duration slow = std::max({age(started_, now) / 4, exchange_ / 4, longest_gap_ + 2 * limit});
    const Duration of_others = std::max<Duration>(2 * limit + options_.redial_max, slow);
    // counted from the round's begin, whatever it was asked for since
    const bool collects = owes_parts && peer.heard_at == TimePoint() && age(started_, now) < limit + options_.hand_over;
    const Duration patience = owes_parts ? limit : owes_results ? of_others : 2 * (of_others + exchange_);
    const TimePoint asked = std::max({peer.owes_since, peer.heard_at, peer.moved_at});
    // the others agree: whatever else it says, nobody waits longer for its word than all that it lacks takes
    const bool last_word = owes_hold && age(peer.owes_hold_since, now) >= limit + exchange_;
    const bool owes_more = owes_parts || owes_results || contains(debts.decision, rank);
    if (last_word || (owes_more && !collects && age(asked, now) >= patience)) peer.stuck = true;
    if (owes_parts && too_slow(peer, now)) peer.slow_until = now + options_.slow_window;
  }
  if (peer.stuck) return LeftOut::frozen;
  if (owes_parts) longest_gap_ = std::max(longest_gap_, age(std::max(peer.owes_since, peer.heard_at), now));
  return now < peer.slow_until ? LeftOut::slow : LeftOut::no;
}

bool Suspicion::too_slow(Peer& peer, TimePoint now) {
  peer.moved.emplace_back(now, peer.bytes);
  while (peer.moved.size() > 2 && age(peer.moved[1].first, now) >= options_.slow_window) peer.moved.pop_front();
  const auto& [since, bytes] = peer.moved.front();
  const Duration window = age(since, now);
  if (window < options_.slow_window || peer.planned_bytes_per_s <= 0) return false;
  const double least = options_.slow_below * peer.planned_bytes_per_s * to_seconds(window);
  return static_cast<double>(peer.bytes - bytes) < least;
}

}  // namespace collab::averaging
