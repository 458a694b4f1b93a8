#pragma once
// A swarm that looks for groups: real matchmakers over simulated messages, and a round that only counts who came.

#include "matchmaking/matchmaker.hpp"
#include "sim/simulation.hpp"
#include "support/message_network.hpp"
#include "support/notice_board.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace collab::test {

using namespace std::chrono_literals;

inline constexpr std::size_t kUnits = 256;
inline constexpr std::size_t kValues = kUnits * 4096;
inline constexpr std::uint64_t kTarget = 1000;

/// Equal shares for whoever can be dialled.
inline matchmaking::Plan equal_plan(const std::vector<matchmaking::Applicant>& roster, std::uint32_t /*round*/) {
  matchmaking::Plan plan;
  plan.units.assign(roster.size(), 0);
  std::vector<std::size_t> owners;
  for (std::size_t rank = 0; rank < roster.size(); ++rank) {
    if (roster[rank].role != matchmaking::Role::client) owners.push_back(rank);
  }
  for (std::size_t unit = 0; unit < kUnits; ++unit) ++plan.units[owners[unit % owners.size()]];
  plan.chunk_units = 1;
  return plan;
}

class MatchmakingSwarm {
 public:
  struct Found {
    Result<matchmaking::Group> group = matchmaking::NoGroup::late;
    TimePoint at{};
  };

  MatchmakingSwarm(unsigned peers, std::uint64_t seed, Duration board_delay = 30ms)
      : count(peers), net(world, seed, LinkOptions()), board(world, board_delay) {}
  ~MatchmakingSwarm() {
    const auto stop = [this]() -> Task<> {
      for (auto& [number, one] : matchmakers) co_await one->stop();
    };
    world.run(stop());
  }

  matchmaking::MatchmakerOptions options() const {
    matchmaking::MatchmakerOptions result;
    result.key = "run/gradients/0/-";
    result.schema[0] = 1;
    result.codec_map[0] = 2;
    result.values = kValues;
    result.plan = equal_plan;
    result.weight_max = [](const PeerId&) { return kTarget; };
    return result;
  }
  matchmaking::Matchmaker& add(unsigned number) { return add(number, options()); }
  matchmaking::Matchmaker& add(unsigned number, matchmaking::MatchmakerOptions options) {
    const PeerId id = peer(number);
    matchmaking::Context context{net.add_peer(id), world.clock(), board.view_of(id), log};
    auto made = std::make_unique<matchmaking::Matchmaker>(context, std::move(options));
    return *matchmakers.emplace(number, std::move(made)).first->second;
  }
  void add_all() {
    for (unsigned i = 0; i < count; ++i) add(i);
  }

  matchmaking::Wanted wanted(std::uint64_t epoch, Duration patience = 10s) {
    matchmaking::Wanted result;
    result.epoch = epoch;
    result.target_samples = kTarget;
    result.weight_min = kTarget / 2;
    result.electorate = count;
    result.deadline = world.clock().now() + patience;
    return result;
  }

  /// One search of one peer; `found` keeps what came out.
  Task<> find(unsigned number, matchmaking::Wanted wanted) {
    auto group = co_await matchmakers.at(number)->find_group(wanted);
    found[number].group = std::move(group);
    found[number].at = world.clock().now();
  }
  /// All of `numbers` search at once, each with an equal share of the target.
  Task<> find_all(std::vector<unsigned> numbers, std::uint64_t epoch, bool full = true) {
    TaskGroup tasks(world.executor(), rethrow);
    for (const unsigned number : numbers) {
      tasks.spawn("find", find(number, wanted(epoch)));
      if (full) matchmakers.at(number)->samples(epoch, kTarget / numbers.size() + 1);
    }
    co_await tasks.join();
  }
  void commit_all(const std::vector<unsigned>& numbers) {
    for (const unsigned number : numbers) matchmakers.at(number)->committed(*found.at(number).group, ~std::uint64_t(0));
  }
  std::vector<unsigned> everybody() const {
    std::vector<unsigned> numbers;
    for (unsigned i = 0; i < count; ++i) numbers.push_back(i);
    return numbers;
  }
  /// Of `numbers`, the one with the smallest place in the epoch.
  unsigned leader_of(std::uint64_t epoch, const std::vector<unsigned>& numbers) const {
    const std::string key = options().key;
    const auto smaller = [&](unsigned a, unsigned b) {
      return matchmaking::place(key, epoch, 1, peer(a)) < matchmaking::place(key, epoch, 1, peer(b));
    };
    return *std::min_element(numbers.begin(), numbers.end(), smaller);
  }

  unsigned count;
  sim::Simulation world;
  MessageNetwork net;
  NoticeBoard board;
  Log log;
  std::map<unsigned, std::unique_ptr<matchmaking::Matchmaker>> matchmakers;
  std::map<unsigned, Found> found;
};

/// Peers that live through epochs: they gather samples, look for a group, and "commit" it when more than half of its
/// roster came. Who was not among them hears of the new epoch, as from a tracker, and gives up its search.
class SwarmLife {
 public:
  explicit SwarmLife(unsigned count, std::uint64_t seed)
      : swarm(count, seed), moved_(swarm.world.executor()), random_(seed) {
    swarm.add_all();
  }

  Task<> live(unsigned number, std::uint64_t epochs) {
    std::uint64_t epoch = global_epoch();
    while (global_epoch() < epochs && !dead_.contains(number)) {
      epoch = global_epoch();
      auto group = co_await search(number, epoch);
      if (dead_.contains(number) || global_epoch() != epoch) continue;
      const bool made = group && co_await round(number, *group);
      if (made || global_epoch() != epoch) continue;
      co_await sleep(500ms);
    }
  }
  void kill(unsigned number) {
    dead_.insert(number);
    swarm.net.kill(peer(number));
  }
  Task<> sleep(Duration duration) { return swarm.world.clock().sleep_until(swarm.world.clock().now() + duration); }

  std::uint64_t global_epoch() const { return committed_.empty() ? 0 : committed_.rbegin()->first + 1; }
  /// Epochs in which two groups had enough members to commit.
  std::size_t committed_twice() const {
    const auto twice = [](const auto& entry) { return entry.second.size() > 1; };
    return static_cast<std::size_t>(std::count_if(committed_.begin(), committed_.end(), twice));
  }
  std::uint64_t first_group_with(unsigned number) const {
    for (const auto& [epoch, groups] : committed_) {
      for (const auto& [id, group] : groups) {
        if (group.rank_of(peer(number))) return epoch;
      }
    }
    return ~std::uint64_t(0);
  }

  MatchmakingSwarm swarm;
  std::uint64_t joined_at = 0;

 private:
  Task<Result<matchmaking::Group>> search(unsigned number, std::uint64_t epoch) {
    using namespace asio::experimental::awaitable_operators;
    matchmaking::Wanted wanted = swarm.wanted(epoch, 5s);
    auto found = co_await (train(number, epoch) || swarm.matchmakers.at(number)->find_group(wanted));
    if (found.index() == 0) co_return matchmaking::NoGroup::begun;
    co_return std::get<1>(std::move(found));
  }
  /// Until the epoch is over.
  Task<> train(unsigned number, std::uint64_t epoch) {
    std::uint64_t samples = 0;
    while (global_epoch() == epoch) {
      swarm.matchmakers.at(number)->samples(epoch, samples);
      samples += 2 * kTarget / swarm.count / 5;
      const Duration microbatch = std::chrono::microseconds(40'000 + random_.below(20'000));
      co_await moved_.wait_until(swarm.world.clock(), swarm.world.clock().now() + microbatch);
    }
  }
  /// Whether it committed; decided once for all its members, who hold it from then on.
  Task<bool> round(unsigned number, matchmaking::Group group) {
    std::set<unsigned>& here = here_[group.id];
    here.insert(number);
    co_await sleep(150ms);
    const auto decided = decided_.try_emplace(group.id, false);
    if (decided.second) {
      std::size_t live = 0;
      for (const unsigned member : here) live += dead_.contains(member) ? 0 : 1;
      decided.first->second = 2 * live > group.roster.size();
      if (decided.first->second) {
        committed_[group.epoch].emplace(group.id, group);
        moved_.notify();
      }
    }
    if (!decided.first->second) co_return false;
    std::uint64_t held = 0;
    for (std::size_t rank = 0; rank < group.roster.size(); ++rank) {
      for (const unsigned member : here_[group.id]) {
        if (group.roster[rank].id == peer(member)) held |= std::uint64_t(1) << rank;
      }
    }
    swarm.matchmakers.at(number)->committed(group, held);
    co_return true;
  }

  Signal moved_;
  Random random_;
  std::set<unsigned> dead_;
  std::map<matchmaking::GroupId, std::set<unsigned>> here_;
  std::map<matchmaking::GroupId, bool> decided_;
  std::map<std::uint64_t, std::map<matchmaking::GroupId, matchmaking::Group>> committed_;
};

}  // namespace collab::test
