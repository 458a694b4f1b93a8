#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "doctor/run.hpp"
#include "nat/circuit_network.hpp"
#include "nat/dial_back.hpp"
#include "nat/relay_client.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace collab::doctor {
namespace {

constexpr std::size_t kNamesMax = 16;
constexpr Duration kRelayTime = std::chrono::seconds(3);
constexpr Duration kRouterTime = std::chrono::milliseconds(8500);  // both protocols have given up by then

/// Null: no router is asked. Without a note: a mapping for good is not made for a look.
std::unique_ptr<nat::PortMapping> mapping_for(const node::NodeNeeds& needs, const node::NodeOptions& options,
                                              const net::Address& listen) {
  nat::PortMapping::Options how = options.port_mapping;
  how.port = node::port_for_router(options, {listen});
  if (how.port == 0) return nullptr;
  how.note.clear();
  nat::PortMapping::Needs asking{needs.clock,   needs.random.derive("port_map"),           needs.log,     needs.loop,
                                 needs.workers, options.gateways(needs.loop, needs.clock), options.router};
  return std::make_unique<nat::PortMapping>(std::move(asking), how);
}

Task<> wait_for_router(Clock& clock, nat::PortMapping& mapping, TimePoint deadline) {
  while (mapping.status().phase == nat::MappingStatus::Phase::asking && clock.now() < deadline)
    co_await mapping.changed().wait_until(clock, deadline);
}

/// What all parts of a look share.
struct Visit {
  Visit(const node::Node& who, const LookOptions& how)
      : peer(who), needs(who.needs()), options(how), random(needs.random.derive("doctor")), access(rules()) {}

  Access::Options rules() const {
    Access::Options rules;
    rules.own = peer.self();
    return rules;
  }
  /// Listens where it was told; nowhere, if that port was taken meanwhile.
  void open() {
    net::EndpointOptions say = peer.scout_options();
    if (options.listen) say.listen.push_back(*options.listen);
    try {
      make(say);
    } catch (const Failure&) {
      say.listen.clear();
      make(say);
    }
    peer.brief(*endpoint);
    const auto no_answer = [](PeerId, Frame, TimePoint) -> Task<net::Answer> {
      co_return Refusal(Errc::gone, "this is a look from outside, no member");
    };
    endpoint->handle(nat::dial_back_method(), no_answer);
    endpoint->handle(nat::relay_method("relay.reserve"), no_answer);
    const auto listening = endpoint->listening();
    if (!listening.empty()) port = listening.front().port;
    if (options.ask_router && port != 0) mapping = mapping_for(needs, peer.options(), listening.front());
  }
  void make(const net::EndpointOptions& say) {
    const net::PeerEndpoint::Needs own{needs.loop, needs.clock,   needs.network,   random.derive("net"),
                                       needs.log,  needs.metrics, peer.identity(), access};
    endpoint = std::make_unique<net::PeerEndpoint>(own, say);
    endpoint->listen();
  }

  const node::Node& peer;
  const node::NodeNeeds& needs;
  const LookOptions& options;
  Random random;
  Access access;
  std::unique_ptr<net::PeerEndpoint> endpoint;
  std::uint16_t port = 0;                     ///< where it listens; 0: nowhere
  std::unique_ptr<nat::PortMapping> mapping;  ///< null: no router is asked
  std::vector<node::Place> places;
  std::vector<std::optional<node::Found>> found;  ///< by place
  std::map<PeerId, std::int64_t> skews_ms;        ///< as their hellos said
  RunLook look;
};

/// The first places, of contacts only some: whoever named a place wants to know about it.
std::vector<node::Place> cut(std::vector<node::Place> places, const LookOptions& options) {
  std::size_t contacts = 0;
  const auto too_many = [&](const node::Place& place) {
    return place.source == node::Source::contact && ++contacts > options.contacts_max;
  };
  places.erase(std::remove_if(places.begin(), places.end(), too_many), places.end());
  if (places.size() > options.places_max) places.resize(options.places_max);
  return places;
}

Task<> look_up(Visit& visit, std::string host) {
  const TimePoint deadline = visit.needs.clock.now() + visit.options.name_time;
  auto found = co_await visit.options.look_up(host, deadline);
  if (found) visit.look.hosts[host] = std::move(*found);
}

/// Notes what the first hello said of time: later a peer that is alone follows our clock as we would follow its.
Task<boost::system::result<PeerId, Refusal>> dial(Visit& visit, net::Address at, TimePoint deadline) {
  const auto peer = co_await visit.endpoint->connect(std::move(at), deadline);
  if (!peer) co_return peer;
  if (const auto skew = visit.endpoint->skew_ms(*peer)) visit.skews_ms.emplace(*peer, *skew);
  co_return peer;
}

Task<> look_at_place(Visit& visit, std::size_t index) {
  net::PeerEndpoint& endpoint = *visit.endpoint;
  const node::Connect connect = [&visit](net::Address at, TimePoint deadline) {
    return dial(visit, std::move(at), deadline);
  };
  const TimePoint start = visit.needs.clock.now();
  std::vector<node::Place> one(1, visit.places[index]);
  node::Round round = co_await node::search(endpoint, connect, visit.needs.clock, std::move(one), visit.peer.expected(),
                                            visit.options.search);
  node::Attempt attempt;
  attempt.place = visit.places[index];
  attempt.finding = node::Finding::found;
  attempt.waited = visit.needs.clock.now() - start;
  if (!round.attempts.empty()) attempt = std::move(round.attempts.front());
  visit.look.attempts[index] = std::move(attempt);
  visit.found[index] = std::move(round.found);
}

/// Not a name that the name service does not know.
bool has_address(const Visit& visit, std::size_t index) {
  const auto host = visit.look.hosts.find(visit.places[index].at.address.host);
  return host == visit.look.hosts.end() || !host->second.empty();
}

Task<> look_everywhere(Visit& visit) {
  std::vector<node::Place> places = co_await visit.peer.places();
  visit.places = cut(std::move(places), visit.options);
  visit.look.attempts.resize(visit.places.size());
  visit.found.resize(visit.places.size());
  for (const node::Place& place : visit.places) {
    const bool by_proxy = visit.options.proxy && visit.options.proxy->leads_to(place.at.address);
    if (!by_proxy && !net::is_numeric(place.at.address) && visit.look.hosts.size() < kNamesMax)
      visit.look.hosts[place.at.address.host].clear();
  }
  const auto body = [&visit](TaskGroup& tasks) -> Task<> {
    // names first: one resolver answers them all, and a slow one would take the time of the dials
    for (const auto& [host, nothing] : visit.look.hosts) tasks.spawn("doctor.look_up", look_up(visit, host));
    co_await tasks.join();
    for (std::size_t i = 0; i < visit.places.size(); ++i) {
      if (has_address(visit, i)) {
        tasks.spawn("doctor.place", look_at_place(visit, i));
      } else {
        visit.look.attempts[i].place = visit.places[i];  // refused: there is no such host
      }
    }
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  const auto is_there = [](const auto& found) { return found.has_value(); };
  const auto first = std::find_if(visit.found.begin(), visit.found.end(), is_there);
  if (first != visit.found.end()) visit.look.found = std::move(*first);
}

/// The median, so that one whose clock is wrong does not make ours wrong.
void compare_clocks(Visit& visit) {
  std::vector<std::int64_t> skews;
  for (const auto& [peer, skew_ms] : visit.skews_ms) skews.push_back(skew_ms);
  if (skews.empty()) return;
  const auto middle = skews.begin() + static_cast<std::ptrdiff_t>((skews.size() - 1) / 2);
  std::nth_element(skews.begin(), middle, skews.end());
  visit.look.skew_ms = *middle;
}

/// Who was asked for dial-backs may relay as well. What is granted ends with the connection.
Task<> ask_for_relays(Visit& visit, Reach& reach) {
  const Frame question = frame::encode(nat::wire::RelayHeader(nat::wire::Reserve()));
  for (const PeerId& peer : visit.endpoint->connected()) {
    const TimePoint deadline = visit.needs.clock.now() + kRelayTime;
    const auto answer = co_await visit.endpoint->call(peer, "relay.reserve", question, deadline);
    if (answer) reach.relays.push_back(peer);
    if (reach.relays.size() == nat::RelayClient::Options().reservations) co_return;
  }
}

/// By those who were dialled, so can be.
Task<nat::MappingFinding> measure_mapping(Visit& visit) {
  const auto observers = [&visit] {
    std::vector<nat::Observer> all;
    for (const PeerId& peer : visit.endpoint->connected())
      if (auto at = visit.endpoint->remote_of(peer); at && at->leg == net::Leg::tcp)
        all.push_back(nat::Observer{peer, std::move(*at)});
    return all;
  };
  nat::MappingProbe::Needs needs{
      visit.needs.loop, *visit.endpoint, visit.needs.network, visit.needs.clock, visit.random.derive("mapping"),
      visit.needs.log,  observers,       [] { return true; }};
  nat::MappingProbe::Options options;
  options.dial_time = kRelayTime;
  nat::MappingProbe probe(std::move(needs), options);
  co_return co_await probe.measure();
}

Task<> ask_for_dial_backs(Visit& visit) {
  Reach reach;
  reach.port = visit.port;
  visit.look.reach = reach;
  if (!nat::may_knock_at(visit.port)) co_return;
  Clock& clock = visit.needs.clock;
  net::PeerEndpoint& endpoint = *visit.endpoint;
  const auto connected = [&endpoint] { return endpoint.connected(); };
  nat::Reachability::Options options;
  options.port = visit.port;
  nat::Reachability reachability(endpoint, clock, visit.random.derive("nat"), visit.needs.log, visit.needs.loop,
                                 connected, options);
  const TimePoint deadline = clock.now() + visit.options.dial_back_time;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    if (visit.mapping && visit.mapping->status().mapping)
      reachability.offer(visit.mapping->status().mapping->outside_port);
    tasks.spawn("doctor.dial_back", reachability.run());
    while (reachability.state() == nat::State::unknown && clock.now() < deadline)
      co_await reachability.changed().wait_until(clock, deadline);
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  reach.state = reachability.state();
  reach.servers = std::min(endpoint.connected().size(), options.servers_max);
  reach.addresses = reachability.addresses();
  if (nat::only_dials(reach.state)) {
    co_await ask_for_relays(visit, reach);
    reach.mapping = co_await measure_mapping(visit);
  }
  visit.look.reach = std::move(reach);
}

Task<> note_router(Visit& visit) {
  RouterLook router;
  router.status = visit.mapping->status();
  router.port = visit.port;
  router.observed = visit.endpoint->observed_host().value_or(std::string());
  visit.look.router = std::move(router);
  co_await visit.mapping->remove();
}

}  // namespace

Task<std::optional<RouterLook>> look_at_router(node::NodeNeeds needs, const node::NodeOptions& options,
                                               net::Address listen) {
  const auto mapping = mapping_for(needs, options, listen);
  if (!mapping) co_return std::nullopt;
  RouterLook router;
  router.port = listen.port;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("doctor.port_map", mapping->run());
    co_await wait_for_router(needs.clock, *mapping, needs.clock.now() + kRouterTime);
    router.status = mapping->status();
    co_await mapping->remove();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return router;
}

Task<RunLook> look_at_run(const node::Node& peer, LookOptions options) {
  Visit visit(peer, options);
  visit.look.run_id = peer.options().run.run_id;
  visit.look.proxy = visit.options.proxy;
  visit.open();
  const auto body = [&visit](TaskGroup& tasks) -> Task<> {
    tasks.spawn("doctor.endpoint", visit.endpoint->run());
    const TimePoint router_deadline = visit.needs.clock.now() + kRouterTime;
    if (visit.mapping) tasks.spawn("doctor.port_map", visit.mapping->run());
    co_await look_everywhere(visit);
    compare_clocks(visit);
    if (visit.mapping) co_await wait_for_router(visit.needs.clock, *visit.mapping, router_deadline);
    if (visit.look.found && visit.port != 0) co_await ask_for_dial_backs(visit);
    if (visit.mapping) co_await note_router(visit);
    co_await visit.endpoint->leave();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return std::move(visit.look);
}

}  // namespace collab::doctor
