#include "node/owner_limits.hpp"

namespace collab::node {
namespace {

constexpr double kForOthers = 0.2;

double bytes_per_s(double mbit) {
  return mbit > 0 ? mbit * 1e6 / 8 : net::kUncapped;
}

}  // namespace

net::LimitedNetwork::Limits owner_limits(double up_mbit, double down_mbit) {
  return {bytes_per_s(up_mbit), bytes_per_s(down_mbit)};
}

double share_for_others(double up_bytes_per_s) {
  return kForOthers * up_bytes_per_s;
}

}  // namespace collab::node
