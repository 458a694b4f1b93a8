#pragma once
// One line per epoch in a file that spreadsheets and scripts read: metrics.csv.

#include "base/log.hpp"
#include "crypto/hash.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace collab::monitor {

struct EpochLine {
  std::uint64_t epoch = 0;
  std::int64_t unix_ms = 0;
  double loss = 0;                ///< not finite: unknown, an empty cell
  std::uint64_t samples = 0;      ///< in the step, of all peers
  std::uint64_t own_samples = 0;  ///< of those, this peer's
  std::uint64_t peers = 0;
  double round_s = 0;          ///< of the averaging
  std::uint64_t up_bytes = 0;  ///< of the round
  std::uint64_t down_bytes = 0;
  Digest parameter_hash{};  ///< after the step
};

/// Appends to a file for as long as the run lives, over restarts: one header, whole lines only. A line that a crash
/// left unfinished is cut off; a file of other columns is kept as metrics.csv.old-1, -2, … Training never waits for it
/// and never fails by it: when a line cannot be written (disk full) it is lost, which is said once until it works
/// again. Writes on the calling thread: a line is about 150 bytes.
class MetricsCsv {
 public:
  /// Opens nothing yet. `log` outlives it.
  MetricsCsv(std::filesystem::path file, Log& log) : file_(std::move(file)), log_(log) {}

  /// False when the line is lost.
  bool append(const EpochLine& line);

 private:
  std::string try_append(const std::string& line);

  std::filesystem::path file_;
  Log& log_;
  bool failing_ = false;
};

}  // namespace collab::monitor
