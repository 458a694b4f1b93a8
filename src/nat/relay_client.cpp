#include "nat/relay_client.hpp"

#include "base/frame.hpp"
#include "nat/circuit.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace collab::nat {
namespace {

constexpr std::uint32_t kTtlMaxS = 24 * 3600;

/// The /16 of an IPv4 address, about a /32 of IPv6: one provider, as a rule.
std::string_view provider_of(std::string_view host) {
  const char mark = host.find(':') == std::string_view::npos ? '.' : ':';
  const std::size_t first = host.find(mark);
  if (first == std::string_view::npos) return host;
  return host.substr(0, host.find(mark, first + 1));
}

}  // namespace

RelayClient::RelayClient(Needs needs, const Options& options)
    : needs_(std::move(needs)), options_(options), changed_(needs_.executor), again_(needs_.executor) {}

Task<> RelayClient::run() {
  for (;;) {
    if (held_.empty() && !needs_.wanted()) {
      (void)co_await again_.wait();  // cancelled or not, it looks again
      continue;
    }
    co_await look();
    co_await needs_.clock.sleep_until(needs_.clock.now() + options_.look);
  }
}

Task<> RelayClient::look() {
  drop_lost();
  if (!needs_.wanted()) {
    if (!held_.empty()) co_await release_all();
    co_return;
  }
  const TimePoint now = needs_.clock.now();
  std::vector<Candidate> due;
  for (const auto& [relay, held] : held_)
    if (now >= held.renew_at) due.push_back(Candidate{relay, held.at});
  if (held_.size() < options_.reservations)
    if (auto another = choose()) due.push_back(std::move(*another));
  for (Candidate& at : due) co_await reserve(std::move(at));
}

/// Not by a call: that would dial a relay which is not where it was, and hold up whoever dials it where it is.
bool RelayClient::fell_silent(const PeerId& relay, Held& held) {
  const TimePoint now = needs_.clock.now();
  const TimePoint heard = needs_.endpoint.link(relay).last_received;
  if (now < heard + options_.silence) return false;
  if (held.probed_at <= heard) {
    held.probed_at = now;
    needs_.probe(relay);
  }
  return now >= held.probed_at + options_.silence;
}

void RelayClient::refuse_until(const PeerId& relay, TimePoint until) {
  if (refused_.size() < options_.refused_max) refused_[relay] = until;
}

/// A reservation lives as long as its connection.
void RelayClient::drop_lost() {
  const TimePoint now = needs_.clock.now();
  bool lost = false;
  for (auto next = held_.begin(); next != held_.end();) {
    const bool silent = fell_silent(next->first, next->second);
    if (silent) refuse_until(next->first, now + options_.silent_again);
    const bool stands = !silent && now < next->second.until && is_direct(needs_.endpoint.link(next->first));
    if (!stands) needs_.log.info("relay.lost", {{"relay", next->first.short_text()}});
    lost = lost || !stands;
    next = stands ? std::next(next) : held_.erase(next);
  }
  std::erase_if(refused_, [&](const auto& entry) { return now >= entry.second; });
  if (lost) changed_.notify();
}

/// Who is at another provider than those we have, is connected, is near. Of equals any.
std::optional<RelayClient::Candidate> RelayClient::choose() {
  using Rank = std::tuple<bool, bool, Duration, std::uint64_t>;  // the least is best
  std::optional<std::pair<Rank, Candidate>> best;
  for (Candidate& candidate : needs_.candidates()) {
    if (held_.contains(candidate.peer) || refused_.contains(candidate.peer)) continue;
    const auto here = [&](const auto& entry) {
      return provider_of(entry.second.at.host) == provider_of(candidate.at.host);
    };
    const net::LinkState link = needs_.endpoint.link(candidate.peer);
    const Duration rtt = link.rtt == Duration::zero() ? Duration::max() : link.rtt;
    const Rank rank(std::any_of(held_.begin(), held_.end(), here), !is_direct(link), rtt, needs_.random.next());
    if (!best || rank < best->first) best.emplace(rank, std::move(candidate));
  }
  if (!best) return std::nullopt;
  return std::move(best->second);
}

Task<> RelayClient::reserve(Candidate at) {
  const auto answer =
      co_await needs_.endpoint.call(at.peer, "relay.reserve", frame::encode(wire::RelayHeader(wire::Reserve())),
                                    needs_.clock.now() + options_.call_time);
  const TimePoint now = needs_.clock.now();
  const auto message =
      answer ? frame::decode<wire::RelayHeader>(**answer) : Result<frame::Message<wire::RelayHeader>>(Errc::gone);
  const auto* granted = message ? std::get_if<wire::Reserved>(&message->header) : nullptr;
  if (granted == nullptr || granted->ttl_s == 0) {
    Duration again = options_.again;
    if (!answer && answer.error().code == Errc::busy && answer.error().number > 0)
      again =
          std::min(again, Duration(std::chrono::milliseconds(std::min<std::uint64_t>(answer.error().number, 60'000))));
    refuse_until(at.peer, now + again);
    needs_.log.debug(
        "relay.not_reserved",
        {{"relay", at.peer.short_text()}, {"why", answer ? std::string("no answer of ours") : answer.error().reason}});
    if (held_.erase(at.peer) > 0) changed_.notify();
    co_return;
  }
  const Duration ttl = std::chrono::seconds(std::min(granted->ttl_s, kTtlMaxS));
  const bool fresh = !held_.contains(at.peer);
  held_[at.peer] = Held{at.at, now + ttl / 2, now + ttl, TimePoint()};
  if (!fresh) co_return;
  needs_.log.info("relay.reachable_by", {{"relay", at.peer.short_text()}, {"at", net::to_string(at.at)}});
  changed_.notify();
}

Task<> RelayClient::release_all() {
  const auto held = std::exchange(held_, {});
  changed_.notify();
  wire::Release release;
  release.reason = "not needed";
  for (const auto& [relay, unused] : held)
    (void)co_await needs_.endpoint.call(relay, "relay.release", frame::encode(wire::RelayHeader(release)),
                                        needs_.clock.now() + options_.call_time);  // it ends by itself, later
}

std::vector<net::Address> RelayClient::addresses() const {
  std::vector<std::pair<Duration, net::Address>> near;
  for (const auto& [relay, held] : held_) {
    net::Address at = held.at;
    at.leg = net::Leg::relay;
    at.relay = relay;
    near.emplace_back(needs_.endpoint.link(relay).rtt, std::move(at));
  }
  std::sort(near.begin(), near.end());
  std::vector<net::Address> all;
  for (auto& [rtt, at] : near) all.push_back(std::move(at));
  return all;
}

}  // namespace collab::nat
