#pragma once
// Who reaches whom from behind which kinds of box, as today's nodes find out and dial.

#include "nat/mapping_kind.hpp"
#include "nat/reachability.hpp"
#include "sim/fake_crypto.hpp"
#include "sim/nat_box.hpp"
#include "sim/network.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace collab::sim {

/// What a peer of a pair is behind.
struct NatKind {
  std::string name;
  std::optional<NatOptions> box;  ///< none: public
  bool shared = false;            ///< both peers of a pair of this kind are behind one box
  std::uint16_t port = 443;       ///< where it listens: there even those get out to whom nothing else is open
};
/// Public; each mapping with each filter; a firewall that translates nothing; port 443 only; pairs in one home, whose
/// box sends them back or does not; and public at another port than 443.
std::vector<NatKind> nat_kinds();
/// One of the two is public, and the other's box lets nothing out to it.
bool must_be_led_on(const NatKind& a, const NatKind& b) noexcept;

struct NatPairsOptions {
  std::uint64_t seed = 1;
  std::vector<NatKind> kinds = nat_kinds();
  LinkOptions links{};
  std::size_t judges = 3;                     ///< public nodes beside the coordinator, so that verdicts are sure
  Duration settle = std::chrono::minutes(1);  ///< until everybody's reachability is judged and known
  Crypto crypto = Crypto::fake;
};

/// Two peers, `a` of one kind and `b` of another or the same one. Unless both can be dialled they have never met.
struct NatPair {
  std::size_t a = 0;  ///< index of its kind
  std::size_t b = 0;
  bool a_dials = false;   ///< a's call came through, over a connection that a dialled
  bool b_dials = false;   ///< the same of b, when a could not, or in return for a circuit of a's
  bool relayed = false;   ///< neither: it came through a relay, and still does
  bool led_on = false;    ///< and that relay carries tensors too
  Duration took{};        ///< until a's call, or else b's, was answered
  bool punched = false;   ///< it came through a relay, and needs none any more, though nobody dials the other
  Duration punched_in{};  ///< the same, after that
  Duration crossed_in{};  ///< of that: from its first dial, after all was agreed, until two of them had met
};

struct NatFacts {
  std::vector<NatKind> kinds;
  std::vector<nat::State> states;          ///< of the first peer of each kind
  std::vector<bool> sure;                  ///< three judged
  std::vector<nat::MappingKind> mappings;  ///< as it finds
  std::vector<NatPair> pairs;              ///< a <= b
  std::uint64_t hidden_dials = 0;          ///< from one that is behind a box to one behind another: never any use
  std::uint64_t fingerprint = 0;
  Duration length{};
};

/// Every pair of kinds once, each peer a whole node that has joined one run.
NatFacts run_nat_pairs(const NatPairsOptions& options);

/// What is wrong with them, as sentences: who is open and not reached, or says that it is open and nobody dialled it;
/// who might do without a relay and does not, or should not and does.
std::vector<std::string> nat_lies(const NatFacts& facts);

}  // namespace collab::sim
