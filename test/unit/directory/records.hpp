#pragma once
// The run and the time of the records that tests of this room make.

#include "directory/storage.hpp"

#include <cstdint>

namespace collab::directory {

inline constexpr std::int64_t kNow = 1'893'456'000'000;

inline Storage::Options bengali() {
  Storage::Options options;
  options.rules.run = "bengali";
  return options;
}

}  // namespace collab::directory
