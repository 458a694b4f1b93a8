#include "net/dialling.hpp"

#include "base/channel.hpp"
#include "base/task_group.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace collab::net {
namespace {

/// What came of one address; null: nobody answers there.
using Tried = std::unique_ptr<OpenResult>;

struct Attempt {
  Address to;
  std::optional<PeerId> expected;
  std::uint64_t number = 0;
  Duration time;  ///< for the dial, and again for the handshake
};

Task<> dial_one(Network& network, Clock& clock, const OpeningRules& rules, Attempt attempt, Channel<Tried>& into) {
  Tried tried;
  auto stream = co_await network.dial(attempt.to, clock.now() + attempt.time);
  if (stream) {
    auto opening = open_dialled(rules, std::move(*stream), attempt.expected, attempt.number);
    auto opened = co_await with_deadline(clock, clock.now() + attempt.time, std::move(opening));
    tried = std::make_unique<OpenResult>(std::move(opened));
  }
  (void)into.try_push(std::move(tried));  // has room for all
}

}  // namespace

Task<OpenResult> dial_any(Network& network, Clock& clock, const OpeningRules& rules, std::vector<Address> addresses,
                          std::optional<PeerId> expected, std::uint64_t attempt, DialOptions options) {
  const auto is_v6 = [](const Address& address) { return address.host.find(':') != std::string::npos; };
  std::stable_partition(addresses.begin(), addresses.end(), is_v6);
  OpenResult result = Refusal(Errc::gone, "no address answers");
  Channel<Tried> answers(co_await asio::this_coro::executor, addresses.size());  // outlives the tasks

  const auto body = [&](TaskGroup& tasks) -> Task<> {
    std::size_t next = 0;
    std::size_t waiting = 0;
    while (next < addresses.size() || waiting > 0) {
      const bool room = waiting < options.at_once_max;
      if (next < addresses.size() && room) {
        ++waiting;
        Attempt one{addresses[next++], expected, attempt, options.attempt_time};
        tasks.spawn("dial", dial_one(network, clock, rules, std::move(one), answers));
      }
      const bool more = next < addresses.size() && waiting < options.at_once_max;
      auto tried = co_await answers.pop(clock, more ? clock.now() + options.stagger : TimePoint::max());
      if (!tried) continue;  // time for the next address
      --waiting;
      if (!*tried) continue;
      result = std::move(**tried);
      if (result) co_return;
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return result;
}

}  // namespace collab::net
