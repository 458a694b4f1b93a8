#include "net/swarm_time.hpp"

#include "net/hello.hpp"

#include <algorithm>
#include <cstddef>

namespace collab::net {

void SwarmTime::agree(std::vector<std::int64_t> skews) {
  skews.push_back(0);
  const auto middle = skews.begin() + static_cast<std::ptrdiff_t>((skews.size() - 1) / 2);
  std::nth_element(skews.begin(), middle, skews.end());
  skew_ms_ = std::clamp(*middle, -kSkewMaxMs, kSkewMaxMs);
}

}  // namespace collab::net
