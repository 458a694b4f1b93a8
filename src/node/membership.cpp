#include "node/membership.hpp"

#include "base/task_group.hpp"
#include "directory/introduce_peers.hpp"
#include "nat/address_kind.hpp"
#include "nat/explain.hpp"
#include "nat/route.hpp"
#include "node/owner_limits.hpp"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::node {
namespace {

constexpr Duration kOwnAddressPeriod = std::chrono::seconds(5);
constexpr Duration kTurnedAwayPause = std::chrono::seconds(1);
constexpr Duration kAlonePause = std::chrono::seconds(2);       // doubled with each try in vain
constexpr Duration kVerdictTime = std::chrono::seconds(20);     // after which dial-backs would have got through
constexpr Duration kFirstConnection = std::chrono::seconds(4);  // three of a long way's round trips, one of them lost
constexpr Duration kWithdrawTime = std::chrono::milliseconds(100);  // for the last record to be on its way

bool is_unspecified(const std::string& host) {
  return host == "::" || host == "0.0.0.0";
}

bool is_loopback(const std::string& host) {
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

Access::Options access_rules(const NodeOptions& options, const PeerId& own, const Manifest& manifest, Log& log) {
  Access::Options rules;
  rules.run_id = manifest.run_id;
  rules.admission = manifest.admission;
  rules.allow_list = options.allow_list;
  rules.own = own;
  rules.authority = manifest.authority;
  if (manifest.admission == Admission::allow_list && options.allow_list.empty()) {
    // only who has the list can enforce it; the others rely on the coordinators, whose directory admits nobody else
    rules.admission = Admission::open;
    log.warn("node.admission_not_enforced", {{"run", manifest.run_id}, {"advice", "give the list: --allow FILE"}});
  }
  return rules;
}

}  // namespace

nat::RelayMode parse_relay_mode(const std::string& text) {
  if (const auto mode = nat::relay_mode_named(text)) return *mode;
  throw Failure(ExitCode::usage, fmt::format("\"{}\" is nothing that a relay does", text),
                "--relay off, signal or bulk");
}

void ask_own_router(NodeOptions& options) {
  options.gateways = nat::real_gateways;
  options.router = nat::private_router;
}

std::uint16_t port_for_router(const NodeOptions& options, const std::vector<net::Address>& listening) {
  const bool wanted = options.gateways && options.router && options.announce.empty();
  if (!wanted || listening.empty() || is_loopback(listening.front().host)) return 0;
  return listening.front().port;
}

std::string origin_of(const std::string& host) {
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error || address.is_loopback() || address.is_unspecified()) return {};
  if (address.is_v4()) {
    if (nat::is_private_v4(host)) return {};
    const auto bytes = address.to_v4().to_bytes();
    return fmt::format("{}.{}.{}", bytes[0], bytes[1], bytes[2]);
  }
  const auto bytes = address.to_v6().to_bytes();
  const bool local = address.to_v6().is_link_local() || (bytes[0] & 0xfeU) == 0xfcU;
  if (local) return {};
  return fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
                     bytes[5]);
}

Bytes publishable(directory::PeerRecord record, Log& log) {
  auto value = encode(record);
  if (value) return std::move(*value);
  log.warn("node.addresses_not_published", {{"addresses", record.listen.size()}, {"why", value.error().message()}});
  record.listen.clear();
  record.relays.clear();
  value = encode(record);
  assert(value && "names are checked when the node is made");
  return std::move(*value);
}

Membership::Membership(const NodeNeeds& needs, const Identity& identity, const NodeOptions& options, Signed statement,
                       Manifest manifest, directory::Contacts contacts, std::vector<PeerId> bootstrap)
    : needs_(needs),
      identity_(identity),
      options_(options),
      incarnation_(needs_.random.derive("incarnation").next()),
      access_(access_rules(options, identity.id(), manifest, needs.log)),
      tls_(identity, net::tls_options(needs_.network)),
      contacts_(std::move(contacts)),
      circuits_({needs_.loop, needs_.clock, needs_.random.derive("circuits"), needs_.log, needs_.network}, {}),
      life_(needs_.loop) {
  listen();
  (void)access_.refresh(needs_.clock.now(), endpoint_->swarm_ms());
  AdmissionKeeper::Options admitting;
  admitting.run_id = manifest.run_id;
  admitting.authority = manifest.authority;
  admitting.token_file = token_file(options_);
  if (!options_.home.empty()) admitting.ban_file = options_.home / "bans";
  admission_ = std::make_unique<AdmissionKeeper>(
      AdmissionKeeper::Needs{*endpoint_, access_, needs_.clock, needs_.log, needs_.loop}, admitting);
  const auto connected = [this] { return endpoint_->connected(); };
  ManifestKeeper::Options keeping;
  if (!options_.home.empty()) keeping.file = options_.home / "manifest.signed";
  const Manifest first = manifest;
  keeper_ =
      std::make_unique<ManifestKeeper>(ManifestKeeper::Needs{*endpoint_, needs_.clock, needs_.random.derive("manifest"),
                                                             needs_.log, needs_.loop, needs_.workers, connected},
                                       std::move(statement), std::move(manifest), keeping);

  const auto host_of = [this](const PeerId& peer) -> std::optional<std::string> {
    const auto remote = endpoint_->remote_of(peer);
    return remote ? std::optional(remote->host) : std::nullopt;
  };
  nat::DialBackServer::Options judging;
  judging.may_judge = [this] {
    if (options_.behind_proxy) return false;
    // whoever is dialled from outside had to dial somebody by WebSocket for his sake, not for our network's
    if (options_.serve_directory || nat::can_be_dialled(reachability_->state())) return true;
    return endpoint_->way_out().empty() || endpoint_->way_out() == "tcp";
  };
  dial_back_ = std::make_unique<nat::DialBackServer>(*endpoint_, needs_.network, needs_.clock, needs_.log, tls_,
                                                     host_of, judging);
  make_reachability(!bootstrap.empty() || contacts_.size() > 0);
  make_relays();
  make_punching();

  directory::ServerOptions serving;
  serving.storage.rules.run = first.run_id;
  serving.storage.rules.authority = first.authority;
  serving.storage.rules.verified = needs_.verified;
  if (options_.serve_directory) bootstrap.push_back(identity_.id());
  for (const Contact& coordinator : first.coordinators) bootstrap.push_back(coordinator.peer);
  for (const PeerId& peer : bootstrap) {
    const auto named = std::find(serving.bootstrap.begin(), serving.bootstrap.end(), peer);
    if (named == serving.bootstrap.end()) serving.bootstrap.push_back(peer);
  }
  serving.unix_ms = [this] { return endpoint_->swarm_ms(); };
  serving.origin = [host_of](const PeerId& peer) {
    const auto host = host_of(peer);
    return host ? origin_of(*host) : std::string();
  };
  server_ = std::make_unique<directory::Server>(*endpoint_, needs_.clock, needs_.random.derive("directory.server"),
                                                needs_.log, needs_.loop, serving);
  directory::SwarmDirectoryOptions reading = options_.directory;
  if (!options_.home.empty()) reading.contacts_file = options_.home / "contacts";
  directory_ = std::make_unique<directory::SwarmDirectory>(*endpoint_, needs_.clock, needs_.random.derive("directory"),
                                                           needs_.log, needs_.loop, needs_.workers, identity_, *server_,
                                                           contacts_, reading);
  members_ = directory_->watch(std::string(directory::kPeerKey));
  members_->relax(directory::kMembersPace);
  obey(first);
}

Membership::~Membership() = default;

net::EndpointOptions Membership::endpoint_options(const std::optional<net::Address>& listen) const {
  net::EndpointOptions options;
  options.run = options_.run.run_id;
  options.software = options_.software;
  options.roles.push_back(options_.role);
  options.announce = options_.announce;
  if (options_.relay != nat::RelayMode::bulk) options.onward = [this] { return onward_relays(); };
  if (listen) options.listen.push_back(*listen);
  if (listen && options_.wss_port != 0)
    options.listen.push_back(net::Address{listen->host, options_.wss_port, net::Leg::wss});
  if (listen) options.listen.push_back(nat::circuits_come_in());
  return options;
}

/// Makes the endpoint. Without a port to listen at by wish, takes the first that is free. The one for WebSockets is by
/// wish: when that cannot be had, another first one helps nobody.
void Membership::listen() {
  const net::PeerEndpoint::Needs needs{needs_.loop, needs_.clock,   circuits_, needs_.random.derive("net"),
                                       needs_.log,  needs_.metrics, identity_, access_};
  const auto open = [&](const std::optional<net::Address>& at) {
    endpoint_ = std::make_unique<net::PeerEndpoint>(needs, endpoint_options(at));
    endpoint_->listen();
  };
  if (options_.client) return open(std::nullopt);
  if (options_.listen) return open(options_.listen);
  for (std::uint16_t i = 0; i < kDefaultPorts; ++i) {
    net::Address at;
    at.host = "::";
    at.port = static_cast<std::uint16_t>(kDefaultPort + i);
    try {
      return open(at);
    } catch (const Failure& taken) {
      if (!endpoint_->listening().empty()) throw;  // it has the bare port, so this is about the other
      needs_.log.debug("node.port_taken", {{"port", at.port}, {"why", taken.cause()}});
    }
  }
  net::Address any;
  any.host = "::";
  open(any);
}

std::uint16_t Membership::port() const {
  const auto listening = endpoint_->listening();
  return listening.empty() ? std::uint16_t(0) : listening.front().port;
}

/// Who knows of others has a way to them, however long.
void Membership::make_reachability(bool knows_others) {
  const auto connected = [this] { return endpoint_->connected(); };
  nat::Reachability::Options reach = options_.reachability;
  reach.port = port();
  if (reach.port != 0) reach.wss_port = options_.wss_port;
  reach.addresses_max = directory::kListenAddressesMax;
  if (knows_others) reach.nobody = std::max(reach.nobody, kFirstConnection);
  reachability_ = std::make_unique<nat::Reachability>(*endpoint_, needs_.clock, needs_.random.derive("nat"), needs_.log,
                                                      needs_.loop, connected, reach);
  const std::uint16_t mapped = port_for_router(options_, endpoint_->listening());
  port_mapping_ = make_port_mapping(mapped, "port_mapping");
  web_port_mapping_ = make_port_mapping(mapped == 0 ? mapped : options_.wss_port, "port_mapping_wss");
}

std::unique_ptr<nat::PortMapping> Membership::make_port_mapping(std::uint16_t port, const std::string& name) {
  nat::PortMapping::Options mapping = options_.port_mapping;
  mapping.port = port;
  if (!options_.home.empty()) mapping.note = options_.home / name;
  nat::PortMapping::Needs asking{
      needs_.clock, needs_.random.derive(name), needs_.log, needs_.loop, needs_.workers, {}, options_.router};
  if (mapping.port != 0) asking.gateways = options_.gateways(needs_.loop, needs_.clock);
  return std::make_unique<nat::PortMapping>(std::move(asking), std::move(mapping));
}

/// Both halves: a node that others come to dial gives up its reservations, and grants some.
void Membership::make_relays() {
  // whoever can be dialled is met by strangers anyway
  circuits_.use(*endpoint_, [this](const PeerId& relay) {
    return relay_client_->has(relay) || nat::can_be_dialled(reachability_->state());
  });
  nat::RelayServer::Needs serving{needs_.loop,    *endpoint_,         needs_.clock, needs_.log,
                                  needs_.metrics, circuits_.topics(), {},           {}};
  serving.host_of = [this](const PeerId& peer) -> std::optional<std::string> {
    const auto remote = endpoint_->remote_of(peer);
    return remote ? std::optional(remote->host) : std::nullopt;
  };
  serving.can_be_dialled = [this] { return nat::can_be_dialled(reachability_->state()); };
  nat::RelayServer::Options options;
  options.mode = options_.relay;
  options.bulk.bytes_per_s = options_.relay_bytes_per_s;
  options.bulk.bytes_per_s_of_all = 10 * options_.relay_bytes_per_s;
  const double share = share_for_others(needs_.network.caps().up.bytes_per_s);
  for (nat::RelayServer::Quota* quota : {&options.signal, &options.bulk}) {
    quota->bytes_per_s_of_all = std::min(quota->bytes_per_s_of_all, share);
    quota->bytes_per_s = std::min(quota->bytes_per_s, share);
  }
  relay_server_ = std::make_unique<nat::RelayServer>(std::move(serving), options);
  nat::RelayClient::Needs asking{needs_.loop, *endpoint_, needs_.clock, needs_.random.derive("relays"),
                                 needs_.log,  {},         {},           {}};
  asking.candidates = [this] { return relay_candidates(); };
  asking.probe = [this](const PeerId& relay) { endpoint_->probe(relay); };
  asking.wanted = [this] { return port() != 0 && nat::only_dials(reachability_->state()); };
  relay_client_ = std::make_unique<nat::RelayClient>(std::move(asking), nat::RelayClient::Options());
}

/// For pairs of which relays lead to both ends.
void Membership::make_punching() {
  const auto observers = [this] {
    std::vector<nat::Observer> all;
    for (const nat::RelayClient::Candidate& candidate : relay_candidates()) {
      const net::LinkState link = endpoint_->link(candidate.peer);
      auto at = endpoint_->remote_of(candidate.peer);  // where we have met it: a record could name anybody's place
      if (link.dialled && link.path == "tcp" && at) all.push_back(nat::Observer{candidate.peer, std::move(*at)});
    }
    return all;
  };
  const auto only_dials = [this] { return port() != 0 && nat::only_dials(reachability_->state()); };
  nat::MappingProbe::Needs measuring{
      needs_.loop, *endpoint_, needs_.network, needs_.clock, needs_.random.derive("mapping"),
      needs_.log,  observers,  only_dials};
  mapping_probe_ = std::make_unique<nat::MappingProbe>(std::move(measuring), nat::MappingProbe::Options());
  const auto mapping = [this] { return mapping_probe_->finding().kind; };
  nat::Puncher::Needs punching{needs_.loop, *endpoint_,     needs_.network, needs_.clock, needs_.random.derive("punch"),
                               needs_.log,  needs_.metrics, observers,      mapping,      only_dials};
  puncher_ = std::make_unique<nat::Puncher>(std::move(punching), nat::Puncher::Options());
}

/// Whoever others dial may lead to us.
std::vector<nat::RelayClient::Candidate> Membership::relay_candidates() const {
  std::vector<nat::RelayClient::Candidate> all;
  for (const Member& member : members()) {
    if (!member.record.reachable || member.peer == identity_.id()) continue;
    if (!access_.may(member.peer, Claim::relay)) continue;
    const auto is_bare = [](const net::Address& at) { return at.leg == net::Leg::tcp; };
    const auto at = std::find_if(member.record.listen.begin(), member.record.listen.end(), is_bare);
    if (at != member.record.listen.end()) all.push_back({member.peer, *at});
  }
  return all;
}

/// Connected ones that carry tensors, the nearest first.
std::vector<net::Address> Membership::onward_relays() const {
  std::vector<std::pair<Duration, net::Address>> near;
  for (const Member& member : members()) {
    const net::LinkState link = endpoint_->link(member.peer);
    const bool leads = member.record.reachable && member.record.relays_tensors && nat::is_direct(link);
    if (!leads || !access_.may(member.peer, Claim::relay)) continue;
    net::Address at;
    at.host = member.peer.text();
    at.leg = net::Leg::onward;
    at.relay = member.peer;
    near.emplace_back(link.rtt, std::move(at));
  }
  std::sort(near.begin(), near.end());
  std::vector<net::Address> all;
  for (auto& [rtt, at] : near) all.push_back(std::move(at));
  return all;
}

Task<> Membership::follow_relays() {
  for (;;) {
    reachability_->led_to_by_relay(relay_client_->size() > 0);
    reachability_->changed().notify();  // another relay is news as well
    co_await relay_client_->changed().wait();
  }
}

Task<> Membership::follow_mapping() {
  for (;;) {
    co_await mapping_probe_->changed().wait();
    puncher_->look_again();
    reachability_->changed().notify();  // it is published
  }
}

bool Membership::asks_router() const {
  return port_for_router(options_, endpoint_->listening()) != 0;
}

/// What takes effect at once when the manifest changes. Who is blocked here gets a new chance.
void Membership::obey(const Manifest& manifest) {
  access_.change(access_rules(options_, identity_.id(), manifest, needs_.log));
  (void)access_.refresh(
      needs_.clock.now(),
      endpoint_->swarm_ms());  // a list that cannot be read admits nobody; the endpoint reads it again
  for (const Contact& coordinator : manifest.coordinators) {
    if (coordinator.peer == identity_.id() || coordinator.addresses.empty()) continue;
    endpoint_->introduce(coordinator.peer, coordinator.addresses);
  }
}

void Membership::meet(const PeerId& peer, const net::Address& address) {
  directory::Contact contact;
  contact.id = peer;
  contact.addresses.push_back(address);
  directory_->meet(std::move(contact));
}

std::vector<Member> Membership::members() const {
  std::vector<Member> all;
  for (const directory::Record& record : members_->records()) {
    auto peer = directory::decode_peer_record(record.value);
    if (!peer || !record.subkey.empty()) continue;
    Member member;
    member.peer = record.owner;
    member.record = std::move(*peer);
    all.push_back(std::move(member));
  }
  return all;
}

directory::PeerRecord Membership::own_record() const {
  directory::PeerRecord record;
  record.reachable = nat::can_be_dialled(reachability_->state());
  record.directory = options_.serve_directory;
  record.relays_tensors = record.reachable && options_.relay == nat::RelayMode::bulk;
  record.role = options_.role;
  record.name = options_.name;
  record.software = options_.software;
  record.incarnation = incarnation_;
  if (nat::only_dials(reachability_->state()) && options_.announce.empty()) {
    record.relays = relay_client_->addresses();
    if (record.relays.size() > directory::kRelaysMax) record.relays.resize(directory::kRelaysMax);
    record.punchable = !record.relays.empty() && nat::can_be_punched(mapping_probe_->finding().kind);
    return record;
  }
  record.listen = options_.announce.empty() ? reachability_->addresses() : options_.announce;
  // names go into the manifest, which the authority signs; of a stranger's record nobody would look them up
  std::erase_if(record.listen, [](const net::Address& at) { return !net::is_numeric(at); });
  if (!record.listen.empty()) return record;
  const bool behind = reachability_->counts_as_client() && is_perhaps_translated();
  if (behind) return record;                        // a verdict is on its way
  for (net::Address at : endpoint_->listening()) {  // nobody has judged yet: where it should be possible
    if (is_unspecified(at.host) && !endpoint_->observed_host()) continue;
    if (is_unspecified(at.host)) at.host = *endpoint_->observed_host();
    if (!net::is_numeric(at)) continue;
    record.listen.push_back(std::move(at));
  }
  return record;
}

/// A router is in between, or others see another address than the one that was listened at.
bool Membership::is_perhaps_translated() const {
  if (options_.router && options_.router()) return true;
  const auto seen = endpoint_->observed_host();
  if (!seen) return false;
  const auto listening = endpoint_->listening();
  const auto is_other = [&seen](const net::Address& at) { return !is_unspecified(at.host) && at.host != *seen; };
  return std::any_of(listening.begin(), listening.end(), is_other);
}

/// Has `publish_self` look at once: until it is judged anew, others dial this node where it is no more.
Task<> Membership::notice_moves() {
  for (;;) {
    co_await endpoint_->moved().wait();
    reachability_->changed().notify();
  }
}

Task<> Membership::publish_self() {
  std::string own_host;
  bool counted_as_client = reachability_->counts_as_client();
  Bytes told;
  for (;;) {
    // each member follows these records: one that says nothing new would go to all of them
    if (Bytes own = publishable(own_record(), needs_.log); own != told) {
      told = own;
      directory_->publish(std::string(directory::kPeerKey), "", std::move(own), options_.record_ttl);
    }
    for (bool changed = false; !changed;) {
      changed = co_await reachability_->changed().wait_until(needs_.clock, needs_.clock.now() + kOwnAddressPeriod);
      const std::string host = endpoint_->observed_host().value_or(std::string());
      const bool moved = !own_host.empty() && !host.empty() && host != own_host;
      if (moved) reachability_->doubt();
      if (moved) mapping_probe_->doubt();
      relay_client_->look_again();
      mapping_probe_->look_again();
      puncher_->look_again();
      const bool elsewhere = !host.empty() && std::exchange(own_host, host) != host;
      changed = changed || elsewhere;
      const bool is_client = reachability_->counts_as_client();
      if (std::exchange(counted_as_client, is_client) != is_client) changed = changed || is_perhaps_translated();
      explain_once();
      tell_way_out_once();
    }
  }
}

/// A promise of the router's goes to those who can try it out.
Task<> Membership::follow_port_mapping() {
  std::optional<std::uint16_t> offered;
  for (;;) {
    const nat::MappingStatus& status = port_mapping_->status();
    const bool settled = status.phase != nat::MappingStatus::Phase::asking;
    mapping_settled_ = settled ? std::min(mapping_settled_, needs_.clock.now()) : TimePoint::max();
    std::optional<std::uint16_t> promised;
    if (status.mapping) promised = status.mapping->outside_port;
    if (offered != promised) reachability_->offer(promised);
    offered = promised;
    co_await port_mapping_->changed().wait();
  }
}

/// Asks the router when it has answered about the other one: many take one question at a time.
Task<> Membership::follow_web_port_mapping() {
  using Phase = nat::MappingStatus::Phase;
  while (port_mapping_->status().phase == Phase::asking) co_await port_mapping_->changed().wait();
  const auto follow = [this]() -> Task<> {
    std::optional<std::uint16_t> offered;
    for (;;) {
      const auto& mapping = web_port_mapping_->status().mapping;
      const auto promised = mapping ? std::optional(mapping->outside_port) : std::nullopt;
      if (std::exchange(offered, promised) != promised) reachability_->offer_web(promised);
      co_await web_port_mapping_->changed().wait();
    }
  };
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("nat.web_port_map.follow", follow());
    co_await web_port_mapping_->run();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

/// Tells the owner of a machine that nobody can dial, when everything has been tried that a program can try.
void Membership::explain_once() {
  const bool tried = mapping_settled_ != TimePoint::max() && needs_.clock.now() >= mapping_settled_ + kVerdictTime;
  if (explained_ || !asks_router() || !tried || !nat::only_dials(reachability_->state())) return;
  explained_ = true;
  const std::string observed = endpoint_->observed_host().value_or(std::string());
  const nat::Explanation told = nat::explain_unreachable(port_mapping_->status(), port(), observed);
  needs_.log.warn("node.nobody_dials_us",
                  {{"why", told.why}, {"advice", told.remedy}, {"relays", relay_client_->size()}});
}

/// Where bare TCP leads nowhere: once something else does.
void Membership::tell_way_out_once() {
  const std::string_view path = endpoint_->way_out();
  if (told_way_out_ || path.empty() || path == "tcp") return;
  told_way_out_ = true;
  needs_.log.info("node.way_out", {{"path", path}, {"role", options_.role}, {"listens", port() != 0}});
}

Task<> Membership::follow_manifest() {
  for (;;) {
    co_await keeper_->changed().wait();
    obey(keeper_->manifest());
  }
}

/// True when the last peer has told meanwhile that this node is not welcome any more. Who is alone waits less: it may
/// know nobody's address but those it was given.
Task<bool> Membership::wait_to_touch(Duration& alone_pause) {
  const TimePoint end = needs_.clock.now() + options_.touch_period;
  while (needs_.clock.now() < end) {
    const TimePoint look = std::min(end, needs_.clock.now() + alone_pause);
    const bool turned_away = co_await endpoint_->turned_away().wait_until(needs_.clock, look);
    if (turned_away) {
      co_await needs_.clock.sleep_until(needs_.clock.now() + kTurnedAwayPause);  // the others speak too
      co_return endpoint_->connected().empty();
    }
    const bool alone = endpoint_->connected().empty();
    alone_pause = alone ? std::min(2 * alone_pause, options_.touch_period) : kAlonePause;
    if (alone) break;
  }
  co_return false;
}

Task<> Membership::keep_in_touch(std::vector<Place> places) {
  const Connect connect = [this](net::Address at, TimePoint deadline) { return endpoint_->connect(at, deadline); };
  Expected expected;
  expected.run_id = options_.run.run_id;
  expected.authority = keeper_->manifest().authority;
  std::vector<Place> pending = places;
  std::vector<Signed> heard;
  Duration alone_pause = kAlonePause;
  const auto answered = [&](const net::Address& at) {
    std::erase_if(pending, [&](const Place& place) { return place.at.address == at; });
  };
  const Tell tell = [&](const Found& found) {
    answered(found.address);
    meet(found.member, found.address);
    heard.push_back(found.statement);
  };
  for (;;) {
    const bool turned_away = co_await wait_to_touch(alone_pause);
    const bool alone = turned_away || endpoint_->connected().empty() || !directory_->connected();
    // a place that never answered may be another half of the swarm
    std::vector<Place> tried = alone ? places : pending;
    if (tried.empty()) continue;
    const Round round =
        co_await search(*endpoint_, connect, needs_.clock, std::move(tried), expected, options_.search, tell);
    for (const Attempt& attempt : round.attempts)  // there we are ourselves, or somebody whom we do not seek
      if (attempt.finding == Finding::other_peer && !attempt.place.at.peer) answered(attempt.place.at.address);
    for (const Attempt& attempt : round.attempts)
      if (alone && !round.found && attempt.finding == Finding::not_admitted && is_final(attempt))
        admission_->dismiss(attempt.text);
    for (Signed& statement : heard) (void)co_await keeper_->offer(std::move(statement));  // newer or not
    heard.clear();
  }
}

/// Everything that uses the endpoint.
Task<> Membership::live(std::vector<Place> places) {
  const auto failed = [this](std::string_view task, std::exception_ptr failure) {
    needs_.log.error("node.task_failed", {{"task", task}});
    std::rethrow_exception(std::move(failure));
  };
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("directory.server", server_->run());
    tasks.spawn("directory", directory_->run());
    tasks.spawn("directory.introduce", directory::introduce_peers(*directory_, *endpoint_, needs_.log));
    tasks.spawn("nat", reachability_->run());
    tasks.spawn("nat.circuits", circuits_.run());
    tasks.spawn("nat.relay", relay_server_->run());
    if (port() != 0) {
      tasks.spawn("nat.relays", relay_client_->run());
      tasks.spawn("nat.relays.follow", follow_relays());
      tasks.spawn("nat.mapping", mapping_probe_->run());
      tasks.spawn("nat.mapping.follow", follow_mapping());
      tasks.spawn("nat.punch", puncher_->run());
    }
    if (asks_router()) {
      tasks.spawn("nat.port_map", port_mapping_->run());
      tasks.spawn("nat.port_map.follow", follow_port_mapping());
      if (options_.wss_port != 0) tasks.spawn("nat.web_port_map", follow_web_port_mapping());
    }
    tasks.spawn("run.manifest", keeper_->run(*directory_));
    tasks.spawn("node.admission", admission_->run(*directory_));
    tasks.spawn("node.publish", publish_self());
    tasks.spawn("node.moves", notice_moves());
    tasks.spawn("node.manifest", follow_manifest());
    tasks.spawn("node.touch", keep_in_touch(places));
    if (options_.lan && port() != 0) {
      LanAnswer answer;
      answer.run_id = options_.run.run_id;
      answer.peer = identity_.id();
      answer.port = port();
      answer.authority = keeper_->manifest().authority;
      tasks.spawn("node.lan", answer_on_lan(needs_.loop, needs_.clock, needs_.log, answer, *options_.lan));
    }
    while (!leaving_) co_await life_.wait();
  };
  auto scope = task_scope(failed, body);
  co_await std::move(scope);
}

Task<> Membership::run(std::vector<Place> places) {
  struct Living {  // also when it is cancelled: whoever leaves waits for the end
    explicit Living(Membership& of) : membership(of) { membership.living_ = true; }
    ~Living() {
      membership.living_ = false;
      membership.life_.notify();
    }
    Living(const Living&) = delete;
    Living& operator=(const Living&) = delete;
    Membership& membership;
  };
  const auto live_once = [&]() -> Task<> {
    const Living living(*this);
    co_await live(places);
  };
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("net", endpoint_->run());  // ends when all who use it have ended
    co_await live_once();
    co_await needs_.clock.sleep_until(TimePoint::max());
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> Membership::unmap_ports() {
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    tasks.spawn("nat.unmap", port_mapping_->remove());
    tasks.spawn("nat.unmap", web_port_mapping_->remove());
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> Membership::leave() {
  directory_->withdraw(std::string(directory::kPeerKey), "");
  co_await needs_.clock.sleep_until(needs_.clock.now() + kWithdrawTime);
  co_await unmap_ports();
  leaving_ = true;
  life_.notify();
  while (living_) co_await life_.wait();  // a question that waits for news would hold its connection open
  server_->stop_waiting();                // and so would one of somebody else's
  co_await endpoint_->leave();
}

}  // namespace collab::node
