#include "nat/reachability.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "nat/wire.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace collab::nat {
namespace {

constexpr std::size_t kEnough = 3;

}  // namespace

std::string_view name(State state) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"unknown", "open", "outbound only"};
  return kNames[static_cast<std::size_t>(state)];
}

Judgement judge(const Judgement& before, const Verdicts& verdicts) noexcept {
  const auto sure = [](State state) { return Judgement{state, false}; };
  const auto perhaps = [](State state) { return Judgement{state, true}; };
  if (verdicts.ok >= kEnough) return sure(State::open);
  if (verdicts.ok == 0 && verdicts.failed >= kEnough) return sure(State::outbound_only);
  if (verdicts.servers >= kEnough && before.state != State::unknown) return before;
  if (verdicts.ok > 0) return perhaps(State::open);
  if (verdicts.failed > 0) return perhaps(State::outbound_only);
  return before;
}

struct Reachability::Answers {
  Verdicts verdicts;
  std::set<PeerId> confirmed_by;
  std::set<net::Address> addresses;
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
      doubted_(executor) {
  if (options_.port == 0) judgement_ = Judgement{State::outbound_only, false};
}

void Reachability::doubt() {
  doubt_ = true;
  doubted_.notify();
}

Task<> Reachability::run() {
  if (options_.port == 0) co_return;
  for (;;) {
    while (connected_().empty()) co_await clock_.sleep_until(clock_.now() + options_.look);
    doubt_ = false;
    co_await check();
    const TimePoint next = clock_.now() + pause();
    while (!doubt_ && clock_.now() < next) {
      const bool more = judgement_.weak && judged_by_ < options_.servers_max && connected_().size() > judged_by_;
      if (more) break;
      const TimePoint look = judgement_.weak ? std::min(next, clock_.now() + 10 * options_.look) : next;
      co_await doubted_.wait_until(clock_, look);
    }
  }
}

Duration Reachability::pause() {
  if (judgement_.state == State::unknown) return options_.again_unknown;
  if (judgement_.weak) return options_.again_weak;
  const auto fifth = static_cast<std::uint64_t>(options_.again.count()) / 5;
  return options_.again - Duration(fifth) + Duration(random_.below(2 * fifth + 1));
}

/// Whom to ask, at random.
std::vector<PeerId> Reachability::choose() {
  std::vector<PeerId> servers = connected_();
  std::sort(servers.begin(), servers.end());
  const std::size_t count = std::min(servers.size(), options_.servers_max);
  for (std::size_t i = 0; i < count; ++i) std::swap(servers[i], servers[i + random_.below(servers.size() - i)]);
  servers.resize(count);
  return servers;
}

Task<> Reachability::check() {
  const std::vector<PeerId> servers = choose();
  Answers answers;
  answers.verdicts.servers = servers.size();
  judged_by_ = servers.size();
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const PeerId& server : servers) tasks.spawn("nat.ask", ask(server, answers));
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);

  const Judgement before = judgement_;
  judgement_ = judge(before, answers.verdicts);
  const std::vector<net::Address> old = addresses_;
  if (judgement_.state != State::open) {
    addresses_.clear();
    confirmed_by_.clear();
  } else if (answers.verdicts.ok > 0) {
    addresses_.assign(answers.addresses.begin(), answers.addresses.end());
    confirmed_by_.assign(answers.confirmed_by.begin(), answers.confirmed_by.end());
  }
  if (judgement_ == before && addresses_ == old) co_return;
  log_.info("nat.reachability", {{"state", name(judgement_.state)},
                                 {"ok", answers.verdicts.ok},
                                 {"failed", answers.verdicts.failed},
                                 {"weak", judgement_.weak}});
  changed_.notify();
}

Task<> Reachability::ask(PeerId server, Answers& answers) {
  wire::DialBack question;
  question.port = options_.port;
  const Frame request = frame::encode(wire::Header(question));
  const auto answer = co_await endpoint_.call(server, "nat.dial_back", request, clock_.now() + options_.timeout);
  if (!answer) {
    log_.debug("nat.no_verdict", {{"server", server.short_text()}, {"why", answer.error().reason}});
    co_return;
  }
  const auto message = frame::decode<wire::Header>(**answer);
  const auto* done = message ? std::get_if<wire::DialledBack>(&message->header) : nullptr;
  if (done == nullptr || done->host.size() > wire::kHostBytesMax) co_return;
  const auto verdict = static_cast<wire::Verdict>(done->verdict);
  if (verdict == wire::Verdict::refused || verdict == wire::Verdict::timeout) ++answers.verdicts.failed;
  if (verdict != wire::Verdict::ok) co_return;
  net::Address address;
  address.host = done->host;
  address.port = options_.port;
  if (!net::parse_numeric_address(net::to_string(address))) co_return;  // it will be published
  ++answers.verdicts.ok;
  answers.confirmed_by.insert(server);
  answers.addresses.insert(std::move(address));
}

}  // namespace collab::nat
