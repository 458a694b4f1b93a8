#include "net/dialling.hpp"

#include "base/channel.hpp"
#include "base/task_group.hpp"

#include <algorithm>
#include <utility>

namespace collab::net {
namespace {

using Dialled = std::unique_ptr<ByteStream>;  // null: nobody answers there

Task<> dial_one(Network& network, Address to, TimePoint deadline, Channel<Dialled>& into) {
  auto stream = co_await network.dial(std::move(to), deadline);
  (void)into.try_push(stream ? std::move(*stream) : Dialled());  // has room for all
}

}  // namespace

Task<OpenResult> dial_any(Network& network, Clock& clock, const OpeningRules& rules, std::vector<Address> addresses,
                          std::optional<PeerId> expected, std::uint64_t attempt, DialOptions options) {
  const auto is_v6 = [](const Address& address) { return address.host.find(':') != std::string::npos; };
  std::stable_partition(addresses.begin(), addresses.end(), is_v6);
  OpenResult result = Refusal(Errc::gone, "no address answers");
  Channel<Dialled> answers(co_await asio::this_coro::executor, addresses.size());  // outlives the tasks

  const auto body = [&](TaskGroup& tasks) -> Task<> {
    std::size_t next = 0;
    std::size_t waiting = 0;
    while (next < addresses.size() || waiting > 0) {
      const bool room = waiting < options.at_once_max;
      if (next < addresses.size() && room) {
        ++waiting;
        tasks.spawn("dial", dial_one(network, addresses[next++], clock.now() + options.attempt_time, answers));
      }
      const bool more = next < addresses.size() && waiting < options.at_once_max;
      auto answer = co_await answers.pop(clock, more ? clock.now() + options.stagger : TimePoint::max());
      if (!answer) continue;  // time for the next address
      --waiting;
      if (!*answer) continue;
      auto opening = open_dialled(rules, std::move(*answer), expected, attempt);
      auto opened = co_await with_deadline(clock, clock.now() + options.attempt_time, std::move(opening));
      result = std::move(opened);
      if (result) co_return;
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return result;
}

}  // namespace collab::net
