#pragma once
// A look at the run as a joiner would see it: every place where it may be, its clock, its manifest, and whether it can
// dial us. Looking and judging are apart, so that every answer can be judged.

#include "doctor/finding.hpp"
#include "nat/mapping_kind.hpp"
#include "nat/port_mapping.hpp"
#include "nat/reachability.hpp"
#include "net/proxy.hpp"
#include "node/node.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace collab::doctor {

/// What the name service says of a host: numeric ones. `TcpNetwork::look_up`, or a test's.
using LookUp = std::function<Task<Result<std::vector<std::string>>>(std::string host, TimePoint deadline)>;

struct LookOptions {
  LookUp look_up;
  std::optional<net::Proxy> proxy = {};  ///< of the network: names that it leads to are not looked up here
  /// Where others are asked to knock; none: nobody is asked.
  std::optional<net::Address> listen;
  /// Whether the router is asked to let others in there, as `NodeOptions` of the node say.
  bool ask_router = true;
  Duration name_time = std::chrono::seconds(5);
  node::SearchOptions search = {std::chrono::seconds(5), std::chrono::seconds(5), 1};  ///< of each place
  Duration dial_back_time = std::chrono::seconds(9);
  std::size_t contacts_max = 8;  ///< members of earlier times that are tried
  std::size_t places_max = 32;   ///< all in all
};

/// Whether others could dial this machine.
struct Reach {
  std::uint16_t port = 0;  ///< where they would dial; nobody is asked unless `nat::may_knock_at` it
  nat::State state = nat::State::unknown;
  std::size_t servers = 0;              ///< who could be asked
  std::vector<net::Address> addresses;  ///< where they dialled us
  std::vector<PeerId> relays = {};      ///< of them, when nobody could: who would lead others to us
  nat::MappingFinding mapping = {};     ///< the same: how a router translates what we dial, if two told
};

/// What the router said when it was asked to let others in.
struct RouterLook {
  nat::MappingStatus status;
  std::uint16_t port = 0;  ///< where this machine would listen
  std::string observed;    ///< its address as others see it; empty: nobody said
};
/// "port mapping". `reach`: what dial-backs found while the mapping was there, if anybody was asked.
Finding judge_router(const RouterLook& router, const std::optional<Reach>& reach);

/// Facts.
struct RunLook {
  std::string run_id;
  std::map<std::string, std::vector<std::string>> hosts;  ///< each name, and what the name service says; empty: nothing
  std::vector<node::Attempt> attempts;                    ///< of every place, in their order; `found` too
  std::optional<node::Found> found;                       ///< the first of them
  std::optional<std::int64_t> skew_ms;                    ///< the peers' time minus ours: the median of who answered
  std::optional<Reach> reach;
  std::optional<RouterLook> router;
  std::optional<net::Proxy> proxy = {};
};

/// Asks the router for the port of `listen` and takes it back: at most 10 s. Nothing when `options` ask no router.
Task<std::optional<RouterLook>> look_at_router(node::NodeNeeds needs, const node::NodeOptions& options,
                                               net::Address listen);

/// At most about 25 s: names, the places that have an address side by side, then dial-backs. `node`: not joined;
/// nothing in its home is changed. Throws `Failure(usage)` when the peer's token is none.
Task<RunLook> look_at_run(const node::Node& node, LookOptions options);

struct JudgeOptions {
  bool named = true;  ///< the run; else whoever answers is all right, whatever run it is of
  /// Whose key was shown, when it was not the peer's own. None was made yet: a run that refuses strangers will refuse
  /// it too. Unusable, as it is in use elsewhere or damaged: being refused says nothing.
  enum class Key : std::uint8_t { own, none_yet, unusable } key = Key::own;
};

inline constexpr std::int64_t kSkewWarnMs = 5'000;

/// names, one "bootstrap ADDR" for each place that somebody named, contacts, way out, run, protocol, clock, port
/// mapping, dial-back, translation; what could not be looked at is left out. "way out" is there when a proxy is set, or
/// when only WebSockets led to somebody.
std::vector<Finding> judge(const RunLook& look, const JudgeOptions& options);

}  // namespace collab::doctor
