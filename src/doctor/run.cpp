#include "doctor/run.hpp"

#include "nat/dial_back.hpp"
#include "nat/explain.hpp"
#include "net/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace collab::doctor {
namespace {

using node::Attempt;
using Seen = node::Finding;

bool is_named(const Attempt& attempt) {
  const node::Source source = attempt.place.source;
  return source == node::Source::given || source == node::Source::run_book || source == node::Source::manifest;
}

std::optional<Finding> judge_names(const RunLook& look) {
  if (look.hosts.empty()) return std::nullopt;
  std::string known;
  std::string unknown;
  for (const auto& [host, numeric] : look.hosts) {
    std::string& list = numeric.empty() ? unknown : known;
    list += (list.empty() ? "" : ", ") + host;
    if (!numeric.empty()) list += " is " + numeric.front();
  }
  if (unknown.empty()) return ok("names", known);
  const std::string measured = fmt::format("no address for {}{}", unknown, known.empty() ? "" : "; " + known);
  const std::string remedy = "check the spelling, the network, and the name server in /etc/resolv.conf";
  return look.found ? warn("names", measured, remedy) : fail("names", measured, remedy, ExitCode::unreachable);
}

std::string words_of(const Attempt& attempt) {
  const bool nobody = attempt.finding == Seen::refused || attempt.finding == Seen::silent;
  const std::string said = nobody || attempt.text.empty() ? "" : ": " + words_of_stranger(attempt.text);
  return fmt::format("{}{} ({})", node::outcome(attempt), said, name(attempt.place.source));
}

Finding judge_place(const Attempt& attempt, const RunLook& look, const JudgeOptions& options) {
  const std::string what = "bootstrap " + net::to_string(attempt.place.at.address);
  const bool answered = attempt.finding == Seen::found || (!options.named && attempt.finding == Seen::other_run);
  if (answered)
    return ok(what, fmt::format("{} after {:.0f} ms", words_of(attempt), 1000 * to_seconds(attempt.waited)));
  const Failure failure = node::to_failure(look.run_id, {attempt});
  const auto host = look.hosts.find(attempt.place.at.address.host);
  const bool nameless = host != look.hosts.end() && host->second.empty();
  std::string measured = nameless ? fmt::format("not dialled: its name has no address ({})", name(attempt.place.source))
                                  : words_of(attempt);
  const bool refused = attempt.finding == Seen::not_admitted;
  const bool in_doubt = refused && options.key == JudgeOptions::Key::unusable;
  if (in_doubt) measured += "; asked with a passing key, as this peer's own cannot be used now";
  if (refused && options.key == JudgeOptions::Key::none_yet) measured += "; asked as a stranger, as any new peer is";
  if (look.found || in_doubt) return warn(what, measured, failure.remedy());
  return fail(what, measured, failure.remedy(), failure.code());
}

/// Members of earlier times come and go, so they are counted, not judged one by one.
std::optional<Finding> judge_contacts(const RunLook& look) {
  std::size_t known = 0;
  std::size_t there = 0;
  for (const Attempt& attempt : look.attempts) {
    if (attempt.place.source != node::Source::contact) continue;
    ++known;
    if (attempt.finding == Seen::found) ++there;
  }
  if (known == 0) return std::nullopt;
  return ok("contacts", fmt::format("{} of {} members of earlier times answered", there, known));
}

bool is_silence(const Attempt& attempt) {
  return attempt.finding == Seen::refused || attempt.finding == Seen::silent;
}

bool stopped_at_proxy(const Attempt& attempt) {
  return attempt.finding == Seen::proxy || attempt.finding == Seen::proxy_login;
}

/// Of several troubles the login: without it the proxy tells nothing else.
const Attempt* worst_at_proxy(const RunLook& look) {
  const Attempt* worst = nullptr;
  for (const Attempt& attempt : look.attempts) {
    const bool graver = worst == nullptr || attempt.finding == Seen::proxy_login;
    if (stopped_at_proxy(attempt) && graver) worst = &attempt;
  }
  return worst;
}

Finding judge_proxy(const RunLook& look) {
  const auto leads = [&](const Attempt& attempt) {
    return !is_silence(attempt) && !stopped_at_proxy(attempt) && look.proxy->leads_to(attempt.place.at.address);
  };
  const auto led = [&](net::Leg leg) {
    const auto by_leg = [&](const Attempt& attempt) { return attempt.place.at.address.leg == leg && leads(attempt); };
    return std::any_of(look.attempts.begin(), look.attempts.end(), by_leg);
  };
  const std::string where = "HTTP proxy " + net::host_and_port(look.proxy->at);
  if (led(net::Leg::tcp)) return ok("way out", where + ": bare TCP goes through it");
  if (led(net::Leg::wss)) return ok("way out", where + ": wss in use");
  const Attempt* worst = worst_at_proxy(look);
  if (worst == nullptr) return ok("way out", where + ": nobody answered through it, and it named no reason");
  const std::string measured = fmt::format("{}: {}", where, words_of_stranger(worst->text));
  const std::string remedy = net::proxy_remedy(worst->proxy_trouble);
  if (look.found) return warn("way out", measured, remedy);  // by a place that needs no proxy
  return fail("way out", measured, remedy, node::to_failure(look.run_id, {*worst}).code());
}

/// Nothing when bare TCP leads out, or nobody can know.
std::optional<Finding> judge_way_out(const RunLook& look) {
  if (look.proxy) return judge_proxy(look);
  bool by_wss = false;
  const Attempt* bare = nullptr;
  for (const Attempt& attempt : look.attempts) {
    const bool wss = attempt.place.at.address.leg == net::Leg::wss;
    if (wss && !is_silence(attempt)) by_wss = true;
    if (wss || attempt.place.source == node::Source::loopback) continue;
    if (!is_silence(attempt)) return std::nullopt;
    if (bare == nullptr) bare = &attempt;
  }
  if (!by_wss || bare == nullptr) return std::nullopt;
  return warn("way out", fmt::format("wss in use: bare TCP leads to nobody ({})", node::outcome(*bare)),
              "nothing, it works; or let TCP out of this network, which costs less processor time");
}

std::string said_above(std::size_t places) {
  return places == 1 ? "the place above did not lead to it" : fmt::format("none of {} places above led to it", places);
}

Finding judge_found(const RunLook& look, const std::vector<Finding>& places) {
  if (!look.found) {
    const Failure failure = node::to_failure(look.run_id, look.attempts);
    Finding finding = fail("run", failure);
    if (!places.empty()) finding.measured = fmt::format("{} not found: {}", look.run_id, said_above(places.size()));
    const bool in_doubt = !places.empty() && worst(places) != Grade::fail;  // refused, but not as the peer it would be
    return in_doubt ? warn("run", finding.measured, finding.remedy) : finding;
  }
  const node::Manifest& manifest = look.found->manifest;
  return ok("run", fmt::format("{} at {} ({}); its key is {}; manifest {}, target batch {}", manifest.run_id,
                               net::to_string(look.found->address), name(look.found->source), manifest.authority.text(),
                               manifest.sequence, manifest.target_batch));
}

std::optional<Finding> judge_protocol(const RunLook& look) {
  if (look.found)
    return ok("protocol",
              fmt::format("{}; the run asks for {} or later", net::kProtocolVersion, look.found->manifest.version_min));
  const auto other = [](const Attempt& attempt) { return attempt.finding == Seen::version && node::is_final(attempt); };
  const auto found = std::find_if(look.attempts.begin(), look.attempts.end(), other);
  if (found == look.attempts.end()) return std::nullopt;
  return fail("protocol", fmt::format("{}; {}", net::kProtocolVersion, words_of(*found)), "update the older program",
              ExitCode::incompatible);
}

std::optional<Finding> judge_clock(const RunLook& look) {
  const char* remedy = "set the clock, best by NTP";
  if (look.skew_ms) {
    const std::int64_t skew = *look.skew_ms;
    const std::string measured =
        fmt::format("{:.1f} s {} the peers that answered", static_cast<double>(std::abs(skew)) / 1000,
                    skew > 0 ? "behind" : "ahead of");
    if (std::abs(skew) > net::kSkewMaxMs) return fail("clock", measured, remedy, ExitCode::machine);
    if (std::abs(skew) > kSkewWarnMs) return warn("clock", measured, remedy);
    return ok("clock", measured);
  }
  const auto refused = [](const Attempt& attempt) { return attempt.finding == Seen::clock && node::is_final(attempt); };
  const auto found = std::find_if(look.attempts.begin(), look.attempts.end(), refused);
  if (found == look.attempts.end()) return std::nullopt;
  return fail("clock", words_of(*found), remedy, ExitCode::machine);
}

std::string remedy_of(const RunLook& look) {
  if (!look.router) return "open the port in the firewall and forward it at the router, or say --client";
  const nat::Explanation told = nat::explain_unreachable(look.router->status, look.router->port, look.router->observed);
  return told.remedy + "; or say --client";
}

std::string by_relays(const Reach& reach) {
  if (reach.relays.empty()) return {};
  std::string names;
  for (const PeerId& relay : reach.relays) names += (names.empty() ? "" : ", ") + relay.short_text();
  return fmt::format(", reached by relay {}", names);
}

std::optional<Finding> judge_reach(const RunLook& look) {
  if (!look.reach) return std::nullopt;
  const Reach& reach = *look.reach;
  if (!nat::may_knock_at(reach.port))
    return warn("dial-back", fmt::format("nobody knows: peers do not knock at port {} to find out", reach.port),
                "--listen with port 443, or one from 1024 on");
  const std::string asked = fmt::format("{} peer{} asked", reach.servers, reach.servers == 1 ? "" : "s");
  if (nat::can_be_dialled(reach.state) && !reach.addresses.empty())
    return ok("dial-back", fmt::format("others dial {}; {}", net::to_string(reach.addresses.front()), asked));
  if (reach.state == nat::State::outbound_only)
    return warn("dial-back",
                fmt::format("nobody can dial this machine; {}. It takes part as a client{}", asked, by_relays(reach)),
                remedy_of(look));
  return warn("dial-back", fmt::format("nobody knows whether others can dial this machine; {}", asked),
              "ask again when more peers are there");
}

std::optional<Finding> judge_translation(const RunLook& look) {
  if (!look.reach) return std::nullopt;
  const nat::MappingFinding& found = look.reach->mapping;
  const std::string sure = found.weak ? "; both who told are at one address, so that is not sure" : "";
  switch (found.kind) {
    case nat::MappingKind::none:
      return ok("translation", "none: a filter keeps others out, and two such peers get through to each other" + sure);
    case nat::MappingKind::independent:
      return ok(
          "translation",
          "independent: one outside port whoever is dialled, and two such peers get through to each other" + sure);
    case nat::MappingKind::dependent:
      return warn(
          "translation", "dependent: another outside port for each destination, so relays carry all words" + sure,
          fmt::format("forward TCP port {} at the router to this machine; nothing else helps", look.reach->port));
    case nat::MappingKind::unknown: break;
  }
  return std::nullopt;
}

}  // namespace

Finding judge_router(const RouterLook& router, const std::optional<Reach>& reach) {
  using Phase = nat::MappingStatus::Phase;
  constexpr const char* kName = "port mapping";
  const nat::MappingStatus& status = router.status;
  const nat::State state = reach ? reach->state : nat::State::unknown;
  const bool known = state != nat::State::unknown;
  const nat::Explanation told = nat::explain_unreachable(status, router.port, router.observed);
  switch (status.phase) {
    case Phase::mapped:
      if (state == nat::State::outbound_only) return warn(kName, told.why, told.remedy);
      if (const auto second = nat::second_nat(*status.mapping, router.observed); second && !known)
        return warn(kName, told.why, told.remedy);
      return ok(kName, nat::describe(*status.mapping) + (known ? "" : "; nobody has tried it out"));
    case Phase::asking:
    case Phase::refused:
      if (nat::can_be_dialled(state)) return ok(kName, "none, and none needed: others dial this machine without");
      return warn(kName, told.why, told.remedy);
    case Phase::no_router: return ok(kName, "none needed: no home router is in between");
    case Phase::off: break;
  }
  return ok(kName, "none, by wish");
}

std::vector<Finding> judge(const RunLook& look, const JudgeOptions& options) {
  std::vector<Finding> findings;
  const auto add = [&](std::optional<Finding> finding) {
    if (finding) findings.push_back(std::move(*finding));
  };
  add(judge_names(look));
  std::vector<Finding> places;
  for (const Attempt& attempt : look.attempts) {
    if (is_named(attempt)) places.push_back(judge_place(attempt, look, options));
  }
  findings.insert(findings.end(), places.begin(), places.end());
  add(judge_contacts(look));
  add(judge_way_out(look));
  if (options.named) add(judge_found(look, places));
  add(judge_protocol(look));
  add(judge_clock(look));
  if (look.router) add(judge_router(*look.router, look.reach));
  add(judge_reach(look));
  add(judge_translation(look));
  return findings;
}

}  // namespace collab::doctor
