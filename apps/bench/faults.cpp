#include "faults.hpp"

#include "base/random.hpp"
#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr std::size_t kCalmRounds = 3;                // before each fault, after one to warm up
constexpr double kFreezeLimit = 5;                    // seconds
constexpr auto kFrozenFor = std::chrono::seconds(1);  // after the others are done

/// Every round with a fault adds one to each.
struct FaultFigures {
  std::vector<double> fault_free;
  std::vector<double> seconds;
  std::vector<double> noticed;
  std::vector<double> next;
  std::size_t committed = 0;
  std::size_t all_or_nothing = 0;
  std::size_t thawed_committed = 0;
  std::size_t thawed_unchanged = 0;
  std::size_t left_to_one = 0;  // groups of two: the one that is left may be no quorum
  std::size_t must_commit = 0;  // of the others
  std::size_t did_commit = 0;
};

void add_spread(json& out, const std::string& name, const std::vector<double>& values) {
  if (values.empty()) return;
  out[name + "_median"] = median(values);
  out[name + "_max"] = *std::max_element(values.begin(), values.end());
}

/// Time of rounds in which nothing happens, after one to warm up.
double calm_rounds(Swarm& swarm, std::uint64_t& number, std::size_t count, FaultFigures& figures) {
  swarm.average(number++);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < count; ++i) seconds.push_back(swarm.average(number++).seconds);
  figures.fault_free.insert(figures.fault_free.end(), seconds.begin(), seconds.end());
  return median(seconds);
}

void judge(const StruckRound& round, std::size_t peers, FaultFigures& figures) {
  figures.seconds.push_back(round.seconds);
  figures.committed += round.committed();
  figures.all_or_nothing += round.all_or_nothing();
  if (peers == 2) {
    ++figures.left_to_one;
    return;
  }
  ++figures.must_commit;
  figures.did_commit += round.committed();
}

/// The victim is another one each time; it always owns a segment.
void strike_once(const FaultOrder& order, std::size_t cast, FaultFigures& figures) {
  Swarm swarm(order.workload, order.output.log_level);
  std::uint64_t number = 1;
  const double calm = calm_rounds(swarm, number, kCalmRounds, figures);
  swarm.watch_links();
  Strike strike;
  strike.victim = cast % order.workload.peers;
  strike.signal = order.name == "freeze" ? SIGSTOP : SIGKILL;
  strike.after_s = calm / 2;
  const StruckRound round = swarm.average_with(number++, strike);
  judge(round, order.workload.peers, figures);
  if (strike.signal == SIGKILL) {
    figures.noticed.push_back(round.noticed_s);
  } else {
    std::this_thread::sleep_for(kFrozenFor);
    StruckRound thawed = round;
    thawed.ends[strike.victim] = swarm.thaw(strike.victim);
    figures.thawed_committed += thawed.ends[strike.victim].committed;
    figures.thawed_unchanged += !thawed.ends[strike.victim].committed;
    if (!thawed.all_or_nothing()) --figures.all_or_nothing;
  }
  figures.next.push_back(swarm.average(number++).seconds);
}

void strike_anywhere(const FaultOrder& order, std::size_t cast, FaultFigures& figures) {
  Random random = Random(order.workload.seed).derive(fmt::format("fault {}", cast));
  Workload workload = order.workload;
  workload.peers = 2 + cast % (order.workload.peers - 1);
  Swarm swarm(workload, order.output.log_level);
  std::uint64_t number = 1;
  const double calm = calm_rounds(swarm, number, 1, figures);
  Strike strike;
  strike.victim = random.below(workload.peers);
  strike.signal = SIGKILL;
  strike.after_s = 1.1 * calm * static_cast<double>(random.below(1'000'000)) * 1e-6;
  judge(swarm.average_with(number, strike), workload.peers, figures);
}

json to_json(const FaultOrder& order, const FaultFigures& figures) {
  json out = {{"bench", order.name},
              {"peers", order.workload.peers},
              {"floats", order.workload.values()},
              {"codec", order.workload.codec},
              {"rounds", order.rounds},
              {"seed", order.workload.seed},
              {"encrypted", true},
              {"committed", figures.committed},
              {"all_or_nothing", figures.all_or_nothing},
              {"groups_of_two", figures.left_to_one},
              {"larger_groups", figures.must_commit},
              {"larger_groups_committed", figures.did_commit}};
  add_spread(out, "fault_free_seconds", figures.fault_free);
  add_spread(out, "seconds", figures.seconds);
  add_spread(out, "noticed_seconds", figures.noticed);
  add_spread(out, "next_seconds", figures.next);
  if (order.name == "kill") out["limit_seconds"] = 2 * median(figures.fault_free) + 0.5;
  if (order.name == "freeze") {
    out["limit_seconds"] = kFreezeLimit;
    out["thawed_committed"] = figures.thawed_committed;
    out["thawed_unchanged"] = figures.thawed_unchanged;
  }
  return out;
}

void print_faults(const json& out) {
  fmt::print("{}: {} rounds with a fault, up to {} peers, {} floats as {}, on loopback with TLS\n",
             out.at("bench").get<std::string>(), out.at("rounds").get<int>(), out.at("peers").get<int>(),
             out.at("floats").get<std::uint64_t>(), out.at("codec").get<std::string>());
  const auto spread = [&](const std::string& name, const std::string& field) {
    if (!out.contains(field + "_median")) return;
    print_row(name, fmt::format("{:.3f} median, {:.3f} most", out.at(field + "_median").get<double>(),
                                out.at(field + "_max").get<double>()));
  };
  spread("seconds without", "fault_free_seconds");
  spread("seconds of the others", "seconds");
  if (out.contains("limit_seconds"))
    print_row("of which are allowed", fmt::format("{:.3f}", out["limit_seconds"].get<double>()));
  spread("noticed after", "noticed_seconds");
  spread("seconds of the next", "next_seconds");
  print_row("all or nothing",
            fmt::format("{} of {}", out.at("all_or_nothing").get<int>(), out.at("rounds").get<int>()));
  print_row("committed", fmt::format("{} of {}; of groups above two {} of {}", out.at("committed").get<int>(),
                                     out.at("rounds").get<int>(), out.at("larger_groups_committed").get<int>(),
                                     out.at("larger_groups").get<int>()));
  if (out.contains("thawed_committed"))
    print_row("who thawed", fmt::format("{} committed late, {} had its own values", out["thawed_committed"].get<int>(),
                                        out["thawed_unchanged"].get<int>()));
  print_machine(out);
}

}  // namespace

int measure_faults(const FaultOrder& order) {
  FaultFigures figures;
  const Report report;
  for (std::size_t cast = 0; cast < order.rounds; ++cast)
    order.name == "any-moment" ? strike_anywhere(order, cast, figures) : strike_once(order, cast, figures);
  const std::vector<Series> series = {{"without", figures.fault_free},
                                      {"the others' round", figures.seconds},
                                      {"noticed after", figures.noticed},
                                      {"the next round", figures.next}};
  report.show(to_json(order, figures), print_faults, order.output, "seconds", series);
  const bool held = figures.all_or_nothing == order.rounds && figures.did_commit == figures.must_commit;
  return static_cast<int>(held ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
