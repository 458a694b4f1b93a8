#pragma once
// What a measured round averages: a vector that every process can make again from its seed, so inputs never travel.

#include "crypto/hash.hpp"
#include "tensor/codec.hpp"
#include "tensor/schema.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace collab::bench {

struct Workload {
  std::size_t tensors = 1;
  std::size_t floats = 1;  ///< of each tensor
  std::string codec = "float32";
  std::size_t peers = 2;
  std::uint64_t seed = 0;
  std::string shape;            ///< of the peers' lines, as `lines_of` takes it; empty: loopback
  bool equal_split = false;     ///< of the vector among its owners, whatever their lines
  bool relayed = false;         ///< the first two meet by a relay only, `kRelay`,
  double relay_bits_per_s = 0;  ///< which carries so much; 0: what it can
  bool plaintext = false;       ///< nothing is encrypted
  double queue_s = .2;          ///< that the boxes of those lines hold back: routers at home hold as much and more

  std::size_t values() const noexcept { return tensors * floats; }
  Schema schema() const;
  /// Throws `Failure(usage)` for an unknown codec.
  CodecMap codecs() const;
};

/// Samples behind the vector of peer `index`: 1, 2, …
inline std::uint64_t weight_of(std::size_t index) noexcept {
  return index + 1;
}

/// The input of peer `index` in `round`, uniform in [-1, 1). `into`: all values of the vector.
void fill(const Workload& workload, std::size_t index, std::uint64_t round, std::span<float> into);

/// How far `result` is from the weighted mean of all inputs of `round`, computed again in float64: the largest
/// |result - mean| / m over the vector, where m is the weighted mean of the inputs' magnitudes (so that a mean that
/// happens to be near zero does not decide). Not finite when a value of `result` is not.
double max_relative_error(const Workload& workload, std::uint64_t round, std::span<const float> result);

/// Of the bytes of the values.
Digest digest_of(std::span<const float> values);

}  // namespace collab::bench
