#include "net/dialling.hpp"

#include "net/proxy.hpp"
#include "sim/simulation.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using namespace std::chrono_literals;

/// Ends at once.
class Hangup final : public ByteStream {
 public:
  Task<Result<std::size_t>> read(std::span<std::byte> /*into*/) override { co_return std::size_t(0); }
  Task<Result<>> write(std::span<const std::byte> /*bytes*/) override { co_return Result<>(); }
  void close() override {}
  Address remote() const override { return {}; }
};

/// Nobody is there; some places say so at once, others keep silent.
class Nowhere final : public Network {
 public:
  explicit Nowhere(Clock& clock) : clock_(clock), began_(clock.now()) {}

  Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) override {
    dialled.emplace_back(to_string(to), clock_.now() - began_);
    if (streams.contains(to_string(to))) co_return std::make_unique<Hangup>();
    const auto said = answers.find(to_string(to));
    if (said != answers.end()) co_return said->second;
    co_await clock_.sleep_until(deadline);
    co_return Errc::late;
  }
  Result<std::unique_ptr<Listener>> listen(const Address&) override { return Errc::denied; }

  std::set<std::string> streams;  ///< where somebody is, but says nothing
  /// Those that answer, and how.
  std::map<std::string, boost::system::error_code> answers;
  std::vector<std::pair<std::string, Duration>> dialled;

 private:
  Clock& clock_;
  TimePoint began_;
};

struct Lines {
  Lines() : network(simulation.clock()), identity(Identity::generate(Identity::Seed{1})), tls(identity) {}

  /// Tries them all; what came of it is a refusal.
  Refusal dial(const std::vector<std::string>& texts) {
    std::vector<Address> addresses;
    for (const std::string& text : texts) addresses.push_back(parse_address(text).value());
    const OpeningRules rules{tls, {}, {}, {}, {}};
    Refusal why;
    const auto all = [&]() -> Task<> {
      auto dialling = dial_any(network, simulation.clock(), rules, addresses, std::nullopt, 1, DialOptions());
      const OpenResult opened = co_await std::move(dialling);
      why = opened.error();
    };
    simulation.run(all());
    return why;
  }
  /// When a place was dialled; negative: never.
  Duration when(const std::string& text) const {
    for (const auto& [place, time] : network.dialled)
      if (place == text) return time;
    return Duration(-1);
  }

  sim::Simulation simulation;
  Nowhere network;
  Identity identity;
  TlsContext tls;
};

const char* const kWeb = "wss://10.0.0.1:443/collab/v1";

}  // namespace

TEST_CASE("dialling: a WebSocket's turn comes after 5 s of silence, however many bare places keep silent") {
  for (const std::size_t count : {std::size_t(1), std::size_t(3), std::size_t(6)}) {
    CAPTURE(count);
    Lines lines;
    std::vector<std::string> places(1, kWeb);
    for (std::size_t i = 0; i < count; ++i) places.push_back("10.0.0.1:460" + std::to_string(i));
    CHECK(lines.dial(places).code == Errc::gone);
    CHECK(lines.when(places[1]) == Duration());
    CHECK(lines.when(kWeb) == 5s);
    CHECK(lines.network.dialled.size() == places.size());
  }
}

TEST_CASE("dialling: at once when all bare places have failed, or there are none") {
  Lines refused;
  refused.network.answers = {{"10.0.0.1:4600", Errc::gone}, {"[2001:db8::1]:4600", Errc::gone}};
  (void)refused.dial({kWeb, "10.0.0.1:4600", "[2001:db8::1]:4600"});
  CHECK(refused.network.dialled.front().first == "[2001:db8::1]:4600");
  CHECK(refused.network.dialled.back().first == kWeb);
  CHECK(refused.when(kWeb) < 1s);
  Lines alone;
  (void)alone.dial({kWeb});
  CHECK(alone.when(kWeb) == Duration());
}

TEST_CASE("dialling: what a proxy says is told when nothing better comes") {
  Lines lines;
  lines.network.answers = {{"10.0.0.1:4600", proxy_status(403)}, {kWeb, Errc::gone}};
  const Refusal why = lines.dial({"10.0.0.1:4600", kWeb});
  CHECK(proxy_trouble(why) == 403);
  CHECK(lines.when(kWeb) == Duration());
}

TEST_CASE("dialling: what a proxy says replaces nothing that somebody who is there has said") {
  Lines lines;
  lines.network.streams.insert("10.0.0.1:4600");
  lines.network.answers = {{kWeb, proxy_status(403)}};
  const Refusal why = lines.dial({"10.0.0.1:4600", kWeb});
  CHECK(lines.when(kWeb) >= Duration());
  CHECK_FALSE(proxy_trouble(why));
  CHECK(why.reason == "the other side closed the connection");
}

TEST_CASE("dialling: circuits are asked for at once, beside silent addresses, and WebSockets do not wait for them") {
  const std::string circuit = "relay://10.0.0.9:4600/" + Identity::generate(Identity::Seed{7}).id().text();
  Lines lines;
  lines.network.answers = {{"10.0.0.1:4600", Errc::gone}};
  CHECK(lines.dial({circuit, "10.0.0.1:4600", "10.0.0.2:4600", kWeb}).code == Errc::gone);
  CHECK(lines.when(circuit) == Duration());
  CHECK(lines.when("10.0.0.1:4600") == Duration());
  CHECK(lines.when(kWeb) == 5s);
  Lines refused;
  refused.network.answers = {{circuit, Errc::busy}, {"10.0.0.1:4600", Errc::gone}};
  CHECK(refused.dial({circuit, "10.0.0.1:4600", kWeb}).code == Errc::gone);
  CHECK(refused.when(kWeb) < 1s);
}

}  // namespace collab::net
