#include "jobs/peer_status.hpp"

#include "directory/peer_record.hpp"
#include "epoch/member.hpp"
#include "monitor/swarm_facts.hpp"
#include "optim/parts.hpp"

namespace collab::jobs {

PeerStatus::PeerStatus(optim::Collaboration& run) : run_(run) {
  auto& parts = run_.parts();
  parts.runtime.on_loop([&] {
    members_ = parts.node->directory().watch(std::string(directory::kPeerKey));
    members_->relax(directory::kMembersPace);
    events_ = std::make_unique<monitor::Events>(parts.runtime.loop(), parts.runtime.clock());
    const monitor::Watched watched{[this] { return view(); }, rounds_, *events_, parts.metrics, parts.runtime.clock()};
    const monitor::StatusCommands commands{[watched] { return monitor::current_state_json(watched); },
                                           [this] { asked_to_leave_ = true; }};
    socket_ = std::make_unique<monitor::StatusSocket>(parts.runtime.loop(), parts.runtime.clock(), parts.log,
                                                      parts.home, commands);
    const auto on_failure = [&parts](std::string_view task, std::exception_ptr what) {
      parts.fail(task, std::move(what));
    };
    tasks_ = std::make_unique<TaskGroup>(parts.runtime.loop(), on_failure);
    tasks_->spawn("status", socket_->run());
  });
}

PeerStatus::~PeerStatus() {
  const auto stop = [this]() -> Task<> {
    co_await tasks_->stop();
    tasks_.reset();
    socket_.reset();
    events_.reset();
    members_.reset();
  };
  run_.parts().runtime.call(stop());
}

monitor::SwarmView PeerStatus::view() {
  auto& parts = run_.parts();
  monitor::RunView known;
  known.run_id = parts.run.run_id;
  known.self = parts.id;
  known.connected = parts.node->directory().connected();
  known.target_batch_samples = parts.manifest->target_batch;
  known.loss_train = parts.tracker->loss();
  if (parts.member != nullptr) known.own_samples = parts.member->status().own_samples;
  const auto standings = parts.tracker->all();
  const auto link = [&parts](const PeerId& peer) { return parts.node->endpoint().link(peer); };
  const monitor::FactSources sources{members_->records(), standings, link, parts.runtime.clock().unix_ms()};
  return monitor::view_swarm(monitor::gather_facts(std::move(known), sources));
}

}  // namespace collab::jobs
