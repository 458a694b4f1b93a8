#include "node/find_run.hpp"

#include "net/proxy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace collab::node {
namespace {

constexpr Duration kRefusedWithin = std::chrono::seconds(2);  // a machine that says no says it soon
constexpr std::size_t kListedMax = 6;
constexpr std::size_t kTextBytesMax = 400;
constexpr std::string_view kToken =
    "ask the host of the run for a token, with the id that collab-peer keys show prints; then --token FILE";

/// The greater, the more a person has to do about it.
int gravity(Finding finding) {
  switch (finding) {
    case Finding::found: return 0;
    case Finding::refused:
    case Finding::silent:
    case Finding::busy: return 1;
    case Finding::proxy: return 2;
    case Finding::other_run: return 3;
    case Finding::other_peer: return 4;
    case Finding::damaged: return 5;
    case Finding::clock: return 6;
    case Finding::version: return 7;
    case Finding::authority: return 8;
    case Finding::not_admitted: return 9;
    case Finding::proxy_login: return 10;
  }
  return 0;
}

/// The attempt that says most, final ones first; null: there was none.
const Attempt* gravest(const std::vector<Attempt>& attempts) {
  const auto less = [](const Attempt& a, const Attempt& b) {
    return std::pair(is_final(a), gravity(a.finding)) < std::pair(is_final(b), gravity(b.finding));
  };
  const auto found = std::max_element(attempts.begin(), attempts.end(), less);
  return found == attempts.end() ? nullptr : &*found;
}

bool has_reason(const std::string& text, std::string_view reason) {
  return text.starts_with(reason) && text.substr(reason.size()).starts_with(": ");
}

std::string_view remedy(Finding finding) {
  switch (finding) {
    case Finding::not_admitted: return "ask the host of the run to admit this peer: collab-peer keys show";
    case Finding::authority: return "ask the host for the run's key; if it is a new run, choose another --home";
    case Finding::version: return "update the older program";
    case Finding::clock: return "set the clock, best by NTP";
    case Finding::other_peer: return "ask the host for the address and id of today";
    case Finding::damaged: return "update this program, or tell the host of the run";
    default: return "check host and port with whoever hosts it";
  }
}

}  // namespace

std::string_view name(Source source) noexcept {
  constexpr std::array<std::string_view, 6> kNames = {"given",        "run book",     "manifest",
                                                      "kept contact", "this machine", "local network"};
  return kNames[static_cast<std::size_t>(source)];
}

void add_place(std::vector<Place>& places, Place place) {
  const auto same = [&](const Place& known) { return known.at.address == place.at.address; };
  const auto found = std::find_if(places.begin(), places.end(), same);
  if (found == places.end()) {
    if (places.size() < kPlacesMax) places.push_back(std::move(place));
  } else if (!found->at.peer && found->source != Source::given) {
    found->at.peer = place.at.peer;
  }
}

Finding finding_of(const Refusal& why, Duration waited) {
  const auto trouble = net::proxy_trouble(why);
  if (!trouble) return finding_of_answer(why, waited);
  const bool login = *trouble == net::kProxyWantsLogin || *trouble == static_cast<int>(net::ProxyFault::other_login);
  return login ? Finding::proxy_login : Finding::proxy;
}

Finding finding_of_answer(const Refusal& why, Duration waited) {
  if (why.code == Errc::busy) return Finding::busy;
  if (why.code == Errc::late) return Finding::silent;
  if (why.code == Errc::bad_request || why.code == Errc::stale) return Finding::damaged;
  if (why.code == Errc::gone) return waited < kRefusedWithin ? Finding::refused : Finding::silent;
  std::string_view words = why.reason;
  constexpr std::string_view kOwnWords = "this node told the peer: ";  // the same rules, judged at this end
  if (words.starts_with(kOwnWords)) words.remove_prefix(kOwnWords.size());
  const std::string text(words);
  if (has_reason(text, "run")) return Finding::other_run;
  if (has_reason(text, "version")) return Finding::version;
  if (has_reason(text, "clock")) return Finding::clock;
  if (has_reason(text, "banned") || has_reason(text, "token")) return Finding::not_admitted;
  return Finding::other_peer;
}

bool is_final(const Attempt& attempt) noexcept {
  if (attempt.finding == Finding::proxy_login) return true;  // no stranger's word; and who asks on may be locked out
  const Source source = attempt.place.source;
  if (source == Source::loopback || source == Source::lan || source == Source::contact) return false;
  return gravity(attempt.finding) >= gravity(Finding::other_run);
}

std::string outcome(const Attempt& attempt) {
  const std::string at = net::to_string(attempt.place.at.address);
  switch (attempt.finding) {
    case Finding::found: return at + " answered";
    case Finding::refused: return at + " refused";
    case Finding::silent: return fmt::format("{} silent for {:.0f} s", at, std::max(1.0, to_seconds(attempt.waited)));
    case Finding::busy: return at + " busy";
    case Finding::other_run: return at + " is of another run";
    case Finding::other_peer: return at + " is somebody else";
    case Finding::not_admitted: return at + " does not admit this peer";
    case Finding::version: return at + " speaks another version";
    case Finding::clock: return at + " finds this machine's clock wrong";
    case Finding::authority: return at + " is of another authority";
    case Finding::damaged: return at + " gave a wrong answer";
    case Finding::proxy:
    case Finding::proxy_login: return fmt::format("{} not dialled, {}", at, attempt.text);
  }
  return at;
}

std::string describe(const std::string& run_id, const std::vector<Attempt>& attempts) {
  const std::string what = fmt::format("cannot join {}: ", run_id);
  const Attempt* worst = gravest(attempts);
  if (worst == nullptr) return what + "no address is known";
  if (worst->finding == Finding::proxy_login) return what + "the HTTP " + worst->text;
  if (is_final(*worst) && !worst->text.empty()) {
    const std::string at = net::to_string(worst->place.at.address);
    return what + fmt::format("{} says: {}", at, worst->text.substr(0, kTextBytesMax));
  }
  std::string list;
  for (std::size_t i = 0; i < std::min(kListedMax, attempts.size()); ++i) {
    list += (i == 0 ? "" : ", ") + outcome(attempts[i]);
  }
  if (attempts.size() > kListedMax) list += fmt::format(", and {} more", attempts.size() - kListedMax);
  const auto told = [](const Attempt& attempt) { return gravity(attempt.finding) > gravity(Finding::busy); };
  const std::string_view verb = std::any_of(attempts.begin(), attempts.end(), told) ? "led to it" : "answered";
  if (attempts.size() == 1) return what + fmt::format("the only address known did not help ({})", list);
  return what + fmt::format("none of {} addresses {} ({})", attempts.size(), verb, list);
}

Failure to_failure(const std::string& run_id, const std::vector<Attempt>& attempts) {
  const Attempt* worst = gravest(attempts);
  const Finding finding = worst != nullptr && is_final(*worst) ? worst->finding : Finding::refused;
  ExitCode code = ExitCode::unreachable;
  if (finding == Finding::not_admitted || finding == Finding::authority) code = ExitCode::not_admitted;
  if (finding == Finding::version || finding == Finding::damaged) code = ExitCode::incompatible;
  if (finding == Finding::clock) code = ExitCode::machine;
  if (finding == Finding::proxy_login) code = ExitCode::usage;
  if (worst == nullptr) return Failure(code, describe(run_id, attempts), "give one: --bootstrap host:port");
  if (worst->proxy_trouble != 0)
    return Failure(code, describe(run_id, attempts), net::proxy_remedy(worst->proxy_trouble));
  const std::string_view question = code == ExitCode::unreachable ? ". Is it running?" : "";
  const bool wants_token = finding == Finding::not_admitted && has_reason(worst->text, "token");
  return Failure(code, describe(run_id, attempts).append(question),
                 std::string(wants_token ? kToken : remedy(finding)));
}

Refusal to_refusal(const std::string& run_id, const std::vector<Attempt>& attempts) {
  const Failure failure = to_failure(run_id, attempts);
  if (failure.code() == ExitCode::not_admitted) return Refusal(Errc::denied, failure.cause());
  if (failure.code() == ExitCode::unreachable) return Refusal(Errc::gone, failure.cause());
  return Refusal(Errc::bad_request, failure.cause());
}

}  // namespace collab::node
