#pragma once
// Where a run may be, and what happened when we looked there. Pure: node/join.cpp does the looking.

#include "base/clock.hpp"
#include "node/run_name.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace collab::node {

inline constexpr std::uint16_t kDefaultPort = 4600;
inline constexpr std::uint16_t kDefaultPorts = 20;  ///< from there on are tried for listening, then any
inline constexpr std::size_t kPlacesMax = 512;

/// Who told us of a place; the order is that in which they are tried.
enum class Source : std::uint8_t {
  given,     ///< by a flag or a join link
  run_book,  ///< runs.toml
  manifest,  ///< a coordinator that the run's manifest names
  contact,   ///< a member that was kept from an earlier time
  loopback,  ///< 127.0.0.1, where a coordinator on this machine listens
  lan,       ///< who answered on the local network
};
std::string_view name(Source) noexcept;

struct Place {
  PeerAddress at;
  Source source = Source::given;
};

/// `place` at the end unless its address is there already; an id that only the later one knows is kept.
void add_place(std::vector<Place>& places, Place place);

enum class Finding : std::uint8_t {
  found,
  refused,       ///< nobody listens there, or there is no such host
  silent,        ///< no answer in time
  busy,          ///< a member, but not now
  other_run,     ///< somebody of another run
  other_peer,    ///< not who had to be there
  not_admitted,  ///< the run does not want this peer
  version,       ///< protocols that do not meet
  clock,         ///< this machine's clock is off
  authority,     ///< the run of this name, but of another authority; or a manifest that is older than the one known
  damaged,       ///< an answer that no correct member gives
  proxy,         ///< this network's HTTP proxy leads to nobody there: net/proxy.hpp
  proxy_login,   ///< the proxy does not know this user
};

/// What came of one place.
struct Attempt {
  Place place;
  Finding finding = Finding::refused;
  std::string text;       ///< the other side's own words, or ours; may be empty
  Duration waited{};      ///< until that was clear
  int proxy_trouble = 0;  ///< of `proxy` and `proxy_login`: what `net::proxy_trouble` says
};

/// "host:4600 refused", "host2:4600 silent for 5 s".
std::string outcome(const Attempt& attempt);

/// What a refused or failed dial means. `waited`: how long it took to fail.
Finding finding_of(const Refusal& why, Duration waited);
/// What it means when somebody who was dialled says no to a question. The words, code and number are a stranger's, so
/// nothing that they say is about our proxy.
Finding finding_of_answer(const Refusal& why, Duration waited);

/// Whether trying again may help without anybody doing anything. The words of strangers on this machine or network are
/// not final; those of a place that the user named are.
bool is_final(const Attempt& attempt) noexcept;

/// One line for a person: "cannot join sahajbert: none of 2 addresses answered (host:4600 refused, host2:4600 silent
/// for 5 s)", or the words of who answered and said no. `attempts`: one round, may be empty.
std::string describe(const std::string& run_id, const std::vector<Attempt>& attempts);

/// The same as what a program ends with: exit code and remedy follow from the gravest finding.
Failure to_failure(const std::string& run_id, const std::vector<Attempt>& attempts);

/// And as what `Node::join` returns: `denied` (not admitted, another authority), `bad_request` (version, clock,
/// damaged), else `gone`.
Refusal to_refusal(const std::string& run_id, const std::vector<Attempt>& attempts);

}  // namespace collab::node
