#pragma once
// The line a volunteer sees.

#include <cstdint>
#include <optional>
#include <string>

namespace collab::cli {

struct ProgressFacts {
  std::string run_id;
  std::uint64_t epoch = 0;
  double loss = 0;  ///< NaN: unknown
  std::uint64_t peers = 0;
  std::uint64_t samples = 0;  ///< of this epoch, all peers
  std::uint64_t target_batch = 0;
  double eta_s = 0;  ///< infinite: unknown
  std::uint64_t own_samples = 0;
  double up_bytes_per_s = 0;
  double down_bytes_per_s = 0;
};

/// `columns` wide at most: fields are dropped from the right. Without `unicode` the bar is of # and -.
std::string progress_line(const ProgressFacts& facts, std::size_t columns, bool unicode);

/// Columns of the terminal behind stderr; empty when it is none.
std::optional<std::size_t> terminal_columns();

}  // namespace collab::cli
