#include "monitor/swarm_view.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace collab::monitor {
namespace {

double sane_rate(double rate) {
  return std::isfinite(rate) && rate > 0 ? rate : 0;
}

void show_member(PeerView& peer, const MemberFacts& facts) {
  peer.name = cut_utf8(facts.name, kNameBytesMax);
  peer.role = cut_utf8(facts.role, kNameBytesMax);
  peer.reachability = cut_utf8(facts.reachability, kNameBytesMax);
  peer.software = cut_utf8(facts.software, kNameBytesMax);
}

void show_progress(PeerView& peer, const ProgressFacts& facts, const SwarmFacts& all) {
  peer.epoch = facts.epoch;
  peer.samples = facts.samples;
  peer.samples_per_s = sane_rate(facts.samples_per_s);
  peer.hash_ok.reset();
  if (all.majority_hash && facts.epoch == all.run.epoch) peer.hash_ok = facts.parameter_hash == *all.majority_hash;
  // a clock that is ahead of ours must not show as seen in the future
  peer.last_seen_s = std::max(0.0, (static_cast<double>(all.unix_ms) - static_cast<double>(facts.unix_ms)) / 1000);
}

}  // namespace

void Rounds::add(RoundView round) {
  kept_.push_back(std::move(round));
  if (kept_.size() > kRoundsMax) kept_.pop_front();
}

SwarmView view_swarm(const SwarmFacts& facts) {
  std::map<PeerId, PeerView> peers;
  for (const MemberFacts& member : facts.members) show_member(peers[member.id], member);
  for (const ProgressFacts& progress : facts.progress) show_progress(peers[progress.id], progress, facts);
  for (const LinkFacts& link : facts.links) {
    const auto found = peers.find(link.id);
    if (found == peers.end()) continue;  // a connection alone makes nobody a member
    found->second.rtt_s = link.rtt_s;
    found->second.path = link.path;
    found->second.bulk_bytes = link.bulk_bytes;
    found->second.up_bytes_per_s = link.up_bytes_per_s;
    found->second.down_bytes_per_s = link.down_bytes_per_s;
  }

  SwarmView view;
  view.unix_ms = facts.unix_ms;
  view.run = facts.run;
  for (auto& [id, peer] : peers) {
    if (peer.epoch == facts.run.epoch) view.samples_per_s += peer.samples_per_s;
    if (view.peers.size() == kPeersMax) {
      ++view.peers_left_out;
      continue;
    }
    peer.id = id;
    if (peer.name.empty()) peer.name = id.short_text();
    if (peer.role.empty()) peer.role = "unknown";
    if (peer.reachability.empty()) peer.reachability = "unknown";
    view.peers.push_back(std::move(peer));
  }
  return view;
}

}  // namespace collab::monitor
