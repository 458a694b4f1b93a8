#include "net/swarm_time.hpp"

#include "net/hello.hpp"

#include <algorithm>
#include <cstddef>

namespace collab::net {
namespace {

constexpr std::int64_t kJumpMs = 1000;     // less is a clock that is set right little by little
constexpr std::int64_t kDriftMs = 10'000;  // in days

}  // namespace

bool SwarmTime::agree(const std::vector<Skew>& skews) {
  std::vector<std::int64_t> votes;
  for (const Skew& skew : skews) votes.push_back(skew.ms);
  if (votes.size() == 1 && !skews.front().dialled) return true;
  if (votes.size() != 1) votes.push_back(skew_ms_);
  const auto middle = votes.begin() + static_cast<std::ptrdiff_t>((votes.size() - 1) / 2);
  std::nth_element(votes.begin(), middle, votes.end());
  const bool off = *middle > kSkewMaxMs + kDriftMs || *middle < -kSkewMaxMs - kDriftMs;
  skew_ms_ = off ? 0 : std::clamp(*middle, -kSkewMaxMs, kSkewMaxMs);
  return !off;
}

void SwarmTime::read_calendar() {
  const std::int64_t jump_ms = clock_.unix_ms() - own_ms();
  if (jump_ms >= -kJumpMs && jump_ms <= kJumpMs) return;
  unix_at_start_ += jump_ms;
  skew_ms_ = 0;
}

}  // namespace collab::net
