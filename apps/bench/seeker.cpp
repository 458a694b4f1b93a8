#include "seeker.hpp"

#include "averaging/load_balance.hpp"
#include "directory/peer_record.hpp"
#include "tensor/partition.hpp"

#include <fmt/format.h>

#include <utility>

namespace collab::bench {
namespace {

constexpr std::size_t kValues = 64 * kUnitValues;
constexpr Duration kSearchTime = std::chrono::seconds(20);

directory::ServerOptions server_options(const Seeker::Needs& needs) {
  directory::ServerOptions options;
  options.storage.rules.run = "bench";
  options.bootstrap.push_back(needs.bootstrap);
  return options;
}

matchmaking::Plan plan_units(const std::vector<matchmaking::Applicant>& roster, std::uint32_t /*round*/) {
  averaging::LoadOptions options;
  options.segment_units_min = 1;
  const std::vector<averaging::MemberLoad> loads(roster.size());
  matchmaking::Plan plan;
  plan.units = averaging::plan_load(loads, kValues, options).value().units;
  plan.chunk_units = chunk_units_for(plan.units);
  return plan;
}

matchmaking::MatchmakerOptions matchmaker_options() {
  matchmaking::MatchmakerOptions options;
  options.key = "bench/group";
  options.values = kValues;
  options.plan = plan_units;
  options.weight_max = [](const PeerId&) { return std::uint64_t(1); };
  return options;
}

}  // namespace

Seeker::Seeker(const Needs& needs, std::uint64_t seed)
    : needs_(needs),
      server_(needs.net, needs.clock, Random(seed), needs.log, needs.loop, server_options(needs)),
      directory_(needs.net, needs.clock, Random(seed + 1), needs.log, needs.loop, needs.loop, needs.identity, server_,
                 contacts_, {}),
      matchmaker_({needs.net, needs.clock, directory_, needs.log}, matchmaker_options()) {
  needs_.net.allow_conversation(matchmaking::row());
}

void Seeker::start(TaskGroup& tasks, const net::Address& listens) {
  directory::PeerRecord me;
  me.listen.push_back(listens);
  me.reachable = true;
  me.directory = needs_.identity.id() == needs_.bootstrap;
  directory_.publish("peer", "", directory::encode(me).value(), std::chrono::seconds(30));
  tasks.spawn("directory.server", server_.run());
  tasks.spawn("directory", directory_.run());
}

Task<Result<matchmaking::Group>> Seeker::find_group(std::uint64_t round) {
  matchmaking::Wanted wanted;
  wanted.key = fmt::format("bench/group {}", round);  // nobody stands together from the round before
  wanted.epoch = round;
  wanted.target_samples = needs_.peers;
  wanted.group_size_max = needs_.peers;
  wanted.electorate = needs_.peers;
  wanted.deadline = needs_.clock.now() + kSearchTime;
  matchmaker_.samples(round, 1);
  co_return co_await matchmaker_.find_group(std::move(wanted));
}

}  // namespace collab::bench
