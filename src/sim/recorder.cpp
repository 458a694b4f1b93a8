#include "sim/recorder.hpp"

#include "sim/swarm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace collab::sim {
namespace {

constexpr std::size_t kLastEvents = 50;
constexpr Duration kMinute = std::chrono::minutes(1);

std::string in_words(std::string_view event, Log::Fields fields) {
  std::string out(event);
  for (const LogField& field : fields) {
    out += fmt::format(" {}=", field.name);
    std::visit([&](const auto& value) { out += fmt::format("{}", value); }, field.value);
  }
  return out;
}

template <class T>
T field(Log::Fields fields, std::string_view name) {
  for (const LogField& one : fields) {
    if (one.name != name) continue;
    if (const T* value = std::get_if<T>(&one.value)) return *value;
  }
  return T();
}

}  // namespace

void Recorder::logged(std::size_t peer, LogLevel, std::string_view event, Log::Fields fields) {
  Event noted{clock_.now().time_since_epoch(), peer, in_words(event, fields)};
  // on a grid, samples are handed over to the first group of a pass
  const bool is_first = field<std::uint64_t>(fields, "round") <= 1;
  if (event == "matchmaking.begun" && is_first) {
    const auto peers = field<std::uint64_t>(fields, "peers");
    invariants_.begun(peer, field<std::uint64_t>(fields, "epoch"), field<std::string>(fields, "group"), peers);
    begun_.emplace(field<std::uint64_t>(fields, "epoch"), noted.at);
  }
  if (event == "averaging.round" && is_first) invariants_.decided(peer);
  if (see_line_) see_line_({noted.at, peer, std::string(event), noted.text});
  auto& last = last_[peer];
  last.push_back(std::move(noted));
  if (last.size() > kLastEvents) last.pop_front();
  keep_last_events();
}

void Recorder::coordinator_logged(std::string_view event, Log::Fields fields) {
  if (see_coordinator_)
    see_coordinator_({clock_.now().time_since_epoch(), kCoordinator, std::string(event), in_words(event, fields)});
}

void Recorder::reached(std::size_t peer, Phase phase) {
  if (see_phase_) see_phase_(peer, phase);
}

void Recorder::broke(std::size_t peer, std::string_view task, const std::string& what) {
  invariants_.add("clean", {peer}, fmt::format("its task {} ended with: {}", task, what));
}

void Recorder::happened(std::size_t peer, const epoch::MemberEvent& event) {
  using Kind = epoch::MemberEvent::Kind;
  switch (event.kind) {
    case Kind::committed: committed(peer, event); break;
    case Kind::round_failed:
      ++failed_[peer];
      ++minute_.rounds_failed;
      ++outcome_.rounds_failed;
      break;
    case Kind::caught_up: ++minute_.rounds_behind; break;
    case Kind::lost_samples: invariants_.told_lost(peer, event.samples); break;
    case Kind::joined:
    case Kind::downloaded:
    case Kind::not_finite:
    case Kind::diverged:
    case Kind::codec:
    case Kind::waiting: break;
  }
}

void Recorder::committed(std::size_t peer, const epoch::MemberEvent& event) {
  if (invariants_.is_expelled(peer)) return;
  invariants_.committed(peer, *event.report);
  ++minute_.rounds_ok;
  const bool is_news = outcome_.epoch_facts.empty() || event.report->epoch > outcome_.epoch_facts.back().epoch;
  if (!is_news) return;
  EpochFact fact;
  fact.epoch = event.report->epoch;
  fact.begun = begun_[fact.epoch];
  if (forgets_) {
    begun_.erase(begun_.begin(), begun_.lower_bound(fact.epoch));
    samples_.clear();
    outcome_.epoch_facts.clear();
  }
  fact.committed = clock_.now().time_since_epoch();
  fact.weight = event.report->weight;
  fact.loss = peers_->at(peer)->trainer().loss();
  samples_.push_back(invariants_.senders_of_epoch(peer, fact.epoch));
  for (const auto& [sender, sent] : samples_.back()) fact.weights[sender] = sent.weight;
  epoch_length_ = clock_.now() - committed_at_;
  committed_at_ = clock_.now();
  minute_.epoch = fact.epoch + 1;
  minute_.loss = fact.loss;
  outcome_.epoch_facts.push_back(std::move(fact));
}

std::uint64_t Recorder::failed(std::size_t peer) const {
  const auto found = failed_.find(peer);
  return found == failed_.end() ? 0 : found->second;
}

void Recorder::look(std::uint64_t bytes) {
  if (clock_.now().time_since_epoch() - minute_began_ >= kMinute) end_minute(bytes);
}

void Recorder::end_minute(std::uint64_t bytes) {
  minute_.end = clock_.now().time_since_epoch();
  const double length_s = to_seconds(minute_.end - minute_began_);
  if (length_s <= 0) return;
  minute_.peers = static_cast<std::size_t>(
      std::count_if(peers_->begin(), peers_->end(), [](const auto& peer) { return peer->in_step(); }));
  const std::uint64_t samples = invariants_.samples_committed();
  minute_.samples_per_s = static_cast<double>(samples - samples_committed_) / length_s;
  minute_.bytes = bytes - bytes_before_;
  outcome_.minutes.push_back(minute_);
  samples_committed_ = samples;
  bytes_before_ = bytes;
  minute_began_ = minute_.end;
  minute_.rounds_ok = minute_.rounds_failed = minute_.rounds_behind = 0;
}

void Recorder::note(const Peer& peer) {
  PeerFact fact;
  fact.rate = peer.pace().samples_per_s;
  fact.busy = peer.busy();
  fact.records_per_s = static_cast<double>(peer.progress_records()) / to_seconds(clock_.now().time_since_epoch());
  fact.epoch = peer.trainer().epoch();
  fact.units_wait_max = peer.units_wait_max();
  fact.unleased = peer.unleased();
  outcome_.peers.push_back(fact);
}

/// The moments before the first violation, of the peers in it; of all, when it names none.
void Recorder::keep_last_events() {
  const auto& broken = invariants_.violations().kept();
  if (broken.empty() || !outcome_.last_events.empty()) return;
  const auto& peers = broken.front().peers;
  std::vector<Event> events;
  for (const auto& [peer, last] : last_) {
    const bool wanted = peers.empty() || std::find(peers.begin(), peers.end(), peer) != peers.end();
    if (wanted) events.insert(events.end(), last.begin(), last.end());
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
  if (events.size() > kLastEvents) events.erase(events.begin(), events.end() - kLastEvents);
  for (const Event& event : events) {
    outcome_.last_events.push_back(fmt::format("{:10.3f} peer {} {}", to_seconds(event.at), event.peer, event.text));
  }
}

}  // namespace collab::sim
