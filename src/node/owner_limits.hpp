#pragma once
// How much of the line a machine's owner lets a node have, and how much of that others.

#include "net/limited_network.hpp"

namespace collab::node {

/// `up_mbit`, `down_mbit`: the options `limit-up` and `limit-down`; 0: no limit.
net::LimitedNetwork::Limits owner_limits(double up_mbit, double down_mbit);

/// Of what it may send, bytes/s, the part that a node spends at most on relaying, and again on states that it passes
/// on.
double share_for_others(double up_bytes_per_s);

}  // namespace collab::node
