#pragma once
// collab-bench codec: how fast values become bytes and values again, and how far off those are.

#include "report.hpp"

#include <cstddef>
#include <cstdint>

namespace collab::bench {

struct CodecSpeedOrder {
  std::size_t floats = 10'000'000;
  std::size_t rounds = 7;  ///< that count, after one to warm up
  std::uint64_t seed = 1;  ///< of the values
  Output output;
};

/// Encodes and decodes one vector of values of N(0,1) with each codec, on one core, by each level of vector
/// instructions that this processor has. Seconds are of the thread, so that turns of other processes are not counted;
/// on a machine with nothing else to do they are what a clock shows. What others do to the caches is counted, so in a
/// round all levels of all codecs take their turn. Of the JSON line:
///   level: what collab itself works with here
///   codecs: a row for each codec and level, the best level first. Medians over the rounds, and with _min the least:
///     encode_seconds, decode_seconds, round_trip_seconds: the last is of the sums
///     encode_gb_per_s, decode_gb_per_s: 10^9 bytes of float32 a second, whatever the codec's own bytes are
///     mean_squared_error, error_max: of the decoded values against those encoded; bytes: of the encoded vector
///     equal_to_portable: bytes and values are, to the bit
/// Returns the exit code: not 0 when some level is not equal to portable, or refuses.
int measure_codecs(const CodecSpeedOrder& order);

}  // namespace collab::bench
