// From records of strangers to what a dashboard shows: whatever they say becomes JSON on one line, within bounds.
//
// Script: u8 kind and owner | u16 bytes | the value of a record; again and again.
#include "monitor/events.hpp"
#include "monitor/json.hpp"
#include "monitor/metric_table.hpp"
#include "monitor/report_reader.hpp"
#include "monitor/swarm_facts.hpp"
#include "sim/simulation.hpp"
#include "support.hpp"

#include <nlohmann/json.hpp>

namespace collab::fuzz::monitor_view_target {

using namespace monitor;

constexpr std::int64_t kNow = 1'893'456'000'000;

struct Records {
  explicit Records(fuzz::Input input) {
    while (!input.empty()) {
      const auto kind = input.number<std::uint8_t>();
      directory::Record record;
      record.owner.key[0] = kind / 4 % 8;
      const auto value = input.piece();
      record.value.assign(value.begin(), value.end());
      of[kind % 4].push_back(std::move(record));
    }
  }
  std::array<std::vector<directory::Record>, 4> of;  ///< members, progress, rounds, evaluations
};

void require_json_line(const std::string& text) {
  require(nlohmann::json::accept(text) && text.find('\n') == std::string::npos);
}

SwarmView make_view(const Records& records, LossHistory& losses) {
  std::vector<progress::Standing> standings;
  for (const directory::Record& record : records.of[1]) {
    const auto told = progress::decode(record.value);
    if (!told) continue;
    standings.push_back({record.owner, *told});
    losses.note_training(record.owner, told->epoch, told->loss);
  }
  const auto no_link = [](const PeerId&) { return net::LinkState(); };
  RunView known;
  known.run_id = "demo";
  known.target_batch_samples = 450;
  const FactSources sources{records.of[0], standings, no_link, kNow};
  return view_swarm(gather_facts(known, sources));
}

COLLAB_FUZZ_TARGET(monitor_view) {
  const Records records{fuzz::Input(fuzz::bytes_of(data, size))};
  LossHistory losses;
  const SwarmView view = make_view(records, losses);
  for (const PeerView& peer : view.peers)
    require(peer.name.size() <= kNameBytesMax && peer.role.size() <= kNameBytesMax && peer.samples_per_s >= 0);

  std::vector<PeerId> members;
  for (const PeerView& peer : view.peers) members.push_back(peer.id);
  ReportReader reader;
  Rounds rounds;
  sim::Simulation world;
  Events events(world.executor(), world.clock());
  Metrics metrics;
  describe_metrics(metrics);
  for (RoundView& round : reader.rounds(records.of[2], members, kNow)) {
    require(round.members.size() <= kRoundMembersMax && round.told_by.has_value());
    events.add({EventType::round_failed, round.epoch, round.told_by, {{"reason", round.reason}}});
    count_round(metrics, round);
    rounds.add(std::move(round));
  }
  require(reader.rounds(records.of[2], members, kNow).size() <= records.of[2].size());
  for (const ToldEvaluation& told : reader.evaluations(records.of[3]))
    losses.note_heldout(told.by, told.epoch, told.loss);
  set_swarm_gauges(metrics, view);

  require_json_line(state_json(view, rounds.kept()));
  require_json_line(history_json(kNow, losses, std::nullopt));
  for (std::uint64_t id = 0; const Events::Encoded* event = events.after(id); id = event->id)
    require_json_line(event->json);
  require(metrics.prometheus("demo").size() < 1'000'000);
  return 0;
}

}  // namespace collab::fuzz::monitor_view_target
