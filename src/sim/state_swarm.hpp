#pragma once
// Joiners that fetch one state from the same donors, over production connections and links.

#include "sim/fake_crypto.hpp"
#include "sim/network.hpp"

#include <cstdint>
#include <vector>

namespace collab::sim {

struct StateSwarmOptions {
  std::uint64_t seed = 1;
  std::size_t donors = 8;
  std::size_t joiners = 50;
  std::size_t state_bytes = 16'000'000;
  std::size_t liars = 0;  ///< of the donors: show the right index and give wrong chunks
  std::size_t dying = 0;  ///< of the donors: killed at a random moment of the first `dies_within`
  Duration dies_within = std::chrono::seconds(5);
  Duration spread = std::chrono::seconds(1);     ///< joiners come within
  Duration patience = std::chrono::minutes(10);  ///< of a joiner
  LinkOptions links;
  LineOptions line;
  Crypto crypto = Crypto::fake;
};

struct JoinerFact {
  bool whole = false;      ///< it has the donors' bytes, all of them
  double seconds = 0;      ///< from its question on
  std::size_t donors = 0;  ///< that gave it at least one chunk
  std::size_t liars = 0;   ///< that it caught
};

struct StateFacts {
  std::vector<JoinerFact> joiners;
  Duration until_last{};              ///< from the first question to the last answer
  std::uint64_t bytes_delivered = 0;  ///< over all links, whatever they were for
  std::uint64_t fingerprint = 0;
  /// State bytes that arrived whole, of what the donors' lines, or the joiners' if those are less, carry in
  /// `until_last`: more than 1 when joiners gave each other what the donors could not.
  double line_share = 0;

  /// Of the joiners that got it: the time in which `share` of them did. 0: nobody.
  double seconds_of(double share) const;
};

/// Runs it to the end.
StateFacts run_state_swarm(const StateSwarmOptions& options);

}  // namespace collab::sim
