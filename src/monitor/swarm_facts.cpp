#include "monitor/swarm_facts.hpp"

#include "directory/peer_record.hpp"

#include <algorithm>
#include <utility>

namespace collab::monitor {
namespace {

std::string_view reachability_of(const directory::PeerRecord& record) {
  if (record.reachable) return "open";
  if (record.relays.empty()) return "outbound_only";
  return record.punchable ? "punchable" : "relayed";
}

MemberFacts member_facts(const PeerId& id, directory::PeerRecord record) {
  MemberFacts facts;
  facts.id = id;
  facts.name = std::move(record.name);
  facts.role = std::move(record.role);
  facts.reachability = reachability_of(record);
  facts.software = std::move(record.software);
  return facts;
}

ProgressFacts progress_facts(const progress::Standing& standing) {
  ProgressFacts facts;
  facts.id = standing.peer;
  facts.epoch = standing.record.epoch;
  facts.samples = standing.record.samples;
  facts.samples_per_s = standing.record.samples_per_s;
  facts.parameter_hash = standing.record.parameters;
  facts.unix_ms = standing.record.unix_ms;
  return facts;
}

LinkFacts link_facts(const PeerId& id, const net::LinkState& state) {
  LinkFacts facts;
  facts.id = id;
  facts.bulk_bytes = state.bulk_bytes;
  if (!state.connected) return facts;
  facts.path = state.path;
  if (state.rtt > Duration::zero()) facts.rtt_s = to_seconds(state.rtt);
  if (state.up_bytes_per_s > 0) facts.up_bytes_per_s = state.up_bytes_per_s;
  if (state.down_bytes_per_s > 0) facts.down_bytes_per_s = state.down_bytes_per_s;
  return facts;
}

void show_epoch(RunView& run, const FactSources& sources) {
  run.epoch = progress::global_epoch(sources.standings).value_or(run.epoch);
  const double samples = progress::gathered(sources.standings, run.epoch, sources.unix_ms);
  run.samples = static_cast<std::uint64_t>(std::max(0.0, samples));
  const double missing = std::max(0.0, static_cast<double>(run.target_batch_samples) - samples);
  const double rate = progress::samples_per_s(sources.standings, run.epoch);
  run.eta_s = rate > 0 ? missing / rate : kUnknown;
}

}  // namespace

SwarmFacts gather_facts(RunView known, const FactSources& sources) {
  SwarmFacts facts;
  facts.unix_ms = sources.unix_ms;
  facts.run = std::move(known);
  show_epoch(facts.run, sources);
  facts.majority_hash = progress::majority(sources.standings, facts.run.epoch);
  for (const directory::Record& record : sources.members) {
    auto member = directory::decode_peer_record(record.value);
    if (!member) continue;
    facts.members.push_back(member_facts(record.owner, std::move(*member)));
    const net::LinkState link = sources.link(record.owner);
    if (link.connected || link.bulk_bytes > 0) facts.links.push_back(link_facts(record.owner, link));
  }
  for (const progress::Standing& standing : sources.standings) facts.progress.push_back(progress_facts(standing));
  return facts;
}

}  // namespace collab::monitor
