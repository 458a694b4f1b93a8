#include "directory.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/program.hpp"
#include "directory/peer_record.hpp"
#include "directory/swarm_directory.hpp"
#include "options.hpp"
#include "sim/call_network.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <memory>
#include <set>
#include <vector>

namespace collab::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kRun = "measured";
constexpr std::size_t kKnownAtStart = 48;  // others whose records a node begins with: enough for the second form
constexpr std::size_t kPerOwnerMax = 59;   // records, beside that of the node itself; a publisher has 60
constexpr std::size_t kValueBytes = 200;
constexpr Duration kTtl = 100s;
constexpr Duration kSettle = 30s;  // for the routing tables
constexpr Duration kIdle = 5s;     // of which the cost of doing nothing is measured, each time before it is taken off
constexpr Duration kRepair = 50s;  // a third of the time to live, and the look-ups
constexpr Duration kGetTimeout = 20s;

struct DirectorySetup {
  std::uint64_t seed = 1;
  std::size_t nodes = 0;
  std::size_t records = 0;
  double gone = 0;
};

std::string key_of(std::size_t record) {
  return fmt::format("record/{}", record);
}

Identity identity_of(std::size_t number) {
  Identity::Seed seed{};
  for (std::size_t i = 0; i < 8; ++i) seed[i] = static_cast<unsigned char>(number >> (8 * i));
  return Identity::generate(seed);
}

/// One node: all of the production directory, on a network of calls.
struct DirectoryPeer {
  DirectoryPeer(Simulation& world, CallNetwork& network, const DirectorySetup& setup, std::size_t number)
      : identity(identity_of(number)),
        endpoint(network.add_peer(identity.id())),
        random(Random(setup.seed).derive(fmt::format("node {}", number))),
        server(endpoint, world.clock(), random.derive("server"), log, world.executor(), options(world)),
        directory(endpoint, world.clock(), random.derive("directory"), log, world.executor(), world.executor(),
                  identity, server, contacts, directory::SwarmDirectoryOptions()),
        tasks(world.executor(), rethrow) {
    directory::PeerRecord me;
    me.listen.push_back({fmt::format("10.{}.{}.{}", number >> 16U, (number >> 8U) & 255U, number & 255U), 4600});
    me.reachable = true;
    directory.publish(std::string(directory::kPeerKey), "", *encode(me), kTtl);
  }

  static directory::ServerOptions options(Simulation& world) {
    directory::ServerOptions options;
    options.storage.rules.run = kRun;
    options.unix_ms = [&world] { return world.clock().unix_ms(); };
    return options;
  }

  void start() {
    tasks.spawn("server", server.run());
    tasks.spawn("directory", directory.run());
  }

  Identity identity;
  net::Endpoint& endpoint;
  Random random;
  Log log;
  directory::Contacts contacts;
  directory::Server server;
  directory::SwarmDirectory directory;
  TaskGroup tasks;
  bool alive = true;
};

/// What one phase cost, all nodes together.
struct Cost {
  double cpu_s = 0;
  double virtual_s = 0;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  directory::Router::Totals look_ups;
};

struct Gets {
  Cost cost;
  std::size_t asked = 0;
  std::size_t found = 0;
  std::size_t of_living = 0;  ///< records whose owner is alive
  std::size_t of_living_found = 0;
  std::size_t kept = 0;  ///< at one at least of the nodes that were to keep them and live
  std::size_t kept_found = 0;
};

class DirectoryBench {
 public:
  explicit DirectoryBench(const DirectorySetup& setup)
      : setup_(setup), random_(Random(setup.seed).derive("bench")), network_(world_, setup.seed, 5ms, 40ms) {
    world_.events_max = 2'000'000'000;
    for (std::size_t i = 0; i < setup.nodes; ++i)
      peers_.push_back(std::make_unique<DirectoryPeer>(world_, network_, setup, i + 1));
  }

  nlohmann::json run() {
    world_.run(scenario());
    return std::move(out_);
  }

 private:
  Task<> sleep(Duration length) { return world_.clock().sleep_until(world_.clock().now() + length); }

  /// Everybody has heard of some, at random: as after an hour in a swarm, or from contacts on disk.
  void acquaint() {
    for (const auto& peer : peers_) {
      for (std::size_t i = 0; i < std::min(kKnownAtStart, peers_.size()); ++i) {
        const DirectoryPeer& other = *peers_[random_.below(peers_.size())];
        if (const directory::SignedRecord* record = other.server.own_record())
          (void)peer->server.accept(*record, directory::Storage::Source::read);
      }
    }
  }

  Cost reading() const {
    Cost now;
    now.cpu_s = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    now.virtual_s = to_seconds(world_.clock().now().time_since_epoch());
    now.calls = network_.calls();
    now.bytes = network_.bytes();
    for (const auto& peer : peers_) {
      const auto& totals = const_cast<DirectoryPeer&>(*peer).directory.router().totals();
      now.look_ups.look_ups += totals.look_ups;
      now.look_ups.asked += totals.asked;
      now.look_ups.hops += totals.hops;
    }
    return now;
  }

  Cost since(const Cost& start) const {
    Cost cost = reading();
    cost.cpu_s -= start.cpu_s;
    cost.virtual_s -= start.virtual_s;
    cost.calls -= start.calls;
    cost.bytes -= start.bytes;
    cost.look_ups.look_ups -= start.look_ups.look_ups;
    cost.look_ups.asked -= start.look_ups.asked;
    cost.look_ups.hops -= start.look_ups.hops;
    return cost;
  }

  DirectoryPeer& owner_of(std::size_t record) { return *peers_[record % peers_.size()]; }

  void publish_all() {
    for (std::size_t i = 0; i < setup_.records; ++i) {
      Bytes value(kValueBytes, std::byte(static_cast<unsigned char>(i)));
      if (owner_of(i).alive) owner_of(i).directory.publish(key_of(i), "", std::move(value), kTtl);
    }
  }

  Task<> read_some(std::vector<std::size_t> records, DirectoryPeer& reader, Gets& gets) {
    for (const std::size_t record : records) {
      const TimePoint deadline = world_.clock().now() + kGetTimeout;
      const auto got = co_await reader.directory.get(key_of(record), deadline);
      const bool found = got && got->size() == 1 && got->front().owner == owner_of(record).identity.id();
      ++gets.asked;
      gets.found += found ? 1 : 0;
      gets.of_living += owner_of(record).alive ? 1 : 0;
      gets.of_living_found += owner_of(record).alive && found ? 1 : 0;
      gets.kept += kept_[record] ? 1 : 0;
      gets.kept_found += kept_[record] && found ? 1 : 0;
    }
  }

  /// Every record once, each by a living node that has none of it; all nodes at the same time.
  Task<Gets> get_all() {
    std::vector<std::vector<std::size_t>> reads(peers_.size());
    for (std::size_t record = 0; record < setup_.records; ++record) {
      std::size_t reader = random_.below(peers_.size());
      const auto is_unfit = [&](const DirectoryPeer& peer) { return !peer.alive || has(peer, record); };
      for (std::size_t i = 0; i < peers_.size() && is_unfit(*peers_[reader]); ++i)
        reader = (reader + 1) % peers_.size();
      reads[reader].push_back(record);
    }
    kept_ = kept_now();
    Gets gets;
    const Cost start = reading();
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      for (std::size_t i = 0; i < peers_.size(); ++i)
        tasks.spawn("reads", read_some(std::move(reads[i]), *peers_[i], gets));
      co_await tasks.join();
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
    gets.cost = since(start);
    co_return gets;
  }

  /// The nodes nearest to the key of a record.
  std::vector<const DirectoryPeer*> nearest(std::size_t record, bool living_only) const {
    const directory::Place place = directory::place_of(kRun, key_of(record));
    std::vector<const DirectoryPeer*> nearest;
    for (const auto& peer : peers_)
      if (peer->alive || !living_only) nearest.push_back(peer.get());
    const auto closer = [&](const auto* a, const auto* b) {
      return directory::nearer(place, a->server.table().place(), b->server.table().place());
    };
    const std::size_t count = std::min<std::size_t>(directory::RoutingOptions().replicas, nearest.size());
    std::partial_sort(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(count), nearest.end(), closer);
    nearest.resize(count);
    return nearest;
  }

  static bool has(const DirectoryPeer& peer, std::size_t record) {
    return !peer.server.storage().records(key_of(record), peer.server.unix_ms()).empty();
  }

  /// At how many of the living nodes nearest to its key a record of a living owner lies, on average.
  double replicas() const {
    std::size_t all = 0;
    std::size_t kept = 0;
    for (std::size_t record = 0; record < setup_.records; ++record) {
      if (!peers_[record % peers_.size()]->alive) continue;
      for (const DirectoryPeer* peer : nearest(record, true)) kept += has(*peer, record) ? 1 : 0;
      ++all;
    }
    return all == 0 ? 0 : static_cast<double>(kept) / static_cast<double>(all);
  }

  /// Which records a living node keeps, of those that were the nearest when all lived, or are now.
  std::vector<bool> kept_now() const {
    std::vector<bool> kept(setup_.records);
    for (std::size_t record = 0; record < setup_.records; ++record) {
      for (const bool living_only : {false, true})
        for (const DirectoryPeer* peer : nearest(record, living_only))
          if (peer->alive && has(*peer, record)) kept[record] = true;
    }
    return kept;
  }

  nlohmann::json json_of(const Gets& gets) const {
    const auto asked = static_cast<double>(gets.asked);
    const auto look_ups = static_cast<double>(std::max<std::uint64_t>(1, gets.cost.look_ups.look_ups));
    const double idle_s = idle_cpu_per_s_ * gets.cost.virtual_s;
    return {{"found_share", static_cast<double>(gets.found) / asked},
            {"found_share_of_living_owners",
             gets.of_living == 0 ? 1 : static_cast<double>(gets.of_living_found) / static_cast<double>(gets.of_living)},
            {"found_share_of_kept",
             gets.kept == 0 ? 1 : static_cast<double>(gets.kept_found) / static_cast<double>(gets.kept)},
            {"kept_share", static_cast<double>(gets.kept) / asked},
            {"cpu_ms_per_get", 1000 * (gets.cost.cpu_s - idle_s) / asked},
            {"cpu_ms_per_get_with_upkeep", 1000 * gets.cost.cpu_s / asked},
            {"asked_per_look_up", static_cast<double>(gets.cost.look_ups.asked) / look_ups},
            {"hops_per_look_up", static_cast<double>(gets.cost.look_ups.hops) / look_ups},
            {"virtual_s", gets.cost.virtual_s}};
  }

  /// Renewals and look-ups of what is stored by then are part of it.
  Task<> measure_idle(std::string name) {
    const Cost start = reading();
    co_await sleep(kIdle);
    const Cost idle = since(start);
    idle_cpu_per_s_ = idle.cpu_s / idle.virtual_s;
    const auto living = std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->alive; });
    const double node_seconds = idle.virtual_s * static_cast<double>(living);
    out_[name] = {{"cpu_ms_per_node_second", 1000 * idle.cpu_s / node_seconds},
                  {"calls_per_node_second", static_cast<double>(idle.calls) / node_seconds},
                  {"bytes_per_node_second", static_cast<double>(idle.bytes) / node_seconds}};
  }

  Task<> measure_store() {
    const Cost start = reading();
    publish_all();
    co_await sleep(kStoreTime);
    const Cost cost = since(start);
    const auto records = static_cast<double>(setup_.records);
    out_["store"] = {{"cpu_ms_per_store", 1000 * (cost.cpu_s - idle_cpu_per_s_ * cost.virtual_s) / records},
                     {"cpu_ms_per_store_with_upkeep", 1000 * cost.cpu_s / records},
                     {"calls_per_store", static_cast<double>(cost.calls) / records},
                     {"bytes_per_store", static_cast<double>(cost.bytes) / records},
                     {"replicas_mean", replicas()},
                     {"virtual_s", cost.virtual_s}};
  }

  Task<> kill_some() {
    const auto count = static_cast<std::size_t>(setup_.gone * static_cast<double>(peers_.size()));
    for (std::size_t dead = 0; dead < count;) {
      DirectoryPeer& victim = *peers_[random_.below(peers_.size())];
      if (!victim.alive) continue;
      victim.alive = false;
      network_.kill(victim.identity.id());
      co_await victim.tasks.stop();
      ++dead;
    }
  }

  Task<> scenario() {
    acquaint();
    for (const auto& peer : peers_) peer->start();
    co_await sleep(kSettle);
    std::size_t routed = 0;
    for (const auto& peer : peers_) routed += peer->server.form() == directory::Form::routed ? 1 : 0;
    out_["nodes_of_second_form"] = routed;
    co_await measure_idle("upkeep");
    co_await measure_store();
    co_await measure_idle("upkeep_with_records");
    const Gets before = co_await get_all();
    out_["get"] = json_of(before);
    all_found_ = before.found == before.asked;
    if (setup_.gone > 0) {
      co_await kill_some();
      const Gets at_once = co_await get_all();
      out_["get_after_deaths"] = json_of(at_once);
      all_found_ = all_found_ && at_once.kept_found == at_once.kept;
      out_["replicas_after_deaths"] = replicas();
      co_await sleep(kRepair);
      co_await measure_idle("upkeep_after_repair");
      const Gets later = co_await get_all();
      out_["get_after_repair"] = json_of(later);
      out_["replicas_after_repair"] = replicas();
      all_found_ = all_found_ && later.of_living_found == later.of_living;
    }
    out_["all_found"] = all_found_;
    for (const auto& peer : peers_) co_await peer->tasks.stop();
  }

  static constexpr Duration kStoreTime = 5s;

  DirectorySetup setup_;
  Random random_;
  Simulation world_;
  CallNetwork network_;
  std::vector<std::unique_ptr<DirectoryPeer>> peers_;
  nlohmann::json out_;
  std::vector<bool> kept_;  ///< when a phase of reading began
  double idle_cpu_per_s_ = 0;
  bool all_found_ = false;
};

DirectorySetup read_directory_setup(const node::Config& config) {
  DirectorySetup setup;
  setup.seed = static_cast<std::uint64_t>(config.number("seed"));
  setup.nodes = static_cast<std::size_t>(config.number("nodes"));
  setup.records = static_cast<std::size_t>(config.number("records"));
  setup.gone = config.real("gone");
  if (setup.records > kPerOwnerMax * setup.nodes)
    refuse(fmt::format("an owner has at most {} records", kPerOwnerMax), "fewer --records, or more --nodes");
  return setup;
}

}  // namespace

int run_directory(const node::Config& config, const std::string& command) {
  const DirectorySetup setup = read_directory_setup(config);
  DirectoryBench bench(setup);
  nlohmann::json out = bench.run();
  out["workload"] = "directory";
  out["command"] = fmt::format("{} --seed {}", command, setup.seed);
  out["configuration"] = {{"nodes", setup.nodes}, {"records", setup.records}, {"gone", setup.gone}};
  out["counted"] =
      "CPU time of the process for all nodes together: making and checking of signatures by owner, storers and reader, "
      "encoding and decoding of messages, look-ups, the simulator's loop. Not: TLS, sockets. cpu_ms_per_store and _get "
      "are without the upkeep of the routing tables, which is told beside them";
  const std::string json = config.has("json") ? config.text("json") : "";
  if (json == "-") {
    fmt::print("{}\n", out.dump());
  } else {
    if (!config.toggle("quiet")) fmt::print("{}\n", out.dump(1));
    if (!json.empty()) write_file(json, out.dump(1) + "\n");
  }
  return out["all_found"].get<bool>() ? 0 : 1;
}

}  // namespace collab::sim
