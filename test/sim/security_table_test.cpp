// Every method a node has, with everything that may be wrong with who calls it or with what he says: refused with a
// reason of its own, without an answer, while an honest peer's calls all succeed. The methods come from the node.

#include "averaging/all_reduce.hpp"
#include "averaging/first_groups.hpp"
#include "base/frame.hpp"
#include "crypto/token.hpp"
#include "epoch/legacy.hpp"
#include "matchmaking/matchmaker.hpp"
#include "node/ban_file.hpp"
#include "node/wire.hpp"
#include "state/store.hpp"
#include "support/raw_peer.hpp"
#include "support/temp_folder.hpp"
#include "swarm_node.hpp"

#include <fmt/format.h>

#include <fstream>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using namespace std::chrono_literals;
using test::identity;
using test::RawPeer;
using test::SimRun;
using test::SwarmNode;

/// What is wrong. From `expires_here` on it becomes so while the peer is connected.
enum class Defect : std::uint8_t {
  no_token,
  no_token_at_all,
  expired,
  not_yet,
  other_peer,
  other_run,
  forged,
  claim_missing,
  banned,
  revoked,
  malformed,
  too_long,
  expires_here,
  banned_here,
  revoked_here,
};
constexpr auto kDefects = {Defect::no_token,     Defect::no_token_at_all, Defect::expired,     Defect::not_yet,
                           Defect::other_peer,   Defect::other_run,       Defect::forged,      Defect::claim_missing,
                           Defect::banned,       Defect::revoked,         Defect::malformed,   Defect::too_long,
                           Defect::expires_here, Defect::banned_here,     Defect::revoked_here};

std::string_view name(Defect defect) {
  constexpr std::array<std::string_view, 15> kNames = {
      "no token",    "nonsense token", "expired token", "token not yet", "other peer's",
      "other run's", "forged",         "claim missing", "banned",        "revoked",
      "malformed",   "over-long",      "expires",       "is banned",     "is revoked"};
  return kNames[static_cast<std::size_t>(defect)];
}

/// What the peer hears; empty: an answer, which none of them may get.
struct Heard {
  bool answered = false;
  std::string reason;
};

/// The production node of a run by token, an honest member, and a host for strangers.
struct World {
  World() : stranger(run.network.add_host("stranger")) {
    NodeOptions victims = run.options("");
    victims.home = victim_home.path();
    victims.serve_directory = true;
    victim = &run.add(1, "coordinator", victims);  // the authority's own key
    Manifest manifest = test::manifest_of(identity(1));
    manifest.admission = Admission::token;
    victim->node->found(sign_manifest(identity(1), manifest));
    assemble(*victim);
    NodeOptions honests = run.options();
    honests.home = honest_home.path();
    std::ofstream(honest_home.path() / "token") << token_text(sign_token(identity(1), token(identity(2).id(), 2)));
    honest = &run.add(2, "honest", honests);
  }

  /// What optim::Collaboration adds to a node.
  void assemble(SwarmNode& node) {
    net::Endpoint& endpoint = node.node->endpoint();
    endpoint.allow_conversation(matchmaking::row());
    endpoint.allow_conversation(averaging::round_protocol());
    endpoint.allow_conversation(epoch::legacy_protocol());
    endpoint.handle(epoch::take_on_method(), [](PeerId, Frame request, TimePoint) -> Task<net::Answer> {
      const auto asked = epoch::wire::read_ask(*request);
      co_return asked ? Refusal(Errc::gone) : Refusal(asked.error());
    });
    endpoint.handle(averaging::counted_method(), [this](PeerId from, Frame request, TimePoint) -> Task<net::Answer> {
      co_return first_groups.answer(from, request);
    });
    const auto none = [](std::uint64_t) -> Task<Result<std::shared_ptr<const state::Snapshot>>> {
      co_return Errc::gone;
    };
    store = std::make_unique<state::Store>(endpoint, node.host.clock(), run.world.executor(), run.world.executor(),
                                           node.log, none);
  }

  std::int64_t now_ms() const { return run.world.clock().unix_ms(); }

  Token token(const PeerId& peer, TokenSerial serial, Claims claims = kEveryClaim) const {
    Token token;
    token.run_id = "demo";
    token.peer = peer;
    token.claims = claims;
    token.serial = serial;
    token.not_before_ms = now_ms() - kTokenSkewMs;
    token.expires_ms = now_ms() + kTokenLifetimeMs;
    return token;
  }

  /// By the way of the authority's user: a line in the home's file.
  void ban(std::variant<PeerId, TokenSerial> target) {
    Ban ban;
    ban.target = target;
    ban.reason = "for the table";
    ban.from_ms = now_ms() - 1000;
    ban.until_ms = now_ms() + 3'600'000;
    ban.sequence = 1;
    add_to_ban_file(victim_home.path() / "bans", ban_record(identity(1), "demo", ban), now_ms());
  }

  test::TempFolder victim_home;
  test::TempFolder honest_home;
  SimRun run;
  averaging::FirstGroups first_groups;
  std::unique_ptr<state::Store> store;
  sim::Host& stranger;
  SwarmNode* victim = nullptr;
  SwarmNode* honest = nullptr;
};

/// One cell of the table.
class Cell {
 public:
  Cell(World& world, const net::Method& method, Defect defect, unsigned number, TokenSerial serial)
      : world_(world),
        method_(method),
        defect_(defect),
        serial_(serial),
        peer_(number, world.stranger, world.run.world.clock()) {
    peer_.hello.run = "demo";
  }

  Task<Heard> make() {
    const Bytes token = shown_token();
    for (const std::byte byte : token) peer_.hello.token.push_back(std::to_integer<char>(byte));
    if (defect_ == Defect::banned) world_.ban(peer_.id());
    if (defect_ == Defect::revoked) world_.ban(serial_);
    if (defect_ == Defect::banned || defect_ == Defect::revoked) co_await world_.run.sleep(5s);
    auto opened = co_await peer_.open(address());
    CHECK(world_.victim->node->endpoint().expelled(peer_.id()) == (defect_ == Defect::banned));
    if (!opened) co_return Heard{false, "hello: " + opened.error().reason};
    co_await spoil();
    (void)co_await RawPeer::say(**opened, question());  // the node may have closed it: what it said then is heard
    Heard heard = co_await hear(**opened);
    const auto& endpoint = world_.victim->node->endpoint();
    const bool is_out = defect_ >= Defect::expires_here;  // a malformed word is between two peers only
    const auto known = [&] { return endpoint.expelled(peer_.id()) == is_out; };
    const auto after_hearing = co_await world_.run.until(known, 2s);
    CHECK(after_hearing < 2s);
    (*opened)->stream->close();
    co_return heard;
  }

 private:
  Bytes shown_token() const {
    Token token = world_.token(peer_.id(), serial_);
    switch (defect_) {
      case Defect::no_token: return {};
      case Defect::no_token_at_all: return Bytes(100, std::byte(7));
      case Defect::expired: token.expires_ms = world_.now_ms(); break;
      case Defect::not_yet: token.not_before_ms = world_.now_ms() + 20'000; break;
      case Defect::other_peer: token.peer = identity(2).id(); break;
      case Defect::other_run: token.run_id = "another"; break;
      case Defect::forged: return sign_token(identity(3), token);
      case Defect::claim_missing:
        token.claims = Claims();
        for (const Claim claim : kEveryClaim)
          if (claim != method_.claim) token.claims.add(claim);
        break;
      case Defect::expires_here: token.expires_ms = world_.now_ms() + 2000; break;
      default: break;
    }
    return sign_token(identity(1), token);
  }

  /// Until the node knows of what makes the peer unwelcome: it may not have closed the connection yet.
  Task<> spoil() {
    if (defect_ == Defect::banned_here) world_.ban(peer_.id());
    if (defect_ == Defect::revoked_here) world_.ban(serial_);
    if (defect_ < Defect::expires_here) co_return;
    const Access& access = world_.victim->node->access();
    const auto known = [&] { return !access.may(peer_.id(), method_.claim); };
    const auto after = co_await world_.run.until(known, 10s);
    CHECK(after < 10s);
  }

  Bytes question() const {
    const std::size_t bytes = defect_ == Defect::too_long ? method_.request_bytes_max + 1 : 100;
    const bool call = world_.victim->node->endpoint().methods().find(method_.name)->handler != nullptr;
    Bytes head;
    if (call) {
      net::OpenCall open;
      open.method = method_.name;
      open.id[0] = 1;
      open.left_ms = 20'000;
      head = net::encode_open(open);
    } else {
      net::OpenTopic open;
      open.protocol = method_.name;
      open.topic[0] = static_cast<unsigned char>(serial_);
      head = net::encode_open(open);
    }
    // in one piece as far as the credit of a new stream goes: a message over a bound is refused by its announced size
    const auto prefix = test::prefix_of(net::FrameType::open, 1, call ? net::kLast : std::uint8_t(0), method_.traffic);
    const std::size_t piece = std::min(bytes, net::kStreamCredit[static_cast<std::size_t>(method_.traffic)]);
    if (piece == bytes) return test::frame_bytes(prefix, head, Bytes(bytes, std::byte(0xc1)));
    return announced(bytes, piece, call);
  }

  /// The first piece of a message of `bytes`.
  Bytes announced(std::size_t bytes, std::size_t piece, bool call) const {
    net::OpenHead head;
    if (call) {
      net::OpenCall open;
      open.method = method_.name;
      open.id[0] = 1;
      open.left_ms = 20'000;
      open.size = static_cast<std::uint32_t>(bytes);
      head = open;
    } else {
      net::OpenTopic open;
      open.protocol = method_.name;
      open.topic[0] = static_cast<unsigned char>(serial_);
      open.size = static_cast<std::uint32_t>(bytes);
      head = open;
    }
    const auto prefix = test::prefix_of(net::FrameType::open, 1, net::kMore, method_.traffic);
    return test::frame_bytes(prefix, net::encode_open(head), Bytes(piece, std::byte(0xc1)));
  }

  /// The first word about the stream, or the last about the connection.
  Task<Heard> hear(net::Opened& opened) {
    Bytes buffer(64 * 1024);
    const TimePoint deadline = world_.run.in(12s);
    for (;;) {
      while (opened.channel.opened().size() >= net::kPrefixBytes) {
        const auto bytes = opened.channel.opened();
        const net::Prefix prefix = net::decode_prefix(bytes.first<net::kPrefixBytes>());
        if (bytes.size() < net::kPrefixBytes + prefix.body_bytes) break;
        const auto head = bytes.subspan(net::kPrefixBytes, prefix.head_bytes);
        const auto word = read(prefix, head);
        const bool ping = static_cast<net::FrameType>(prefix.type) == net::FrameType::ping;
        const Bytes pong = test::frame_bytes(test::prefix_of(net::FrameType::pong, 0),
                                             ping ? Bytes(head.begin(), head.end()) : Bytes());
        opened.channel.consume(net::kPrefixBytes + prefix.body_bytes);
        if (word) co_return *word;
        if (ping) (void)co_await RawPeer::say(opened, pong);  // the silent are closed
      }
      const auto size = co_await with_deadline(world_.run.world.clock(), deadline, opened.stream->read(buffer));
      if (!size) co_return Heard{false, size.error() == Errc::late ? "silence" : "closed"};
      if (*size == 0) co_return Heard{false, "closed"};
      const auto taken = opened.channel.receive(std::span(buffer).first(*size));
      if (!taken) co_return Heard{false, "closed"};
    }
  }

  static std::optional<Heard> read(const net::Prefix& prefix, std::span<const std::byte> head) {
    const auto type = static_cast<net::FrameType>(prefix.type);
    const bool about_us = prefix.stream == 1;  // the node asks things of its own, too
    if (type == net::FrameType::data && about_us) return Heard{true, {}};
    if (type == net::FrameType::reset && about_us) {
      const auto reset = net::decode_head<net::ResetHead>(head);
      return Heard{false, fmt::format("{}: {}", net::name(static_cast<Errc>(reset->code)), reset->text)};
    }
    if (type == net::FrameType::refuse) {
      const auto refuse = net::decode_head<net::Refuse>(head);
      return Heard{false, fmt::format("turned away: {}: {}", refuse->reason, refuse->text)};
    }
    if (type == net::FrameType::goaway)
      return Heard{false, "closed: " + net::decode_head<net::GoawayHead>(head)->reason};
    return std::nullopt;
  }

  static net::Address address() {
    net::Address at;
    at.host = "coordinator";
    at.port = 4600;
    return at;
  }

  World& world_;
  const net::Method& method_;
  Defect defect_;
  TokenSerial serial_;
  RawPeer peer_;
};

/// How a refusal may begin. Several: what comes first, the closing or the call, is a matter of milliseconds.
std::vector<std::string> expected(Defect defect, const net::Method& method, bool call) {
  switch (defect) {
    case Defect::no_token: return {"hello: token: this run admits by token, and none was shown"};
    case Defect::no_token_at_all: return {"hello: token: the token is malformed"};
    case Defect::expired: return {"hello: token: the token has expired"};
    case Defect::not_yet: return {"hello: token: the token does not hold yet"};
    case Defect::other_peer: return {"hello: token: the token is for another peer"};
    case Defect::other_run: return {"hello: token: the token is of another run"};
    case Defect::forged: return {"hello: token: the token is not of this run's authority"};
    case Defect::claim_missing:
      if (method.claim == Claim::join) return {"hello: token: the token does not grant \"join\""};
      return {fmt::format("denied: the token does not grant \"{}\"", collab::name(method.claim))};
    case Defect::banned: return {"hello: banned: banned by the run's authority"};
    case Defect::revoked: return {"hello: token: the token was revoked"};
    // of a topic that nobody has opened nothing is read
    case Defect::malformed: return {call ? "bad_request: " : "stale: "};
    case Defect::too_long: return {"bad_request: size", "closed: message_size"};
    case Defect::expires_here: return {"turned away: token: the token has expired", "denied: the token has expired"};
    case Defect::banned_here: return {"turned away: banned: banned by", "denied: banned by"};
    case Defect::revoked_here: return {"turned away: token: the token was revoked", "denied: the token was revoked"};
  }
  return {};
}

bool begins_with_one_of(const std::string& text, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& beginning) { return text.starts_with(beginning); });
}

}  // namespace

TEST_CASE("security table: every method of a node refuses every defect, and an honest peer notices nothing") {
  World world;
  std::map<std::string, std::map<Defect, std::string>> table;
  std::size_t effects = 0;
  std::size_t honest_calls = 0;
  std::size_t honest_failures = 0;
  bool over = false;
  const auto call_on = [&]() -> Task<> {
    while (!over) {
      const Frame question = frame::encode(wire::Header(wire::AskManifest()));
      const auto answer =
          co_await world.honest->node->endpoint().call(identity(1).id(), "run.manifest", question, world.run.in(5s));
      ++honest_calls;
      if (!answer) {
        ++honest_failures;
        MESSAGE("honest call: ", answer.error().reason);
      }
      co_await world.run.sleep(1s);
    }
  };
  world.run.run([&]() -> Task<> {
    world.victim->start();
    const auto joined = co_await world.honest->node->join(world.run.in(30s));
    REQUIRE(joined);
    world.honest->start();
    TaskGroup tasks(world.run.world.executor(), rethrow);
    tasks.spawn("store", world.store->run());
    tasks.spawn("honest", call_on());
    TokenSerial serial = 1000;
    unsigned stranger = 100;  // each cell has one of its own: some are banned for good
    for (const auto& [method_name, row] : world.victim->node->endpoint().methods().rows()) {
      for (const Defect defect : kDefects) {
        CAPTURE(method_name);
        CAPTURE(name(defect));
        ++serial;
        Cell cell(world, row.method, defect, ++stranger, serial);
        const Heard heard = co_await cell.make();
        CAPTURE(heard.reason);
        effects += heard.answered ? 1 : 0;
        CHECK_FALSE(heard.answered);
        CHECK(begins_with_one_of(heard.reason, expected(defect, row.method, row.handler != nullptr)));
        table[method_name][defect] = heard.reason;
        co_await world.run.sleep(300ms);
      }
    }
    over = true;
    co_await tasks.stop();
  });

  const auto& methods = world.victim->node->endpoint().methods().rows();
  CHECK(methods.size() >= 12);
  CHECK(methods.contains("directory.find"));
  CHECK(table.size() == methods.size());
  CHECK(effects == 0);
  CHECK(honest_calls > 60);
  CHECK(honest_failures == 0);
  CHECK(world.victim->metrics.value("collab_refused_total", {{"reason", "handshake"}}) > 50);
  std::ofstream out("security_table.txt");
  for (const auto& [method, cells] : table) {
    CHECK(cells.size() == std::size(kDefects));
    for (const auto& [defect, reason] : cells) out << fmt::format("{:<24} {:<15} {}\n", method, name(defect), reason);
  }
  out << fmt::format("{} methods, {} defects each; effects {}; honest calls {}, of which failed {}\n", table.size(),
                     std::size(kDefects), effects, honest_calls, honest_failures);
}

}  // namespace collab::node
