#include "net/swarm_time.hpp"

#include "net/hello.hpp"

#include <algorithm>
#include <cstddef>

namespace collab::net {

std::int64_t SwarmTime::swarm_ms(std::vector<std::int64_t> skews) const {
  skews.push_back(0);
  const auto middle = skews.begin() + static_cast<std::ptrdiff_t>((skews.size() - 1) / 2);
  std::nth_element(skews.begin(), middle, skews.end());
  return own_ms() + std::clamp(*middle, -kSkewMaxMs, kSkewMaxMs);
}

}  // namespace collab::net
