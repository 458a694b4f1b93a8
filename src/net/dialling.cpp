#include "net/dialling.hpp"

#include "base/channel.hpp"
#include "base/task_group.hpp"
#include "net/proxy.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

namespace collab::net {
namespace {

constexpr std::size_t kOnwardMax = 4;

/// What came of one address; without an answer: nobody is there.
struct Tried {
  Leg leg = Leg::tcp;
  bool met = false;  ///< the answer is of who is there, not of a proxy before it
  std::unique_ptr<OpenResult> answer;
};

struct Attempt {
  Address to;
  std::optional<PeerId> expected;
  std::uint64_t number = 0;
  Duration time;  ///< for the dial, and again for the handshake
};

Task<> dial_one(Network& network, Clock& clock, const OpeningRules& rules, Attempt attempt, Channel<Tried>& into) {
  Tried tried;
  tried.leg = attempt.to.leg;
  auto stream = co_await network.dial_peer(attempt.to, attempt.expected, clock.now() + attempt.time);
  if (stream) {
    auto opening = open_dialled(rules, std::move(*stream), attempt.expected, attempt.number);
    auto opened = co_await with_deadline(clock, clock.now() + attempt.time, std::move(opening));
    tried.answer = std::make_unique<OpenResult>(std::move(opened));
    tried.met = true;
  } else if (auto why = proxy_refusal(stream.error())) {
    tried.answer = std::make_unique<OpenResult>(std::move(*why));
  }
  (void)into.try_push(std::move(tried));  // has room for all
}

/// The addresses of one leg, and how far they are tried.
struct Turn {
  std::vector<Address> addresses;
  std::size_t next = 0;
  std::size_t waiting = 0;

  bool left() const { return next < addresses.size(); }
  bool over() const { return !left() && waiting == 0; }
};

using LegTurns = std::array<Turn, 4>;  // by leg

LegTurns turns_of(std::vector<Address> addresses) {
  const auto by_v6 = [](const Address& address) { return is_v6(address.host); };
  std::stable_partition(addresses.begin(), addresses.end(), by_v6);
  LegTurns turns;
  for (Address& address : addresses)
    turns[static_cast<std::size_t>(address.leg)].addresses.push_back(std::move(address));
  return turns;
}

}  // namespace

Task<OpenResult> dial_any(Network& network, Clock& clock, const OpeningRules& rules, std::vector<Address> addresses,
                          std::optional<PeerId> expected, std::uint64_t attempt, DialOptions options,
                          OnwardRelays onward) {
  OpenResult result = Refusal(Errc::gone, "no address answers");
  bool met = false;  // somebody whose own words are in `result`
  Channel<Tried> answers(co_await asio::this_coro::executor, addresses.size() + kOnwardMax);  // outlives the tasks
  LegTurns turns = turns_of(std::move(addresses));
  Turn& bare = turns[static_cast<std::size_t>(Leg::tcp)];
  Turn& web = turns[static_cast<std::size_t>(Leg::wss)];
  Turn& led_on = turns[static_cast<std::size_t>(Leg::onward)];
  const TimePoint web_begins = clock.now() + options.bare_time;
  const TimePoint onward_begins = web_begins + (web.left() ? options.web_time : Duration());
  bool onward_asked = !onward || !expected || !(bare.left() || web.left());
  TimePoint circuit_until = TimePoint::max();  // a circuit is in `result`: so long others may do better

  const auto body = [&](TaskGroup& tasks) -> Task<> {
    const auto may_begin = [&](const Turn& turn) {
      const bool its_turn = &turn != &web || bare.over() || clock.now() >= web_begins;
      return turn.left() && turn.waiting < options.at_once_max && its_turn;
    };
    const auto is_in_vain = [&] { return (bare.over() && web.over()) || clock.now() >= onward_begins; };
    const auto ask_onward = [&] {
      if (onward_asked || result || !is_in_vain()) return;
      onward_asked = true;
      if (met) return;  // it has refused us
      led_on.addresses = onward();
      if (led_on.addresses.size() > kOnwardMax) led_on.addresses.resize(kOnwardMax);
    };
    const auto is_over = [&] {
      return onward_asked && std::all_of(turns.begin(), turns.end(), [](const Turn& turn) { return turn.over(); });
    };
    const auto begin = [&](Turn& turn) {
      if (!may_begin(turn)) return;
      ++turn.waiting;
      Attempt one{turn.addresses[turn.next++], expected, attempt, options.attempt_time};
      tasks.spawn("dial", dial_one(network, clock, rules, std::move(one), answers));
    };
    const auto better_may_come = [&] { return bare.waiting + web.waiting > 0 && clock.now() < circuit_until; };
    for (ask_onward(); result ? better_may_come() : !is_over(); ask_onward()) {
      if (!result)
        for (Turn& turn : turns) begin(turn);
      TimePoint look = circuit_until;
      if (web.left() && clock.now() < web_begins) look = std::min(look, web_begins);
      if (!onward_asked) look = std::min(look, std::max(onward_begins, clock.now()));
      if (!result && std::any_of(turns.begin(), turns.end(), may_begin))
        look = std::min(look, clock.now() + options.stagger);
      auto tried = co_await answers.pop(clock, look);
      if (!tried) continue;  // time for the next address
      --turns[static_cast<std::size_t>(tried->leg)].waiting;
      const bool opened = tried->answer && *tried->answer;
      if (!tried->answer || (!opened && (result || (met && !tried->met)))) continue;
      if (opened && result && is_relayed(tried->leg)) continue;
      met = tried->met;
      result = std::move(*tried->answer);
      if (result && !is_relayed(tried->leg)) co_return;
      if (result) circuit_until = clock.now() + options.stagger;
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return result;
}

}  // namespace collab::net
