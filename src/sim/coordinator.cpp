#include "sim/coordinator.hpp"

#include "averaging/all_reduce.hpp"
#include "matchmaking/matchmaker.hpp"
#include "node/manifest.hpp"
#include "node/owner_limits.hpp"

#include <utility>

namespace collab::sim {
namespace {

constexpr std::size_t kNumber = 1'000'000;  // of its key; no peer has it

/// What is drawn in one life is not drawn again in the next: its directory's memory is another one.
std::string name_of(std::uint64_t life) {
  return life == 0 ? "coordinator" : "coordinator." + std::to_string(life);
}

}  // namespace

Identity Coordinator::identity(std::uint64_t seed, const SignatureScheme& scheme) {
  return Peer::identity_of(seed, kNumber, scheme);
}

Coordinator::Coordinator(const PeerNeeds& needs, Host& host, CoordinatorOptions options)
    : random_(Random(needs.seed).derive(name_of(options.life))), tasks_(needs.loop, rethrow) {
  Witness& witness = needs.witness;
  log_.observe(
      [&witness](LogLevel, std::string_view event, Log::Fields fields) { witness.coordinator_logged(event, fields); });
  const node::NodeNeeds node_needs{needs.loop, needs.loop, host.clock(), host,
                                   random_,    log_,       metrics_,     &needs.verified};
  node_ = std::make_unique<node::Node>(node_needs, identity(needs.seed, needs.scheme), std::move(options.node));
  node_->found(node::sign_manifest(identity(needs.seed), options.manifest));
  if (options.averages) make_auxiliary(needs, host);
}

void Coordinator::make_auxiliary(const PeerNeeds& needs, Host& host) {
  auto& endpoint = node_->endpoint();
  endpoint.allow_conversation(matchmaking::row());
  endpoint.allow_conversation(averaging::round_protocol());
  progress::TrackerOptions tracker_options;
  tracker_options.target_batch = needs.member.target_batch;
  const auto expelled = [&endpoint](const PeerId& peer) { return endpoint.expelled(peer); };
  const progress::Tracker::Needs tracker_needs{node_->directory(), host.clock(),  log_,      random_.derive("tracker"),
                                               needs.loop,         node_->self(), &metrics_, expelled};
  tracker_ = std::make_unique<progress::Tracker>(tracker_needs, tracker_options);
  const auto no_state = [](std::uint64_t) -> Task<Result<std::shared_ptr<const state::Snapshot>>> {
    co_return Errc::gone;
  };
  state::StoreOptions store;
  store.pass_on = state::pass_on_options(/*offered=*/true, node::share_for_others(host.caps().up.bytes_per_s));
  store_ = std::make_unique<state::Store>(endpoint, host.clock(), needs.loop, needs.loop, log_, no_state, store);
  epoch::MemberOptions member = needs.member;
  member.incarnation = static_cast<std::uint64_t>(host.clock().unix_ms());
  epoch::Auxiliary::Context context{endpoint, host.clock(), node_->directory(), *tracker_,
                                    log_,     metrics_,     node_->identity(),  needs.loop};
  context.is_needed = [this] { return tracker_->nobody_can_be_dialled(); };
  const auto on_round = [](std::uint64_t, boost::system::error_code) {};
  auxiliary_ = std::make_unique<epoch::Auxiliary>(context, std::move(member), on_round);
  endpoint.handle(averaging::counted_method(),
                  [this](PeerId from, Frame request, TimePoint /*deadline*/) -> Task<net::Answer> {
                    co_return auxiliary_->was_counted(from, request);
                  });
}

void Coordinator::start() {
  tasks_.spawn("coordinator", node_->run());
  if (!auxiliary_) return;
  tasks_.spawn("progress", tracker_->run());
  tasks_.spawn("state", store_->run());
  tasks_.spawn("auxiliary", auxiliary_->run());
}

Task<> Coordinator::kill() {
  co_await tasks_.stop();
  if (auxiliary_) co_await auxiliary_->stop();
}

}  // namespace collab::sim
