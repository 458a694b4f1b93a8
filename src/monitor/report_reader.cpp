#include "monitor/report_reader.hpp"

#include <algorithm>
#include <utility>

namespace collab::monitor {
namespace {

/// The one member that begins so; two of them: nobody knows which.
void complete(RoundMember& told, const std::vector<PeerId>& members) {
  const PeerId* found = nullptr;
  for (const PeerId& member : members) {
    if (!std::equal(member.key.begin(), member.key.begin() + kRoundIdBytes, told.id.key.begin())) continue;
    if (found != nullptr) return;
    found = &member;
  }
  if (found == nullptr) return;
  told.id = *found;
  told.whole_id = true;
}

}  // namespace

bool ReportReader::is_new(Seen& seen, const directory::Record& record) {
  if (!seen.contains(record.owner) && seen.size() == kPeersMax) return false;
  const Digest value = hash_bytes("collab monitor report", record.value);
  return std::exchange(seen[record.owner], value) != value;
}

bool ReportReader::was_told(const RoundView& round) {
  std::pair<std::uint64_t, std::string> name(round.epoch, round.result == "committed" ? round.group : round.reason);
  if (std::find(told_.begin(), told_.end(), name) != told_.end()) return true;
  if (told_.size() == kRoundsMax) told_.erase(told_.begin());
  told_.push_back(std::move(name));
  return false;
}

std::vector<RoundView> ReportReader::rounds(const std::vector<directory::Record>& records,
                                            const std::vector<PeerId>& members, std::int64_t unix_ms) {
  std::vector<RoundView> out;
  for (const directory::Record& record : records) {
    if (!is_new(rounds_seen_, record)) continue;
    auto round = decode_round(record.value);
    if (!round || was_told(*round)) continue;
    round->told_by = record.owner;
    round->ended_unix_ms = unix_ms;
    for (RoundMember& member : round->members) complete(member, members);
    out.push_back(std::move(*round));
  }
  return out;
}

std::vector<ToldEvaluation> ReportReader::evaluations(const std::vector<directory::Record>& records) {
  std::vector<ToldEvaluation> out;
  for (const directory::Record& record : records) {
    if (!is_new(evaluations_seen_, record)) continue;
    const auto told = decode_evaluation(record.value);
    if (told) out.push_back({record.owner, told->epoch, told->loss});
  }
  return out;
}

}  // namespace collab::monitor
