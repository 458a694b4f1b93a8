// The dashboard of a made-up swarm: the real server, routes and pages. Told by lines on stdin what happens next;
// answers each with a line on stdout.
//   peers N       so many take part          epoch         one more is finished, with its loss and round
//   alert TEXT    an event                   close, open   the server goes and comes back at its port
#include "monitor/api.hpp"
#include "monitor/http_server.hpp"
#include "monitor/pages.hpp"
#include "unit/monitor/served_loop.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <sstream>

namespace collab::monitor {
namespace {

constexpr std::uint64_t kTargetBatch = 4096;
constexpr std::uint64_t kFirstEpoch = 1200;

PeerId peer_id(std::size_t index) {
  PeerId id;
  for (std::size_t i = 0; i < id.key.size(); ++i)
    id.key[i] = static_cast<unsigned char>((index + 3) * (i * 37 + 11) * 7 + i);
  return id;
}

double loss_at(std::uint64_t epoch) {
  const auto at = static_cast<double>(epoch);
  return 5.1 * std::exp(-at / 300) + 3.2 + 0.03 * std::sin(at * 1.7);
}

class Swarm {
 public:
  explicit Swarm(test::ServedLoop& loop)
      : loop_(loop), events_(loop.executor(), loop.clock), changed_(loop.executor()) {
    for (std::uint64_t epoch = 1; epoch <= kFirstEpoch; ++epoch) note_losses(epoch, 4);
  }

  Task<> serve(std::uint16_t port);
  std::uint16_t port() const { return port_; }
  void obey(const std::string& line);

 private:
  SwarmView view() const;
  PeerView peer(std::size_t index) const;
  void note_losses(std::uint64_t epoch, std::size_t peers);
  void add_round();

  test::ServedLoop& loop_;
  Log log_;
  Metrics metrics_;
  Events events_;
  Rounds rounds_;
  LossHistory losses_;
  std::size_t peers_ = 0;
  std::uint64_t epoch_ = kFirstEpoch;
  bool open_ = true;
  Signal changed_;
  std::uint16_t port_ = 0;
};

Task<> Swarm::serve(std::uint16_t port) {
  using namespace asio::experimental::awaitable_operators;
  for (port_ = port;;) {
    HttpOptions options;
    options.listen.port = port_;
    HttpRoutes routes = api_routes({[this] { return view(); }, rounds_, events_, metrics_, loop_.clock, &losses_});
    add_pages(routes);
    {
      HttpServer server(loop_.executor(), loop_.clock, log_, std::move(routes), options);
      port_ = server.local().port;
      co_await (server.run() || changed_.wait());
    }
    while (!open_) co_await changed_.wait();
  }
}

PeerView Swarm::peer(std::size_t index) const {
  PeerView out;
  out.id = peer_id(index);
  out.name = index % 7 == 3 ? fmt::format("a-peer-with-quite-a-long-name-{}", index) : fmt::format("peer-{}", index);
  out.role = index % 5 == 2 ? "client" : "full";
  out.reachability = index % 5 == 2 ? "outbound_only" : "open";
  out.software = "collab-peer 0.1.0";
  out.epoch = index % 11 == 6 ? epoch_ - 1 : epoch_;
  out.samples = 100 + index;
  out.samples_per_s = 20 + 3.7 * static_cast<double>(index % 13);
  if (out.epoch == epoch_) out.hash_ok = index % 17 != 9;
  out.last_seen_s = 0.3 * static_cast<double>(index % 9);
  if (index % 3 != 1) {
    out.path = index % 5 == 2 ? "wss through a proxy" : index % 7 == 5 ? "tcp, punched" : "tcp";
    out.rtt_s = 0.004 * static_cast<double>(1 + index % 40);
    out.up_bytes_per_s = 1.1e6 * static_cast<double>(1 + index % 6);
    out.down_bytes_per_s = 0.9e6 * static_cast<double>(1 + index % 8);
  }
  return out;
}

SwarmView Swarm::view() const {
  SwarmView out;
  out.unix_ms = loop_.clock.unix_ms();
  out.run.run_id = "sahajbert";
  out.run.self = peer_id(1000);
  out.run.connected = true;
  out.run.epoch = peers_ == 0 ? 0 : epoch_;
  out.run.target_batch_samples = kTargetBatch;
  const std::string key = peer_id(2000).text();
  out.run.join_command = fmt::format("collab-peer --run-id sahajbert#{} --bootstrap host.example:4600", key);
  out.run.join_link = fmt::format("collab://host.example:4600/sahajbert?key={}", key);
  PeerView host;
  host.id = out.run.self;
  host.name = "coordinator";
  host.role = "coordinator";
  host.reachability = "open";
  host.software = "collab-coordinator 0.1.0";
  out.peers.push_back(host);
  for (std::size_t i = 0; i < peers_; ++i) {
    out.peers.push_back(peer(i));
    out.samples_per_s += out.peers.back().samples_per_s;
  }
  if (peers_ == 0) return out;
  out.run.samples = 2710;
  out.run.eta_s = static_cast<double>(kTargetBatch - out.run.samples) / out.samples_per_s;
  out.run.loss_train = loss_at(epoch_);
  out.run.checkpoint_age_s = 754;
  return out;
}

void Swarm::note_losses(std::uint64_t epoch, std::size_t peers) {
  for (std::size_t i = 0; i < peers; ++i)
    losses_.note_training(peer_id(i), epoch, loss_at(epoch) + 0.05 * std::sin(static_cast<double>(epoch * 3 + i * 5)));
  if (epoch % 100 == 0) losses_.note_heldout(peer_id(0), epoch, loss_at(epoch) + 0.15);
}

void Swarm::add_round() {
  RoundView round;
  round.told_by = peer_id(epoch_ % std::max<std::size_t>(1, peers_));
  round.epoch = epoch_;
  round.group = fmt::format("{:016x}{:048x}", epoch_ * 0x9e3779b97f4a7c15U, epoch_);
  const bool failed = epoch_ % 9 == 4;
  round.result = failed ? "failed" : "committed";
  if (failed) round.reason = "no_quorum";
  round.ended_unix_ms = loop_.clock.unix_ms();
  round.exchange_s = 0.31 + 0.02 * static_cast<double>(epoch_ % 7);
  round.commit_s = failed ? kUnknown : 0.06;
  round.apply_s = failed ? kUnknown : 0.04;
  for (std::size_t i = 0; i < std::min<std::size_t>(peers_, 64); ++i) {
    RoundMember member;
    member.id = peer_id(i);
    member.role = "node";
    member.samples = 900 + i;
    const bool out = epoch_ % 4 == 1 && i == 2;
    member.counted = out ? 0 : 1;
    if (out) member.left_out = "frozen";
    member.up_bytes = 1'250'000;
    member.down_bytes = 1'300'000;
    round.samples += member.samples;
    round.up_bytes += member.up_bytes;
    round.down_bytes += member.down_bytes;
    round.members.push_back(member);
  }
  rounds_.add(std::move(round));
}

void Swarm::obey(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "peers") {
    std::size_t wanted = 0;
    words >> wanted;
    for (; peers_ < wanted; ++peers_) events_.add({EventType::peer_joined, epoch_, peer_id(peers_), {}});
    for (; peers_ > wanted; --peers_) events_.add({EventType::peer_left, epoch_, peer_id(peers_ - 1), {}});
  } else if (word == "epoch") {
    add_round();
    ++epoch_;
    note_losses(epoch_, peers_);
    events_.add({EventType::epoch_finished, epoch_, {}, {{"loss", loss_at(epoch_)}}});
  } else if (word == "alert") {
    std::string text;
    std::getline(words >> std::ws, text);
    events_.add({EventType::alert, epoch_, {}, {{"text", text}}});
  } else if (word == "open" || word == "close") {
    open_ = word == "open";
    changed_.notify();
  } else {
    throw Failure(ExitCode::usage, "no command: " + line, "see the first lines of dashboard_probe.cpp");
  }
}

}  // namespace
}  // namespace collab::monitor

int main(int argc, char** argv) {
  using namespace collab;
  test::ServedLoop loop;
  monitor::Swarm swarm(loop);
  loop.serve(swarm.serve(argc > 1 ? static_cast<std::uint16_t>(std::stoul(argv[1])) : std::uint16_t(0)));
  loop.on_loop([] {});
  std::cout << "port " << swarm.port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    loop.on_loop([&] { swarm.obey(line); });
    std::cout << "done" << std::endl;
  }
  loop.stop();
}
