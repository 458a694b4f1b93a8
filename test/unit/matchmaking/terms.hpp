#pragma once
// Terms of a small swarm, and messages as its peers would send them.

#include "matchmaking/gathering.hpp"
#include "support/message_network.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace collab::matchmaking {

using namespace std::chrono_literals;
using test::peer;

inline constexpr std::size_t kUnits = 64;
inline constexpr std::uint64_t kTarget = 100;
inline constexpr TimePoint kStart{std::chrono::seconds(100)};

inline Plan everything_to_first_node(const std::vector<Applicant>& roster, std::uint32_t /*round*/) {
  Plan plan;
  plan.units.assign(roster.size(), 0);
  const auto owns = [](const Applicant& one) { return one.role != Role::client; };
  const auto owner = std::find_if(roster.begin(), roster.end(), owns);
  plan.units[static_cast<std::size_t>(owner - roster.begin())] = kUnits;
  return plan;
}

inline Terms terms_of(unsigned self, std::size_t electorate = 3) {
  Terms terms;
  terms.self = peer(self);
  terms.options.key = "run/gradients/0/-";
  terms.options.schema[0] = 1;
  terms.options.codec_map[0] = 2;
  terms.options.values = kUnits * 4096;
  terms.options.plan = everything_to_first_node;
  terms.options.weight_max = [](const PeerId&) { return kTarget; };
  terms.wanted.epoch = 5;
  terms.wanted.target_samples = kTarget;
  terms.wanted.weight_min = kTarget / 2;
  terms.wanted.electorate = electorate;
  terms.wanted.deadline = kStart + 10s;
  return terms;
}

/// What the follower of these terms sends to a leader.
inline wire::Join join_of(unsigned self, std::uint64_t samples) {
  const Terms terms = terms_of(self);
  Follower follower(terms);
  return follower.ask(peer(999), samples, kStart);
}

/// All links are well, but those of the peers in `dead` and `mended` broke at kStart + 1 s.
struct FakeLinks {
  std::set<PeerId> dead;
  std::set<PeerId> mended;  ///< connected again
  std::set<PeerId> frozen;  ///< nothing came since kStart
  TimePoint now = kStart;

  Links links() {
    Links links;
    links.can_reach = [](const PeerId&) { return true; };
    links.state = [this](const PeerId& id) {
      net::LinkState state;
      state.connected = !dead.contains(id);
      state.lost_at = dead.contains(id) || mended.contains(id) ? kStart + 1s : TimePoint{};
      state.last_received = frozen.contains(id) ? kStart : now;
      state.rtt = 20ms;
      return state;
    };
    return links;
  }
};

/// Numbers of peers 1..20 by their place in epoch 5: the first leads.
inline std::vector<unsigned> by_place() {
  std::vector<unsigned> numbers;
  for (unsigned i = 1; i <= 20; ++i) numbers.push_back(i);
  const Terms terms = terms_of(0);
  const auto before = [&](unsigned a, unsigned b) { return terms.place_of(peer(a)) < terms.place_of(peer(b)); };
  std::sort(numbers.begin(), numbers.end(), before);
  return numbers;
}

}  // namespace collab::matchmaking
