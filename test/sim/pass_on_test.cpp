// A state that comes by way of a third: where a joiner can reach none of those who have it.

#include "base/frame.hpp"
#include "base/random.hpp"
#include "base/task_group.hpp"
#include "sim/simulation.hpp"
#include "state/download.hpp"
#include "state/snapshot.hpp"
#include "state/store.hpp"
#include "support/message_network.hpp"
#include "support/peers.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab::state {
namespace {

using namespace std::chrono_literals;
using test::peer;

constexpr unsigned kRelay = 1;
constexpr unsigned kJoiner = 2;
constexpr unsigned kDonor = 10;  // and those after it
constexpr std::uint64_t kEpoch = 7;
constexpr std::size_t kChunks = 12;

/// What a peer sees that only dials: it can reach who lets it in, and nobody else.
class Hidden final : public net::Endpoint {
 public:
  Hidden(net::Endpoint& net, PeerId relay) : net_(net), relay_(relay) {}
  const PeerId& self() const override { return net_.self(); }
  void handle(net::Method method, net::Handler handler) override { net_.handle(std::move(method), std::move(handler)); }
  void allow_conversation(net::Method) override {}
  Task<net::Answer> call(PeerId to, std::string_view method, Frame request, TimePoint deadline) override {
    if (to != relay_) co_return Refusal(Errc::gone);
    co_return co_await net_.call(to, method, std::move(request), deadline);
  }
  std::unique_ptr<net::Conversation> converse(std::string_view, const net::Topic&, std::vector<PeerId>) override {
    return nullptr;
  }
  net::LinkState link(const PeerId& other) const override { return net_.link(other); }
  void introduce(const PeerId&, std::vector<net::Address>) override {}
  bool can_reach(const PeerId& other) const override { return other == relay_; }
  std::vector<PeerId> tensor_relays() const override { return {relay_}; }

 private:
  net::Endpoint& net_;
  PeerId relay_;
};

Snapshot state_of_run() {
  Random random(kEpoch);
  Snapshot snapshot{kEpoch, {}};
  snapshot.sections.push_back({"parameters", Bytes((kChunks - 1) * kChunkBytes + 100)});
  for (std::byte& byte : snapshot.sections.front().bytes) byte = static_cast<std::byte>(random.next());
  return snapshot;
}

struct Town {
  explicit Town(PassOnOptions offer, unsigned donors = 2) : network(world, 1), random(1) {
    for (unsigned i = 0; i < donors; ++i) {
      const auto source = [](std::uint64_t) -> Task<Result<std::shared_ptr<const Snapshot>>> {
        co_return std::make_shared<const Snapshot>(state_of_run());
      };
      add_store(kDonor + i, source, {}).advance(kEpoch);
      donors_named.push_back(peer(kDonor + i));
    }
    const auto nothing = [](std::uint64_t) -> Task<Result<std::shared_ptr<const Snapshot>>> { co_return Errc::gone; };
    add_store(kRelay, nothing, offer);
    joiner.emplace(network.add_peer(peer(kJoiner)), peer(kRelay));
  }
  Store& add_store(unsigned number, Store::Source source, PassOnOptions offer) {
    StoreOptions options;
    options.pass_on = offer;
    auto store = std::make_unique<Store>(network.add_peer(peer(number)), world.clock(), world.executor(),
                                         world.executor(), log, std::move(source), options);
    return *stores.emplace(number, std::move(store)).first->second;
  }
  Task<boost::system::result<Snapshot, Refusal>> join() {
    WantedState wanted;
    wanted.epoch = kEpoch;
    wanted.parameters = content_hash(state_of_run().sections.front().bytes);
    wanted.deadline = world.clock().now() + 60s;
    const Context context{*joiner, world.clock(), world.executor(), log, random};
    return download(context, wanted, donors_named, {});
  }
  Task<net::Answer> pass(PeerId donor, const wire::Message& question) {
    wire::Pass pass;
    pass.donor = donor.key;
    Frame request = frame::encode(wire::Message(pass), *frame::encode(question));
    return joiner->call(peer(kRelay), wire::kPassMethod, std::move(request), world.clock().now() + 5s);
  }
  std::uint64_t passed() { return network.calls_of(peer(kRelay), std::string(wire::kPassMethod)); }
  void run(std::function<Task<>(TaskGroup&)> scenario) {
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      for (auto& [number, store] : stores) tasks.spawn("store", store->run());
      co_await scenario(tasks);
    };
    world.run(task_scope(rethrow, body));
  }

  sim::Simulation world;
  test::MessageNetwork network;
  Random random;
  Log log;
  std::map<unsigned, std::unique_ptr<Store>> stores;
  std::optional<Hidden> joiner;
  std::vector<PeerId> donors_named;
};

wire::Message ask_index() {
  wire::AskIndex ask;
  ask.kind = static_cast<std::uint8_t>(wire::Kind::snapshot);
  ask.epoch = kEpoch;
  return ask;
}

PassOnOptions offered() {
  return pass_on_options(true, 0);
}

}  // namespace

TEST_CASE("pass on: who can reach no donor has the state by one to whom both are connected") {
  Town town(offered());
  town.run([&](TaskGroup&) -> Task<> {
    const auto got = co_await town.join();
    REQUIRE(got);
    CHECK(index_snapshot(*got) == index_snapshot(state_of_run()));
    CHECK(town.passed() >= kChunks + 2);
    CHECK(town.stores.at(kRelay)->snapshots_kept() == 0);  // it keeps nothing of it
    CHECK_FALSE(town.stores.at(kDonor)->somebody_joins());
    wire::Message to_take_part = ask_index();
    std::get<wire::AskIndex>(to_take_part).shares = true;
    CHECK(co_await town.pass(peer(kDonor), to_take_part));
    CHECK(town.stores.at(kDonor)->somebody_joins());  // one that trains alone waits then
  });
}

TEST_CASE(
    "pass on: a donor that is dead for the relay is replaced; where nobody offers it, or all are dead, all is told") {
  Town town(offered());
  town.network.kill(peer(kDonor));
  town.run([&](TaskGroup&) -> Task<> {
    CHECK(co_await town.join());
    town.network.kill(peer(kDonor + 1));
    co_await town.world.clock().sleep_until(town.world.clock().now() + 1s);
    const auto gone = co_await town.join();
    REQUIRE_FALSE(gone);
    CHECK(gone.error().code == Errc::gone);
  });
  Town closed{PassOnOptions()};
  closed.run([&](TaskGroup&) -> Task<> {
    const auto refused = co_await closed.join();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::denied);
  });
}

TEST_CASE("pass on: the owner's rate holds, for each and for all") {
  PassOnOptions slow = pass_on_options(true, 1e6);
  SUBCASE("for each") {}
  SUBCASE("for all") {
    slow.bytes_per_s = 0;
    slow.bytes_per_s_of_all = 1e6;
  }
  Town town(slow);
  town.run([&](TaskGroup&) -> Task<> {
    const TimePoint began = town.world.clock().now();
    REQUIRE(co_await town.join());
    const double took = to_seconds(town.world.clock().now() - began);
    const double at_rate = static_cast<double>(kChunks * kChunkBytes) / 1e6;
    CHECK(took > 0.6 * at_rate);  // four chunks may be on their way at once, and the last one is never waited for
    CHECK(took < 1.2 * at_rate);
  });
}

TEST_CASE("pass on: what makes no sense, or is too much, is refused and asked of nobody") {
  Town town(offered());
  town.run([&](TaskGroup& tasks) -> Task<> {
    const auto code = [&](PeerId donor, wire::Message question) -> Task<Errc> {
      const auto answer = co_await town.pass(donor, question);
      co_return answer ? Errc() : answer.error().code;
    };
    const auto asked = [&] { return town.network.calls_of(peer(kDonor), std::string(wire::kIndexMethod)); };
    CHECK(co_await code(peer(kRelay), ask_index()) == Errc::bad_request);
    CHECK(co_await code(peer(kJoiner), ask_index()) == Errc::bad_request);
    CHECK(co_await code(peer(kDonor), wire::AskHave()) == Errc::bad_request);
    CHECK(co_await code(peer(kDonor), wire::Pass()) == Errc::bad_request);
    CHECK(co_await code(peer(99), ask_index()) == Errc::gone);
    Frame nonsense = std::make_shared<const Buffer>(Bytes(40, std::byte(7)));
    const auto answer =
        co_await town.joiner->call(peer(kRelay), wire::kPassMethod, std::move(nonsense), town.world.clock().now() + 1s);
    CHECK_FALSE(answer);
    CHECK(asked() == 0);
    std::size_t busy = 0;
    const auto ask = [&]() -> Task<> {
      const Errc refused = co_await code(peer(kDonor), ask_index());
      if (refused == Errc::busy) ++busy;
    };
    for (int i = 0; i < 20; ++i) tasks.spawn("ask", ask());
    co_await town.world.clock().sleep_until(town.world.clock().now() + 5s);
    CHECK(busy == 20 - PassOnOptions().of_peer_max);
    CHECK(asked() == PassOnOptions().of_peer_max);
  });
}

}  // namespace collab::state
