#include "node/join.hpp"

#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "net/proxy.hpp"
#include "net/wire.hpp"
#include "node/manifest_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace collab::node {
namespace {

struct Search {
  Search(net::Endpoint& net, Connect dial, Clock& time, const asio::any_io_executor& executor)
      : endpoint(net), connect(std::move(dial)), clock(time), progress(executor) {}

  net::Endpoint& endpoint;
  Connect connect;
  Clock& clock;
  std::vector<Place> places;
  Expected expected;
  SearchOptions options;
  std::size_t next = 0;
  std::size_t workers = 0;
  std::vector<std::pair<std::size_t, Attempt>> attempts;
  Tell tell;
  std::optional<Found> found;  ///< the first
  Signal progress;

  bool enough() const { return found && !tell; }
};

/// Nothing: `member` has given a manifest that fits.
Task<std::optional<Attempt>> ask(Search& search, Attempt attempt, PeerId member) {
  const TimePoint start = search.clock.now();
  auto answer = co_await fetch_manifest(search.endpoint, member, 0, start + search.options.ask_time);
  attempt.waited = search.clock.now() - start;
  if (!answer || !*answer) {
    const Refusal why = answer ? Refusal(Errc::bad_request, "it gave no manifest") : answer.error();
    attempt.finding = why.code == Errc::denied ? Finding::not_admitted : finding_of_answer(why, attempt.waited);
    attempt.text = why.reason;
    co_return attempt;
  }
  auto manifest = check_manifest(**answer, search.expected);
  if (!manifest) {
    attempt.finding = manifest.error().code == Errc::denied ? Finding::authority : Finding::damaged;
    if (manifest.error().code == Errc::stale) attempt.finding = Finding::version;
    attempt.text = manifest.error().reason;
    co_return attempt;
  }
  if (search.enough()) co_return std::nullopt;  // another worker was faster
  Found found;
  found.statement = std::move(**answer);
  found.manifest = std::move(*manifest);
  found.member = member;
  found.address = attempt.place.at.address;
  found.source = attempt.place.source;
  if (search.tell) search.tell(found);
  if (!search.found) search.found = std::move(found);
  co_return std::nullopt;
}

Task<std::optional<Attempt>> look_at(Search& search, Place place) {
  Attempt attempt;
  attempt.place = std::move(place);
  const PeerAddress& at = attempt.place.at;
  const TimePoint start = search.clock.now();
  auto member = co_await search.connect(at.address, start + search.options.dial_time);
  attempt.waited = search.clock.now() - start;
  if (!member && finding_of(member.error(), attempt.waited) == Finding::damaged) {  // if a bit flipped, then not twice
    auto again = co_await search.connect(at.address, search.clock.now() + search.options.dial_time);
    member = std::move(again);
  }
  if (!member) {
    attempt.finding = finding_of(member.error(), attempt.waited);
    attempt.text = member.error().reason;
    attempt.proxy_trouble = net::proxy_trouble(member.error()).value_or(0);
    co_return attempt;
  }
  if (at.peer && *at.peer != *member) {
    attempt.finding = Finding::other_peer;
    attempt.text = fmt::format("I am {}, not {}", member->text(), at.peer->text());
    co_return attempt;
  }
  co_return co_await ask(search, std::move(attempt), *member);
}

Task<> work(Search& search) {
  while (!search.enough() && search.next < search.places.size()) {
    const std::size_t index = search.next++;
    auto attempt = co_await look_at(search, search.places[index]);
    if (attempt) search.attempts.emplace_back(index, std::move(*attempt));
  }
  --search.workers;
  search.progress.notify();
}

}  // namespace

boost::system::result<Manifest, Refusal> check_manifest(const Signed& statement, const Expected& expected) {
  auto manifest = read_manifest(statement, expected.run_id, expected.authority);
  if (!manifest) return manifest;
  if (manifest->sequence < expected.sequence_min) {
    return Refusal(Errc::denied, fmt::format("the manifest offered is older (sequence {}) than the one seen here ({})",
                                             manifest->sequence, expected.sequence_min));
  }
  if (manifest->version_min > net::kProtocolVersion) {
    return Refusal(Errc::stale, fmt::format("the run asks for protocol {} or later, this program speaks {}",
                                            manifest->version_min, net::kProtocolVersion));
  }
  return manifest;
}

Task<Round> search(net::Endpoint& endpoint, Connect connect, Clock& clock, std::vector<Place> places, Expected expected,
                   SearchOptions options, Tell tell) {
  Search search(endpoint, std::move(connect), clock, co_await asio::this_coro::executor);
  search.places = std::move(places);
  search.expected = std::move(expected);
  search.options = options;
  search.tell = std::move(tell);
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    search.workers = std::min(options.at_once, search.places.size());
    for (std::size_t i = 0, count = search.workers; i < count; ++i) tasks.spawn("run.look", work(search));
    while (search.workers > 0 && !search.enough()) co_await search.progress.wait();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);

  const auto in_order = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(search.attempts.begin(), search.attempts.end(), in_order);
  Round round;
  for (auto& [index, attempt] : search.attempts) round.attempts.push_back(std::move(attempt));
  round.found = std::move(search.found);
  co_return round;
}

}  // namespace collab::node
