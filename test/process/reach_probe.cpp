// reach_probe RUN@AT LISTEN HOME [--lease SECONDS] [--look SECONDS] [--wss PORT] [--no-port-map]: joins a run without
// training and tells, a JSON line each, how others reach it. Reads "dial ADDR", "call ID" and "leave" from stdin; its
// end means leave. For lab_test.py.

#include "base/frame.hpp"
#include "cli/program.hpp"
#include "nat/explain.hpp"
#include "nat/wire.hpp"
#include "net/tcp.hpp"
#include "node/node.hpp"
#include "node/runtime.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace collab {
namespace {

using namespace std::chrono_literals;

struct Wish {
  node::NodeOptions options;
  bool port_map = true;
};

Wish parse(int argc, char** argv) {
  if (argc < 4) throw Failure(ExitCode::usage, "too few words", "RUN@AT LISTEN HOME");
  Wish wish;
  const std::string place = argv[1];
  const auto at = place.find('@');
  wish.options.run.run_id = place.substr(0, at);
  wish.options.bootstrap.push_back(node::parse_peer_address(place.substr(at + 1)));
  wish.options.listen = net::parse_address(argv[2], true).value();
  wish.options.home = argv[3];
  wish.options.loopback_port = 0;
  for (int i = 4; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--no-port-map") wish.port_map = false;
    if (i + 1 == argc || word == "--no-port-map") continue;
    const int number = std::stoi(argv[++i]);
    const auto length = std::chrono::seconds(number);
    if (word == "--wss") wish.options.wss_port = static_cast<std::uint16_t>(number);
    if (word == "--lease") wish.options.port_mapping.lease = length;
    if (word == "--look") wish.options.port_mapping.look = length;
  }
  if (wish.port_map) node::ask_own_router(wish.options);
  return wish;
}

class Probe {
 public:
  Probe(node::NodeOptions options, std::uint64_t seed) : network_(runtime_.loop(), runtime_.clock()) {
    const auto home = options.home;
    const node::NodeNeeds needs{runtime_.loop(), runtime_.workers(), runtime_.clock(), network_, Random(seed), log_,
                                metrics_};
    Identity identity = Identity::load_or_create(home / "identity.key");
    runtime_.on_loop([&] { node_ = std::make_unique<node::Node>(needs, std::move(identity), std::move(options)); });
  }
  ~Probe() {
    if (tasks_) runtime_.call(tasks_->stop());
    runtime_.on_loop([this] {
      tasks_.reset();
      node_.reset();
    });
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void run() {
    const auto joined = runtime_.call(node_->join(runtime_.clock().now() + 10s));
    if (!joined) throw Failure(ExitCode::unreachable, joined.error().reason, "look at the lab");
    runtime_.on_loop([this] {
      tasks_ = std::make_unique<TaskGroup>(runtime_.loop(), rethrow);
      tasks_->spawn("node", node_->run());
      tasks_->spawn("ticks", tick());
    });
    tell({{"event", "joined"}, {"ms", ms_since(start_)}, {"id", node_->self().text()}});
    std::thread reader([this] { read(); });
    while (!leave_) {
      tell_if_changed();
      std::this_thread::sleep_for(10ms);
    }
    reader.join();
    const TimePoint before = runtime_.clock().now();
    runtime_.call(node_->leave());
    tell({{"event", "left"}, {"ms", ms_since(before)}, {"blocked_ms", blocked_ms_.load()}});
  }

 private:
  static std::int64_t ms_between(TimePoint from, TimePoint to) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
  }
  std::int64_t ms_since(TimePoint when) { return ms_between(when, runtime_.clock().now()); }
  static void tell(const nlohmann::json& what) { std::cout << what.dump() << std::endl; }

  /// How long the loop ever kept somebody waiting.
  Task<> tick() {
    for (;;) {
      const TimePoint before = runtime_.clock().now();
      co_await runtime_.clock().sleep_until(before + 5ms);
      blocked_ms_ = std::max(blocked_ms_.load(), ms_since(before + 5ms));
    }
  }

  nlohmann::json look() {
    nlohmann::json now;
    runtime_.on_loop([&] {
      using Phase = nat::MappingStatus::Phase;
      constexpr std::array<const char*, 5> kPhases = {"off", "no_router", "asking", "mapped", "refused"};
      const nat::Reachability& reach = node_->reachability();
      const nat::MappingStatus& status = node_->port_mapping().status();
      now["state"] = nat::name(reach.state());
      now["mapping"] = nat::name(node_->mapping().kind);
      now["phase"] = kPhases.at(static_cast<std::size_t>(status.phase));
      now["addresses"] = nlohmann::json::array();
      for (const net::Address& address : reach.addresses()) now["addresses"].push_back(net::to_string(address));
      now["relays"] = nlohmann::json::array();
      for (const net::Address& address : node_->relays()) now["relays"].push_back(net::to_string(address));
      if (status.mapping) {
        now["by"] = nat::name(status.mapping->by);
        now["outside"] = fmt::format("{}:{}", status.mapping->outside_host, status.mapping->outside_port);
        now["lease_s"] = status.mapping->lease_s;
      }
      if (status.phase == Phase::refused) now["trials"] = nat::describe(status.trials);
      if (nat::only_dials(reach.state())) {
        const std::string seen = node_->endpoint().observed_host().value_or(std::string());
        const auto listening = node_->endpoint().listening();
        const nat::Explanation why = nat::explain_unreachable(status, listening.front().port, seen);
        now["why"] = why.why;
        now["remedy"] = why.remedy;
      }
      now["published_relays"] = nlohmann::json::object();
      for (const node::Member& member : node_->members())
        now["published_relays"][member.peer.text()] = member.record.relays.size();
      now["published"] = nlohmann::json::object();
      for (const node::Member& member : node_->members()) {
        auto& listen = now["published"][member.peer.text()] = nlohmann::json::array();
        if (!member.record.reachable) continue;
        for (const net::Address& address : member.record.listen) listen.push_back(net::to_string(address));
      }
    });
    return now;
  }
  void tell_if_changed() {
    nlohmann::json now = look();
    if (now == told_) return;
    told_ = now;
    now["event"] = "reach";
    now["ms"] = ms_since(start_);
    tell(now);
  }
  Task<boost::system::result<PeerId, Refusal>> dial(net::Address at) {
    return node_->endpoint().connect(std::move(at), runtime_.clock().now() + 5s);
  }
  /// Any question will do.
  Task<net::LinkState> call(PeerId peer, bool& answered) {
    net::PeerEndpoint& endpoint = node_->endpoint();
    const Frame question = frame::encode(nat::wire::Header(nat::wire::DialBack()));
    const auto answer = co_await endpoint.call(peer, "nat.dial_back", question, runtime_.clock().now() + 5s);
    answered = answer || answer.error().code == Errc::busy;  // it is of the peer itself
    co_return endpoint.link(peer);
  }
  void call(const std::string& peer) {
    const TimePoint began = runtime_.clock().now();
    bool answered = false;
    const net::LinkState link = runtime_.call(call(PeerId::parse(peer).value(), answered));
    tell({{"event", "called"}, {"peer", peer}, {"answered", answered}, {"path", link.path}, {"ms", ms_since(began)}});
  }
  void read() {
    for (std::string line; std::getline(std::cin, line) && line != "leave";) {
      if (line.starts_with("call ")) call(line.substr(5));
      if (!line.starts_with("dial ")) continue;
      const auto met = runtime_.call(dial(net::parse_address(line.substr(5)).value()));
      tell({{"event", "dialled"}, {"at", line.substr(5)}, {"peer", met ? met->text() : met.error().reason}});
    }
    leave_ = true;
  }

  node::Runtime runtime_;
  const TimePoint start_ = runtime_.clock().now();
  net::TcpNetwork network_;
  Log log_{Log::Options{LogLevel::debug, {}, 5'000'000, 10, {}}};
  Metrics metrics_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<TaskGroup> tasks_;
  std::atomic<bool> leave_ = false;
  std::atomic<std::int64_t> blocked_ms_ = 0;
  nlohmann::json told_;
};

int probe(int argc, char** argv) {
  Wish wish = parse(argc, argv);
  std::random_device seed;
  Probe(std::move(wish.options), seed()).run();
  return 0;
}

}  // namespace
}  // namespace collab

int main(int argc, char** argv) {
  return collab::cli::run_program("reach_probe", [&] { return collab::probe(argc, argv); });
}
