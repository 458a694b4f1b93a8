#include "nat/port_mapping.hpp"

#include "base/file.hpp"
#include "base/offload.hpp"
#include "base/task_group.hpp"
#include "nat/address_kind.hpp"
#include "nat/dial_back.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <sstream>
#include <utility>

namespace collab::nat {
namespace {

using Refused = GatewayRefusal::Why;

constexpr std::string_view kNoteTitle = "collab-port-mapping-v1";
constexpr std::size_t kNoteBytesMax = 256;
constexpr Duration kRenewPauseMin = std::chrono::seconds(1);
constexpr std::uint32_t kEpochSlackS = 2;

std::string to_note(const MapRequest& permanent) {
  return fmt::format("{} {} {}\n", kNoteTitle, permanent.outside_port, permanent.inside_port);
}

/// What a damaged note says is nothing: it takes back a mapping, it promises none.
std::optional<MapRequest> from_note(const std::filesystem::path& file) {
  std::error_code missing;
  if (!std::filesystem::exists(file, missing)) return std::nullopt;
  const Bytes bytes = read_file(file, kNoteBytesMax);
  std::istringstream words(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::string title;
  MapRequest permanent;
  words >> title >> permanent.outside_port >> permanent.inside_port;
  if (!words || title != kNoteTitle || permanent.outside_port == 0 || permanent.inside_port == 0) return std::nullopt;
  return permanent;
}

std::string outside_of(const Sight& sight) {
  const bool sensible = is_public(sight.outside_host) || is_private_v4(sight.outside_host);
  return sensible ? sight.outside_host : std::string();
}

std::uint32_t seconds_of(Duration length) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(length).count());
}

}  // namespace

std::string describe(const std::vector<NoMapping>& trials) {
  std::string out;
  for (const NoMapping& trial : trials) {
    if (!out.empty()) out += ", and ";
    out += fmt::format("{} {}", name(trial.by), trial.why.text);
  }
  return out;
}

std::optional<std::string> second_nat(const Mapping& mapping, std::string_view observed) {
  if (is_private_v4(mapping.outside_host))
    return fmt::format("the router's own outside address {} is private: a second NAT is in front of your router",
                       mapping.outside_host);
  if (mapping.outside_host.empty() || observed.empty() || observed == mapping.outside_host) return std::nullopt;
  if (net::is_v6(observed) || !is_public(observed)) return std::nullopt;  // seen by another way
  return fmt::format("the router says that it is {}, but others see {}: a second NAT is in front of your router",
                     mapping.outside_host, observed);
}

GatewayResult<MapReply> check(const MapRequest& asked, const MapReply& reply) {
  if (reply.inside_port != asked.inside_port)
    return GatewayRefusal(Refused::nonsense,
                          fmt::format("answers about port {}, not {}", reply.inside_port, asked.inside_port));
  if (!may_knock_at(reply.outside_port))
    return GatewayRefusal(Refused::nonsense, fmt::format("gives port {}, which nobody dials", reply.outside_port));
  if (reply.lease_s == 0 && asked.lease_s != 0)
    return GatewayRefusal(Refused::nonsense, "gives a mapping that ends at once");
  MapReply sensible = reply;
  sensible.lease_s = std::min(reply.lease_s, asked.lease_s);
  return sensible;
}

bool has_restarted(std::uint32_t before_s, Duration since, std::uint32_t epoch_s) {
  const double expected = before_s + 0.875 * to_seconds(since);
  return epoch_s + static_cast<double>(kEpochSlackS) < expected;
}

/// Both protocols at once; only one of them asks for a port at a time.
struct PortMapping::Attempt {
  std::string router;
  std::optional<Mapping> won;
  std::optional<Sight> sight;  ///< of who won
  std::vector<NoMapping> trials;
  std::size_t open = 0;  ///< protocols that are not done
  bool asking = false;
};

PortMapping::PortMapping(Needs needs, Options options)
    : needs_(std::move(needs)), options_(std::move(options)), changed_(needs_.executor), wake_(needs_.executor) {
  if (options_.port != 0 && !needs_.gateways.empty()) status_.phase = Phase::asking;
}

void PortMapping::become(Phase phase) {
  if (std::exchange(status_.phase, phase) != phase) changed_.notify();
}

Task<> PortMapping::run() {
  if (status_.phase == Phase::off) co_return;
  co_await read_note();
  while (!leaving_) {
    const auto router = needs_.router();
    if (router) {
      co_await ask_router(*router);
      co_await keep(*router);
      continue;
    }
    if (status_.mapping) needs_.log.info("nat.port_map_lost", {{"why", "the router is gone"}});
    status_.mapping.reset();
    status_.router.clear();
    become(Phase::no_router);
    co_await wake_.wait_until(needs_.clock, needs_.clock.now() + options_.look_at_route);
  }
}

Task<> PortMapping::ask_router(std::string router) {
  status_.router = router;
  if (!status_.mapping) become(Phase::asking);
  Attempt attempt;
  attempt.router = std::move(router);
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    attempt.open = needs_.gateways.size();
    for (const auto& gateway : needs_.gateways) {
      // what an earlier run left behind is taken away by UPnP, so that is waited for
      tasks.spawn(std::string(name(gateway->protocol())), try_gateway(*gateway, attempt));
    }
    while (!leaving_ && attempt.open > 0 && (!attempt.won || leftover_)) co_await wake_.wait();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  if (!leaving_) settle(attempt);
}

Task<> PortMapping::try_gateway(Gateway& gateway, Attempt& attempt) {
  const Protocol by = gateway.protocol();
  const TimePoint start = needs_.clock.now();
  const TimePoint end = start + (by == Protocol::natpmp ? options_.natpmp_time : options_.upnp_time);
  const auto sight = co_await gateway.find(attempt.router, end);
  if (sight && by == Protocol::upnp) co_await remove_leftover(gateway, end);
  while (attempt.asking) co_await wake_.wait();
  if (!attempt.won) {
    GatewayResult<MapReply> reply = sight ? MapReply() : GatewayResult<MapReply>(sight.error());
    if (sight) {
      attempt.asking = true;
      reply = co_await ask_for_port(gateway, end);
      attempt.asking = false;
    }
    if (reply) {
      attempt.won.emplace(
          Mapping{by, attempt.router, options_.port, reply->outside_port, outside_of(*sight), reply->lease_s});
      attempt.sight = *sight;
    } else {
      attempt.trials.push_back(NoMapping{by, reply.error()});
    }
  }
  --attempt.open;
  wake_.notify();
}

/// Ours, else another when that is taken; for a time, else for good when the router knows nothing else.
Task<GatewayResult<MapReply>> PortMapping::ask_for_port(Gateway& gateway, TimePoint end) {
  MapRequest request{options_.port, wish(), std::max(1U, seconds_of(options_.lease))};
  unsigned others = 0;
  for (;;) {
    pending_ = request;
    pending_by_ = gateway.protocol();
    const TimePoint deadline = std::min(end, needs_.clock.now() + options_.request_time);
    const auto reply = co_await gateway.map(request, deadline);
    const auto sensible = reply ? check(request, *reply) : reply;
    if (sensible) {
      pending_->outside_port = sensible->outside_port;
      co_return sensible;
    }
    pending_.reset();
    const Refused why = sensible.error().why;
    if (why == Refused::taken && others < options_.other_ports_max) {
      ++others;
      request.outside_port = any_port();
    } else if (why == Refused::only_permanent && request.lease_s != 0) {
      request.lease_s = 0;
    } else {
      const bool made_perhaps = why == Refused::silent;
      if (request.lease_s == 0 && !made_perhaps) co_await write_note(std::nullopt);
      co_return sensible.error();
    }
    // before it is made: whatever happens, the next start removes it
    bool remembered = true;
    if (request.lease_s == 0) remembered = co_await write_note(request);
    if (!remembered) co_return GatewayRefusal(why, "maps ports for good only, which needs a home to remember it in");
  }
}

void PortMapping::accept(Mapping mapping) {
  const TimePoint now = needs_.clock.now();
  const Duration lease = std::chrono::seconds(mapping.lease_s);
  const bool for_good = mapping.lease_s == 0;
  renew_at_ = for_good ? TimePoint::max() : now + std::max(lease / 2, kRenewPauseMin);
  ends_at_ = for_good ? TimePoint::max() : now + lease;
  look_at_ = now + options_.look;
  if (status_.mapping != mapping) {
    needs_.log.info("nat.port_mapped", {{"by", name(mapping.by)},
                                        {"inside_port", mapping.inside_port},
                                        {"outside_port", mapping.outside_port},
                                        {"lease_s", mapping.lease_s}});
  }
  status_.mapping = std::move(mapping);
  status_.phase = Phase::mapped;
  pending_.reset();
}

/// After both protocols have been asked.
void PortMapping::settle(const Attempt& attempt) {
  status_.trials = attempt.trials;
  const auto by_protocol = [](const NoMapping& a, const NoMapping& b) { return a.by < b.by; };
  std::sort(status_.trials.begin(), status_.trials.end(), by_protocol);
  const TimePoint now = needs_.clock.now();
  if (attempt.won) {
    epoch_s_ = attempt.sight->epoch_s;
    epoch_at_ = now;
    accept(*attempt.won);
    changed_.notify();
    return;
  }
  if (status_.mapping && now < ends_at_) {  // a renewal that failed: there is time for another
    renew_at_ = std::min(ends_at_, now + std::max((ends_at_ - now) / 2, kRenewPauseMin));
    look_at_ = now + options_.look;
    return;
  }
  if (status_.mapping) needs_.log.info("nat.port_map_lost", {{"why", describe(attempt.trials)}});
  if (!status_.mapping) needs_.log.info("nat.no_port_mapping", {{"why", describe(attempt.trials)}});
  status_.mapping.reset();
  status_.phase = Phase::refused;
  const auto fifth = static_cast<std::uint64_t>(options_.again.count()) / 5;
  again_at_ = now + options_.again - Duration(fifth) + Duration(needs_.random.below(2 * fifth + 1));
  changed_.notify();
}

TimePoint PortMapping::next_look() const {
  const TimePoint own = status_.mapping ? std::min(renew_at_, look_at_) : again_at_;
  return std::min(own, needs_.clock.now() + options_.look_at_route);
}

/// Returns when the router has to be asked again from the beginning.
Task<> PortMapping::keep(std::string router) {
  while (!leaving_) {
    co_await wake_.wait_until(needs_.clock, next_look());
    if (leaving_) co_return;
    const TimePoint now = needs_.clock.now();
    if (needs_.router() != router) {
      ends_at_ = now;  // what another router promised is worth nothing here
      needs_.log.info("nat.router_changed");
      co_return;
    }
    bool good = status_.mapping || now < again_at_;
    if (status_.mapping && now >= renew_at_) {
      good = co_await renew();
    } else if (status_.mapping && now >= look_at_) {
      good = co_await is_still_there();
    }
    if (!good) co_return;
  }
}

/// False: by this way it cannot be had any more.
Task<bool> PortMapping::renew() {
  Mapping mapping = *status_.mapping;
  Gateway& gateway = gateway_of(mapping.by);
  const MapRequest request{mapping.inside_port, mapping.outside_port, std::max(1U, seconds_of(options_.lease))};
  const auto reply = co_await gateway.map(request, needs_.clock.now() + options_.request_time);
  if (leaving_) co_return true;
  if (!reply) co_return false;
  const auto sensible = check(request, *reply);
  if (!sensible) co_return false;
  mapping.outside_port = sensible->outside_port;
  mapping.lease_s = sensible->lease_s;
  const bool moved = mapping.outside_port != status_.mapping->outside_port;
  accept(std::move(mapping));
  needs_.log.debug("nat.port_map_renewed", {{"lease_s", status_.mapping->lease_s}});
  if (moved) changed_.notify();
  co_return true;
}

/// False: it has to be asked for anew. A router that says nothing is asked again when the mapping is renewed.
Task<bool> PortMapping::is_still_there() {
  const TimePoint start = needs_.clock.now();
  look_at_ = start + options_.look;
  const auto sight = co_await gateway_of(status_.mapping->by).look(mapped(), start + options_.request_time);
  if (leaving_) co_return true;
  const TimePoint now = needs_.clock.now();
  const bool gone = !sight && sight.error().why == Refused::gone;
  const bool restarted =
      sight && sight->epoch_s && epoch_s_ && has_restarted(*epoch_s_, now - epoch_at_, *sight->epoch_s);
  if (gone || restarted) {
    ends_at_ = now;
    needs_.log.info("nat.router_forgot", {{"restarted", restarted}});
    co_return false;
  }
  if (!sight) co_return sight.error().why != Refused::absent;  // the service is gone, the mapping perhaps not
  epoch_s_ = sight->epoch_s;
  epoch_at_ = now;
  if (const std::string outside = outside_of(*sight); outside != status_.mapping->outside_host) {
    status_.mapping->outside_host = outside;
    changed_.notify();
  }
  co_return true;
}

Task<> PortMapping::remove() {
  leaving_ = true;
  wake_.notify();
  if (!status_.mapping && !pending_) co_return;
  const MapRequest what = status_.mapping ? mapped() : *pending_;
  Gateway& gateway = gateway_of(status_.mapping ? status_.mapping->by : pending_by_);
  const bool removed = co_await gateway.unmap(what, needs_.clock.now() + options_.remove_time);
  needs_.log.info("nat.port_unmapped", {{"removed", removed}});
  const bool for_good = what.lease_s == 0;
  if (removed && for_good) co_await write_note(std::nullopt);
  status_.mapping.reset();
  status_.phase = Phase::off;
  changed_.notify();
}

MapRequest PortMapping::mapped() const {
  const Mapping& mapping = *status_.mapping;
  return MapRequest{mapping.inside_port, mapping.outside_port, mapping.lease_s};
}

Gateway& PortMapping::gateway_of(Protocol protocol) {
  const auto speaks = [protocol](const auto& gateway) { return gateway->protocol() == protocol; };
  const auto found = std::find_if(needs_.gateways.begin(), needs_.gateways.end(), speaks);
  assert(found != needs_.gateways.end() && "what was mapped was mapped by one of them");
  return **found;
}

/// The port that others know already, else the listener's, if anybody would dial that.
std::uint16_t PortMapping::wish() {
  if (status_.mapping) return status_.mapping->outside_port;
  return may_knock_at(options_.port) ? options_.port : any_port();
}

std::uint16_t PortMapping::any_port() {
  return static_cast<std::uint16_t>(1024 + needs_.random.below(65536 - 1024));
}

// --- mappings without an end

Task<> PortMapping::read_note() {
  if (options_.note.empty()) co_return;
  const auto work = [file = options_.note] { return from_note(file); };
  try {
    leftover_ = co_await offload(needs_.workers, work);
  } catch (const Failure& failure) {
    needs_.log.warn("nat.note_unreadable", {{"why", failure.cause()}, {"advice", failure.remedy()}});
  }
}

/// Nothing: there is none any more. False when it cannot be kept.
Task<bool> PortMapping::write_note(std::optional<MapRequest> permanent) {
  if (options_.note.empty()) co_return false;
  const auto work = [file = options_.note, permanent] {
    std::error_code missing;
    if (permanent) write_file(file, to_note(*permanent));
    if (!permanent) std::filesystem::remove(file, missing);
  };
  try {
    co_await offload(needs_.workers, work);
  } catch (const Failure& failure) {
    needs_.log.warn("nat.note_not_written", {{"why", failure.cause()}, {"advice", failure.remedy()}});
    co_return false;
  }
  co_return true;
}

Task<> PortMapping::remove_leftover(Gateway& gateway, TimePoint end) {
  if (!leftover_) co_return;
  const MapRequest what = *leftover_;
  const bool removed = co_await gateway.unmap(what, std::min(end, needs_.clock.now() + options_.request_time));
  needs_.log.info("nat.leftover_unmapped", {{"removed", removed}});
  leftover_.reset();  // one try at each start
  if (removed) co_await write_note(std::nullopt);
}

}  // namespace collab::nat
