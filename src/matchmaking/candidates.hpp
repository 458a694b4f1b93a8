#pragma once
// Who may be in the group, and who of them leads.

#include "matchmaking/terms.hpp"

#include <boost/container/flat_map.hpp>

#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace collab::matchmaking {

/// How much is known about a peer's wish to take part in this round.
enum class Sureness : std::uint8_t {
  contact,   ///< took part in an earlier epoch; may not come
  declared,  ///< its record names this round, or a peer of this round vouches for it
  standing,  ///< committed the round before with us: counts as joined to its first leader
};

struct Candidate {
  PeerId id;
  bool reachable = true;  ///< can be dialled, so can lead
  Sureness sureness = Sureness::declared;
};

/// The peers of one search with their places. Bounded: of more than kCandidatesMax the surest are kept.
class Candidates {
 public:
  static constexpr std::size_t kCandidatesMax = 256;

  explicit Candidates(const Terms& terms, Links links);

  /// Adds, or raises what is known. Self is ignored. False when the set is full.
  bool add(const Candidate&);
  /// Not to be asked or waited for in this search, because of `why`: a word for the log.
  void strike(const PeerId&, std::string_view why);
  void forgive(const PeerId& peer) { struck_.erase(peer); }
  /// Of whom `which(peer, why)` says so.
  template <class Which>
  void forgive_if(Which which) {
    std::erase_if(struck_, [&](const auto& entry) { return which(entry.first, entry.second); });
  }
  bool struck(const PeerId& peer) const { return struck_.contains(peer); }
  const std::map<PeerId, std::string_view>& struck() const noexcept { return struck_; }

  const std::map<PeerId, Candidate>& known() const noexcept { return known_; }
  /// The smallest place among those who can lead, are not struck, and are at least so sure; self included when it can
  /// be dialled. Nothing for a client that knows nobody.
  std::optional<PeerId> smallest(Sureness at_least) const;
  /// Whether `a` has the smaller place.
  bool before(const PeerId& a, const PeerId& b) const { return place_of(a) < place_of(b); }
  /// Known, not struck; self counts.
  std::size_t possible() const;

 private:
  Digest place_of(const PeerId&) const;

  const Terms& terms_;
  Links links_;
  std::map<PeerId, Candidate> known_;
  std::map<Digest, const Candidate*> by_place_;  // the same
  std::map<PeerId, std::string_view> struck_;
  mutable boost::container::flat_map<PeerId, Digest>
      places_;  // computed once; of at most the peers that were asked about
};

}  // namespace collab::matchmaking
