#include "state_peer.hpp"

#include <utility>

namespace collab::bench {
namespace {

constexpr std::uint64_t kEpoch = 1;
constexpr Duration kFetchPatience = std::chrono::minutes(10);

}  // namespace

StatePeer::StatePeer(const Needs& needs, const Workload& workload)
    : needs_(needs),
      workload_(workload),
      random_(workload.seed),
      store_(needs.net, needs.clock, needs.loop, needs.workers, needs.log,
             [this](std::uint64_t) -> Task<Result<std::shared_ptr<const state::Snapshot>>> {
               if (!held_) co_return Errc::gone;
               co_return held_;
             }) {}

std::shared_ptr<const state::Snapshot> StatePeer::make() const {
  std::vector<float> values(workload_.values());
  fill(workload_, 0, kEpoch, values);
  const auto raw = std::as_bytes(std::span(values));
  auto snapshot = std::make_shared<state::Snapshot>();
  snapshot->epoch = kEpoch;
  snapshot->sections.push_back({"parameters", Bytes(raw.begin(), raw.end())});
  return snapshot;
}

void StatePeer::start(TaskGroup& tasks, bool gives) {
  if (gives) held_ = make();
  if (gives) store_.advance(kEpoch);
  tasks.spawn("state", store_.run());
}

Task<Result<FetchedState>> StatePeer::fetch(std::vector<PeerId> donors) {
  state::WantedState wanted;
  wanted.epoch = kEpoch;
  wanted.deadline = needs_.clock.now() + kFetchPatience;
  FetchedState fetched;
  const auto on_progress = [&fetched](const state::Progress& progress) { fetched.donors = progress.donors; };
  const state::Context context{needs_.net, needs_.clock, needs_.workers, needs_.log, random_};
  const TimePoint start = needs_.clock.now();
  const auto state =
      co_await state::download_and_share(context, store_, std::move(wanted), std::move(donors), on_progress);
  if (!state) co_return state.error().code;
  fetched.seconds = to_seconds(needs_.clock.now() - start);
  for (const state::Section& section : (*state)->sections) fetched.bytes += section.bytes.size();
  const auto expected = make();
  fetched.whole = (*state)->sections.size() == 1 && (*state)->sections[0].bytes == expected->sections[0].bytes;
  co_return fetched;
}

}  // namespace collab::bench
