#pragma once
// What peers tell of rounds and evaluations, read once each.

#include "crypto/hash.hpp"
#include "directory/record.hpp"
#include "monitor/swarm_view.hpp"
#include "monitor/wire.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace collab::monitor {

struct ToldEvaluation {
  PeerId by;
  std::uint64_t epoch = 0;
  double loss = 0;
};

/// Thread safety: none. Memory: a hash for each of `kPeersMax` owners; others are not heard.
class ReportReader {
 public:
  /// What is new among `records`, those under `kRoundKey`. `members`: ids by which the members of rounds are completed.
  /// A round that several peers tell of, and a failure that they tell in the same words, comes once.
  std::vector<RoundView> rounds(const std::vector<directory::Record>& records, const std::vector<PeerId>& members,
                                std::int64_t unix_ms);
  /// What is new among `records`, those under `kEvaluationKey`.
  std::vector<ToldEvaluation> evaluations(const std::vector<directory::Record>& records);

 private:
  using Seen =
      std::map<PeerId, Digest>;  ///< by owner: of the value, since a record that is only renewed says nothing new
  static bool is_new(Seen& seen, const directory::Record& record);
  bool was_told(const RoundView& round);

  Seen rounds_seen_;
  Seen evaluations_seen_;
  std::vector<std::pair<std::uint64_t, std::string>> told_;  ///< epoch, and group or reason; the last `kRoundsMax`
};

}  // namespace collab::monitor
