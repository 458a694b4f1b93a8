#include "jobs/microbatch_size.hpp"

#include <algorithm>
#include <utility>

namespace collab::jobs {
namespace {

constexpr unsigned kSlowInARow = 2;
constexpr unsigned kFastMax = 100'000;  // half a day of half seconds
constexpr double kRoom = 0.7;           // of kLongest, for twice as many: else it would go to and fro

}  // namespace

bool MicrobatchSize::computed(std::uint64_t samples, Duration took) {
  if (!std::exchange(warm_, true) || samples != samples_) return false;  // fewer were leased
  slow_ = took > kLongest ? slow_ + 1 : 0;
  fast_ = 2 * to_seconds(took) < kRoom * to_seconds(kLongest) ? fast_ + 1 : 0;
  if (slow_ >= kSlowInARow) {
    const double fit = to_seconds(kLongest) / to_seconds(took) * static_cast<double>(samples_);
    std::uint32_t fewer = samples_;
    while (fewer > 1 && static_cast<double>(fewer) > fit) fewer /= 2;
    if (!change_to(fewer)) return false;
    fast_in_a_row_ = std::min(8 * fast_in_a_row_, kFastMax);
    return true;
  }
  return fast_ >= fast_in_a_row_ && change_to(std::min(recipes_, 2 * samples_));
}

bool MicrobatchSize::change_to(std::uint32_t samples) {
  slow_ = fast_ = 0;
  return std::exchange(samples_, samples) != samples;
}

}  // namespace collab::jobs
