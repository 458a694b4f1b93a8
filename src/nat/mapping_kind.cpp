#include "nat/mapping_kind.hpp"

#include "nat/address_kind.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

namespace collab::nat {
namespace {

constexpr std::size_t kTellersWanted = 2;

/// A sighting, and whose it is.
struct Told {
  std::string by_host;
  Sighting sighting;
};

MappingFinding conclude(const std::vector<Told>& told) {
  MappingFinding finding;
  if (told.size() < kTellersWanted) return finding;
  const Told& first = told.front();
  const auto same = [&](const Told& one) { return one.sighting.seen == first.sighting.seen; };
  const auto own = [](const Told& one) { return one.sighting.is_own; };
  const bool all_same = std::all_of(told.begin(), told.end(), same);
  finding.kind = std::all_of(told.begin(), told.end(), own) ? MappingKind::none
                 : all_same                                 ? MappingKind::independent
                                                            : MappingKind::dependent;
  finding.weak = told.front().by_host == told.back().by_host;
  return finding;
}

}  // namespace

std::string_view name(MappingKind kind) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"unknown", "none", "independent", "dependent"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool can_be_punched(MappingKind kind) noexcept {
  return kind == MappingKind::none || kind == MappingKind::independent;
}

Task<Result<Sighting>> be_seen(net::PeerEndpoint& endpoint, Clock& clock, net::LocalPort& port, Observer observer,
                               TimePoint deadline) {
  auto stream = co_await port.dial(observer.at, deadline);
  if (!stream) co_return stream.error();
  const net::Address own = (*stream)->local();
  auto opened = co_await endpoint.greet(std::move(*stream), net::Side::dialled, observer.peer, deadline);
  if (!opened) co_return clock.now() >= deadline ? Errc::late : Errc::gone;
  const auto seen = net::parse_numeric_address((*opened)->theirs.observed);
  if (!seen || !is_public(seen->host)) co_return Errc::bad_request;
  Sighting sighting;
  sighting.seen = *seen;
  sighting.is_own = seen->host == own.host && seen->port == own.port;
  sighting.line = std::move(*opened);
  co_return sighting;
}

MappingProbe::MappingProbe(Needs needs, const Options& options)
    : needs_(std::move(needs)), options_(options), changed_(needs_.executor), again_(needs_.executor) {}

Task<> MappingProbe::run() {
  for (;;) {
    if (!needs_.wanted()) {
      set(MappingFinding());
      (void)co_await again_.wait();  // cancelled or not, it looks again
      continue;
    }
    doubt_ = false;
    const MappingFinding found = co_await measure();
    if (needs_.wanted()) set(found);
    const bool alone = observers().size() < kTellersWanted;
    const Duration pause = found.kind != MappingKind::unknown ? options_.valid : alone ? options_.look : options_.again;
    const TimePoint next = needs_.clock.now() + pause;
    while (needs_.wanted() && !doubt_ && needs_.clock.now() < next) co_await again_.wait_until(needs_.clock, next);
  }
}

void MappingProbe::doubt() {
  doubt_ = true;
  again_.notify();
}

void MappingProbe::set(const MappingFinding& finding) {
  if (finding == std::exchange(finding_, finding)) return;
  needs_.log.info("nat.mapping", {{"kind", name(finding.kind)}, {"weak", finding.weak}});
  changed_.notify();
}

std::vector<Observer> MappingProbe::observers() const {
  std::vector<Observer> all = needs_.observers();
  std::erase_if(all, [](const Observer& one) { return net::is_v6(one.at.host); });
  return all;
}

/// At random, those first that are at different hosts.
std::vector<Observer> MappingProbe::choose() {
  std::vector<Observer> all = observers();
  for (std::size_t i = 0; i + 1 < all.size(); ++i) std::swap(all[i], all[i + needs_.random.below(all.size() - i)]);
  std::set<std::string> hosts;
  const auto is_first_there = [&](const Observer& one) { return hosts.insert(one.at.host).second; };
  std::stable_partition(all.begin(), all.end(), is_first_there);
  if (all.size() > options_.asked_max) all.resize(options_.asked_max);
  return all;
}

Task<MappingFinding> MappingProbe::measure() {
  std::vector<Observer> asked = choose();
  if (asked.size() < kTellersWanted) co_return MappingFinding();
  const auto port = needs_.network.local_port(net::kAnyV4);
  if (!port) co_return MappingFinding();
  std::vector<Told> told;
  for (Observer& observer : asked) {
    const std::string host = observer.at.host;
    auto sighting = co_await be_seen(needs_.endpoint, needs_.clock, **port, std::move(observer),
                                     needs_.clock.now() + options_.dial_time);
    if (sighting) told.push_back(Told{host, std::move(*sighting)});
    if (told.size() == kTellersWanted) break;
  }
  co_return conclude(told);
}

}  // namespace collab::nat
