#pragma once
// How a person names a run, and where it is: `NAME`, `NAME#KEY`, `host:port`, `ID@host:port`, `wss://…`, `collab://…`.

#include "crypto/peer_id.hpp"
#include "net/address.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::node {

/// A run's full name is its id and the key of its authority; without the key, the first one seen is shown and pinned.
struct RunName {
  std::string run_id;
  std::optional<PeerId> authority;
  bool operator==(const RunName&) const = default;
};

/// 1 to 64 of `a-z 0-9 . _ -`, as the hello of a connection demands.
bool is_run_id(std::string_view text) noexcept;
std::string to_string(const RunName&);
/// `NAME` or `NAME#KEY`. Throws `Failure(usage)`, saying what is wrong with which part.
RunName parse_run_name(std::string_view text);

/// Where a run keeps key, contacts, caches and checkpoints when nobody says otherwise: $XDG_DATA_HOME or
/// ~/.local/share, then collab/<run>.
std::filesystem::path default_home(const std::string& run_id);

/// Where somebody may be dialled and, when it is known, who has to be there.
struct PeerAddress {
  net::Address address;
  std::optional<PeerId> peer;
  auto operator<=>(const PeerAddress&) const = default;
};

/// `host:port` or `wss://host:port/collab/v1`, perhaps behind `ID@`.
std::string to_string(const PeerAddress&);
/// Throws `Failure(usage)`.
PeerAddress parse_peer_address(std::string_view text);

inline constexpr std::size_t kLinkBytesMax = 4096;
inline constexpr std::size_t kLinkAddressesMax = 16;

/// What a volunteer pastes: `collab://host:port,host:port/NAME?key=KEY`.
struct JoinLink {
  RunName run;
  std::vector<PeerAddress> addresses;  ///< 1 to kLinkAddressesMax
  bool operator==(const JoinLink&) const = default;
};

/// Whether `text` is meant as a link, right or wrong.
bool looks_like_link(std::string_view text) noexcept;
std::string to_string(const JoinLink&);
/// Throws `Failure(usage)`. A parameter that is not `key` is an error: it may be one that changes what the link means.
JoinLink parse_join_link(std::string_view text);

}  // namespace collab::node
