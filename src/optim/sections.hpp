#pragma once
// The sections of a model's state, as trainers write and read them. Only sources of `optim` include this.

#include "base/bytes.hpp"
#include "state/snapshot.hpp"

#include <cstring>
#include <span>
#include <vector>

namespace collab::optim {

inline constexpr const char* kParameters = "parameters";
inline constexpr const char* kOptimizer = "optimizer";  ///< what the step of the run keeps beside them
inline constexpr const char* kSchedule = "schedule";
inline constexpr const char* kStatistics = "statistics";  ///< moments that the run averages along
inline constexpr const char* kExtra = "extra";            ///< tracked tensors

inline void append(Bytes& bytes, std::span<const float> values) {
  const auto raw = std::as_bytes(values);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

inline state::Section section(const char* name, std::span<const float> values) {
  state::Section made{name, {}};
  append(made.bytes, values);
  return made;
}

/// `bytes`: a multiple of four.
inline std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace collab::optim
