#pragma once
// `collab-sim partition FILE`: who averages how much of the vector on given lines, by the plan of the production code.

#include "averaging/load_balance.hpp"
#include "node/config.hpp"
#include "tensor/codec.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace collab::sim {

inline constexpr std::size_t kPartitionPeersMax = 1'000'000;  ///< without pairs
inline constexpr double kPartitionValuesMax = 1e12;

/// What a FILE says.
struct PartitionCase {
  std::size_t values = 0;
  CodecId part_codec = CodecId::float16;
  CodecId result_codec = CodecId::float16;
  std::vector<averaging::MemberLoad> peers;
  std::vector<averaging::PairLimit> pairs;
};
/// Throws `Failure(usage)`, which says where in `file` what is wrong.
PartitionCase read_partition(const std::string& file);

struct PartitionAnswer {
  averaging::Shares shares;
  std::vector<double> peer_seconds;
  double seconds = 0;  ///< of the slowest, for all values
  /// Speed at which a peer receives averages, DeDLOC's z: bits of the encoded vector over `seconds`; 0 when that is 0.
  double model_mbit_per_s = 0;
  double equal_split_seconds = 0;         ///< all nodes own equal shares; where there is none, all auxiliaries
  double equal_with_auxiliaries_s = 0;    ///< all who may own own equal shares
  std::vector<std::uint32_t> plan_units;  ///< what a leader would decide; empty when there are too many for a group
  double plan_seconds = 0;
};
PartitionAnswer partition(const PartitionCase& given);

/// What `partition --help` says: the format of FILE.
std::string partition_help();

/// An exit code. Throws `Failure(usage)`.
int run_partition(const node::Config& config, const std::vector<std::string>& words, const std::string& command);

}  // namespace collab::sim
