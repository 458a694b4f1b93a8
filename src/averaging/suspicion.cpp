#include "averaging/suspicion.hpp"

#include <algorithm>

namespace collab::averaging {
namespace {

constexpr std::size_t kBlockedKept = 16;

}  // namespace

Suspicion::Suspicion(std::size_t peers, Rank self, TimePoint now, SuspicionOptions options)
    : options_(options), self_(self), started_(now), last_check_(now), peers_(peers) {}

void Suspicion::heard(Rank from, std::size_t bytes, TimePoint now) {
  Peer& peer = peers_.at(from);
  peer.heard_at = now;
  peer.bytes += bytes;
  peer.refused = false;
  peer.stuck = false;
  if (now >= peer.slow_until && !peer.departed) suspected_ &= ~bit(from);
}

Duration Suspicion::silence(const net::LinkState& link) const {
  return std::clamp<Duration>(8 * link.rtt + 4 * link.rtt_deviation, options_.silence_min, options_.silence_max);
}

void Suspicion::notice_blocking(TimePoint now) {
  const TimePoint due = last_check_ + options_.period;
  if (now - due > options_.blocked_min) {
    blocked_.emplace_back(due, now);
    if (blocked_.size() > kBlockedKept) blocked_.pop_front();
  }
  last_check_ = now;
}

/// Time since then, without the times when we could not listen.
Duration Suspicion::age(TimePoint since, TimePoint now) const {
  Duration age = now - since;
  for (const auto& [from, to] : blocked_) age -= std::max(Duration(0), to - std::max(from, since));
  return age;
}

Ranks Suspicion::check(TimePoint now, std::span<const net::LinkState> links, Debts debts) {
  notice_blocking(now);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == self_) continue;
    Peer& peer = peers_[rank];
    const LeftOut verdict = judge(static_cast<Rank>(rank), links[rank], now, debts);
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

LeftOut Suspicion::judge(Rank rank, const net::LinkState& link, TimePoint now, const Debts& debts) {
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
  const Duration limit = silence(link);
  if (age(std::max({link.last_received, started_, peer.heard_at}), now) >= limit + options_.unasked)
    return LeftOut::frozen;
  if (owes) {
    // an owner may wait itself, until it has given up a sender whose connection broke
    const Duration of_others = 2 * limit + options_.redial_max;
    // counted from the round's begin, whatever it was asked for since
    const bool collects = owes_parts && peer.heard_at == TimePoint() && age(started_, now) < limit + options_.hand_over;
    const Duration patience = owes_parts ? limit : owes_results ? of_others : 2 * (of_others + exchange_);
    const TimePoint asked = std::max(peer.owes_since, peer.heard_at);
    // the others agree: whatever else it says, nobody waits longer for its word than all that it lacks takes
    const bool last_word = owes_hold && age(peer.owes_hold_since, now) >= limit + exchange_;
    const bool owes_more = owes_parts || owes_results || contains(debts.decision, rank);
    if (last_word || (owes_more && !collects && age(asked, now) >= patience)) peer.stuck = true;
    if (owes_parts && too_slow(peer, now)) peer.slow_until = now + options_.slow_window;
  }
  if (peer.stuck) return LeftOut::frozen;
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
