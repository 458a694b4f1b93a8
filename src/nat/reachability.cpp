#include "nat/reachability.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "nat/address_kind.hpp"
#include "nat/wire.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace collab::nat {
namespace {

constexpr std::size_t kEnough = 3;
constexpr std::size_t kUnansweredMax = 3;  // checks: a line that is down for seconds costs two
constexpr std::size_t kBusyMax = 12;       // checks, five seconds apart: then who is asked too often has time again

/// Bare TCP first. Strangers name the hosts, so there may be any number: the first ones stay, one for WebSockets too.
std::vector<net::Address> best_of(std::vector<net::Address> all, std::size_t addresses_max) {
  const auto is_bare = [](const net::Address& at) { return at.leg == net::Leg::tcp; };
  const auto web = std::stable_partition(all.begin(), all.end(), is_bare);
  if (all.size() <= addresses_max) return all;
  const auto last = all.begin() + static_cast<std::ptrdiff_t>(addresses_max - 1);
  if (web != all.end() && web > last) *last = *web;
  all.resize(addresses_max);
  return all;
}

}  // namespace

std::string_view name(State state) noexcept {
  constexpr std::array<std::string_view, 5> kNames = {"unknown", "open", "mapped", "outbound only", "relayed"};
  return kNames[static_cast<std::size_t>(state)];
}

bool can_be_dialled(State state) noexcept {
  return state == State::open || state == State::mapped;
}

bool only_dials(State state) noexcept {
  return state == State::outbound_only || state == State::relayed;
}

Judgement judge(const Judgement& before, const Verdicts& verdicts) noexcept {
  const auto sure = [](State state) { return Judgement{state, false}; };
  const auto perhaps = [](State state) { return Judgement{state, true}; };
  const State dialled = verdicts.mapped ? State::mapped : State::open;
  if (verdicts.ok >= kEnough) return sure(dialled);
  if (verdicts.ok == 0 && verdicts.failed >= kEnough) return sure(State::outbound_only);
  if (verdicts.servers >= kEnough && before.state != State::unknown) return before;
  if (verdicts.ok > 0) return perhaps(dialled);
  if (verdicts.failed > 0) return perhaps(State::outbound_only);
  return before;
}

/// A server is asked about each port by itself: one that gets through anywhere has got through.
struct Reachability::Answers {
  std::vector<PeerId> servers;
  std::set<PeerId> got_through;
  std::set<PeerId> failed;
  std::set<net::Address> addresses;
  bool told = false;                        ///< something, by somebody: not all lines have broken
  bool busy = false;                        ///< somebody was asked too often by others
  std::size_t open = 0;                     ///< questions without an answer,
  std::map<PeerId, std::size_t> bare_open;  ///< and those of them to one server that are about bare TCP
  std::set<PeerId> web_asked;               ///< who was asked about WebSockets
  std::size_t web_left = 0;                 ///< servers that have not answered about WebSockets

  bool all_got_through() const { return !servers.empty() && got_through.size() == servers.size(); }
  Verdicts verdicts() const {
    const auto only_failed = [this](const PeerId& server) { return !got_through.contains(server); };
    Verdicts all;
    all.ok = got_through.size();
    all.failed = static_cast<std::size_t>(std::count_if(failed.begin(), failed.end(), only_failed));
    all.servers = servers.size();
    return all;
  }
};

Reachability::Reachability(net::Endpoint& endpoint, Clock& clock, Random random, Log& log,
                           asio::any_io_executor executor, Connected connected, Options options)
    : endpoint_(endpoint),
      clock_(clock),
      random_(random),
      log_(log),
      connected_(std::move(connected)),
      options_(options),
      changed_(executor),
      doubted_(executor),
      progress_(executor) {
  if (options_.port == 0) judgement_ = Judgement{State::outbound_only, false};
}

bool Reachability::counts_as_client() const noexcept {
  return only_dials(judgement_.state) || !judged();
}

void Reachability::doubt() {
  doubt_ = true;
  doubted_.notify();
}

void Reachability::led_to_by_relay(bool is) {
  if (std::exchange(relayed_, is) != is) changed_.notify();
}

void Reachability::offer(std::optional<std::uint16_t> mapped_port) {
  mapped_port_ = mapped_port;
  if (!checking_ || !mapped_port) return doubt();
  progress_.notify();
}

void Reachability::offer_web(std::optional<std::uint16_t> mapped_port) {
  mapped_web_port_ = mapped_port;
  doubt();
}

Task<> Reachability::run() {
  if (options_.port == 0) co_return;
  for (;;) {
    const TimePoint alone_at = clock_.now() + options_.nobody;
    while (judges().empty()) {
      co_await clock_.sleep_until(clock_.now() + options_.look);
      first_over_ = first_over_ || clock_.now() >= alone_at;
    }
    doubt_ = false;
    co_await check();
    const TimePoint next = clock_.now() + pause();
    while (!doubt_ && clock_.now() < next) {
      const bool more = judgement_.weak && judged_by_ < options_.servers_max && judges().size() > judged_by_;
      if (more) break;
      const TimePoint look = judgement_.weak ? std::min(next, clock_.now() + 10 * options_.look) : next;
      co_await doubted_.wait_until(clock_, look);
    }
  }
}

Duration Reachability::pause() {
  const bool rush = busy_ > 1;  // by then others are connected, who may have time
  if (judgement_.state == State::unknown) return judged() || rush ? options_.again_unknown : options_.nobody;
  if (fell_) return options_.again_unknown;  // it may have slept, or its line have been down, when others tried
  if (judgement_.weak) return options_.again_weak;
  const auto fifth = static_cast<std::uint64_t>(options_.again.count()) / 5;
  return options_.again - Duration(fifth) + Duration(random_.below(2 * fifth + 1));
}

/// Not who is connected through a relay: it sees no address of ours, so it would dial none.
std::vector<PeerId> Reachability::judges() const {
  std::vector<PeerId> peers = connected_();
  std::erase_if(peers, [this](const PeerId& peer) { return endpoint_.link(peer).circuit; });
  return peers;
}

/// Whom to ask, at random.
std::vector<PeerId> Reachability::choose() {
  std::vector<PeerId> servers = judges();
  std::sort(servers.begin(), servers.end());
  const std::size_t count = std::min(servers.size(), options_.servers_max);
  for (std::size_t i = 0; i < count; ++i) std::swap(servers[i], servers[i + random_.below(servers.size() - i)]);
  servers.resize(count);
  return servers;
}

Task<> Reachability::check() {
  Answers answers;
  answers.servers = choose();
  if (options_.wss_port != 0) answers.web_left = answers.servers.size();
  judged_by_ = answers.servers.size();
  checking_ = true;
  const bool was_dialled = can_be_dialled(judgement_.state);
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    std::set<std::uint16_t> asked;
    do {  // the router's promise may come while a firewall keeps silent about our own port
      for (const std::uint16_t port : {options_.port, mapped_port_.value_or(options_.port)})
        if (asked.insert(port).second) ask_all(tasks, port, answers);
      if (answers.open > 0) co_await progress_.wait();
      first_over_ = first_over_ || !answers.got_through.empty();  // however long another one takes
    } while (answers.open > 0 && !answers.all_got_through());
    checking_ = false;
    if (!answers.told) ++(answers.busy ? busy_ : unanswered_);
    conclude(answers);  // one port is enough to be dialled: the other may be behind a silent firewall
    while (answers.web_left > 0) co_await progress_.wait();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  conclude(answers);
  fell_ = was_dialled && !can_be_dialled(judgement_.state);
}

void Reachability::ask_all(TaskGroup& tasks, std::uint16_t port, Answers& answers) {
  for (const PeerId& server : answers.servers) {
    ++answers.open;
    ++answers.bare_open[server];
    tasks.spawn("nat.ask", ask_bare_then_web(tasks, server, port, answers));
  }
}

/// A server knocks at two doors of one peer at a time, for up to 5 s at a silent one: were the third question about the
/// port that a router maps, it would go unanswered. So WebSockets wait for the end of all others.
Task<> Reachability::ask_bare_then_web(TaskGroup& tasks, PeerId server, std::uint16_t port, Answers& answers) {
  co_await ask(server, port, net::Leg::tcp, answers);
  if (--answers.bare_open[server] == 0) ask_web(tasks, server, answers);
  --answers.open;
  progress_.notify();
}

void Reachability::ask_web(TaskGroup& tasks, const PeerId& server, Answers& answers) {
  if (options_.wss_port == 0 || !answers.web_asked.insert(server).second) return;
  ++answers.open;
  tasks.spawn("nat.ask", ask_web_port(server, answers));
}

Task<> Reachability::ask_web_port(PeerId server, Answers& answers) {
  co_await ask(server, options_.wss_port, net::Leg::wss, answers);
  const auto mapped = mapped_web_port_;
  if (mapped && *mapped != options_.wss_port) co_await ask(server, *mapped, net::Leg::wss, answers);
  --answers.web_left;
  --answers.open;
  progress_.notify();
}

void Reachability::conclude(const Answers& answers) {
  // asked now: a router may map, and let a knock through, a moment before it says so
  const auto own = [this](const net::Address& address) { return !is_mapped(address); };
  Verdicts verdicts = answers.verdicts();
  verdicts.mapped = !answers.addresses.empty() && std::none_of(answers.addresses.begin(), answers.addresses.end(), own);
  const Judgement before = judgement_;
  judgement_ = judge(before, verdicts);
  first_over_ = first_over_ || answers.told || unanswered_ >= kUnansweredMax || busy_ >= kBusyMax;
  const std::vector<net::Address> old = addresses_;
  if (!can_be_dialled(judgement_.state)) {
    addresses_.clear();
    confirmed_by_.clear();
  } else if (verdicts.ok > 0) {
    std::vector<net::Address> all(answers.addresses.begin(), answers.addresses.end());
    std::stable_partition(all.begin(), all.end(), own);
    addresses_ = best_of(std::move(all), options_.addresses_max);
    confirmed_by_.assign(answers.got_through.begin(), answers.got_through.end());
  }
  if (judgement_ == before && addresses_ == old) return;
  log_.info(
      "nat.reachability",
      {{"state", name(judgement_.state)}, {"ok", verdicts.ok}, {"failed", verdicts.failed}, {"weak", judgement_.weak}});
  changed_.notify();
}

Task<> Reachability::ask(PeerId server, std::uint16_t port, net::Leg leg, Answers& answers) {
  wire::DialBack question;
  question.port = port;
  question.wss = leg == net::Leg::wss;
  const Frame request = frame::encode(wire::Header(question));
  const auto answer = co_await endpoint_.call(server, "nat.dial_back", request, clock_.now() + options_.timeout);
  const auto failed_by = [&answer](Errc why) { return !answer && answer.error().code == why; };
  answers.busy = answers.busy || failed_by(Errc::busy);
  answers.told = answers.told || !(failed_by(Errc::gone) || failed_by(Errc::late) || failed_by(Errc::busy));
  if (!answer) {
    log_.debug("nat.no_verdict", {{"server", server.short_text()}, {"why", answer.error().reason}});
    co_return;
  }
  const auto message = frame::decode<wire::Header>(**answer);
  const auto* done = message ? std::get_if<wire::DialledBack>(&message->header) : nullptr;
  if (done == nullptr || done->host.size() > wire::kHostBytesMax) co_return;
  const auto verdict = static_cast<wire::Verdict>(done->verdict);
  if (verdict == wire::Verdict::refused || verdict == wire::Verdict::timeout) answers.failed.insert(server);
  if (verdict != wire::Verdict::ok) co_return;
  net::Address address;
  address.host = done->host;
  address.port = port;
  address.leg = leg;
  if (!net::parse_numeric_address(net::to_string(address))) co_return;  // it will be published
  answers.got_through.insert(server);
  answers.addresses.insert(std::move(address));
}

/// Routers map IPv4 only, and who sees a private address is on this side of the router.
bool Reachability::is_mapped(const net::Address& address) const {
  const bool outside = !net::is_v6(address.host) && !is_private_v4(address.host);
  return outside && address.port == (address.leg == net::Leg::wss ? mapped_web_port_ : mapped_port_);
}

}  // namespace collab::nat
