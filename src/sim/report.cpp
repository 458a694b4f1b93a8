#include "sim/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace collab::sim {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 160;  // of one panel
constexpr double kMargin = 60;

nlohmann::json fact_json(const FaultFact& fact) {
  nlohmann::json out = {{"fault", describe(fact.fault)}, {"kind", name(fact.fault.kind)}};
  if (fact.struck) {
    out["struck_s"] = to_seconds(*fact.struck);
    out["victim"] = fact.victim;
  } else {
    out["did_not_strike"] = fact.why_not;
  }
  return out;
}

/// One panel: a curve over the run's time.
std::string curve(const Outcome& outcome, double top, const std::string& title,
                  const std::function<double(const Minute&)>& value) {
  double highest = 1e-12;
  for (const Minute& minute : outcome.minutes) highest = std::max(highest, value(minute));
  const double length_s = std::max(to_seconds(outcome.length), 1e-9);
  std::string points;
  for (const Minute& minute : outcome.minutes) {
    const double x = kMargin + (kWidth - 2 * kMargin) * to_seconds(minute.end) / length_s;
    const double y = top + kHeight - (kHeight - 30) * value(minute) / highest;
    points += fmt::format("{:.1f},{:.1f} ", x, y);
  }
  return fmt::format(
      "<text x=\"{}\" y=\"{}\">{}, at most {:.4g}</text>\n"
      "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" points=\"{}\"/>\n"
      "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#999\"/>\n",
      kMargin, top + 18, title, highest, points, kMargin, top + kHeight, kWidth - kMargin, top + kHeight);
}

}  // namespace

std::string text_table(const Outcome& outcome) {
  std::string out = fmt::format("{:>8} {:>6} {:>6} {:>10} {:>6} {:>7} {:>7} {:>9} {:>10}\n", "min", "peers", "epoch",
                                "samples/s", "ok", "failed", "behind", "MB", "loss");
  for (const Minute& minute : outcome.minutes) {
    out +=
        fmt::format("{:>8.2f} {:>6} {:>6} {:>10.1f} {:>6} {:>7} {:>7} {:>9.2f} {:>10.4g}\n",
                    to_seconds(minute.end) / 60, minute.peers, minute.epoch, minute.samples_per_s, minute.rounds_ok,
                    minute.rounds_failed, minute.rounds_behind, static_cast<double>(minute.bytes) / 1e6, minute.loss);
  }
  const auto struck = std::count_if(outcome.faults.begin(), outcome.faults.end(),
                                    [](const FaultFact& fact) { return fact.struck.has_value(); });
  out += fmt::format(
      "seed {}: {} epochs, {} samples, {:.1f} virtual s, {} rounds failed, {} of {} faults struck, crypto {}, "
      "fingerprint {:016x}\n",
      outcome.seed, outcome.epochs, outcome.samples_committed, to_seconds(outcome.length), outcome.rounds_failed,
      struck, outcome.faults.size(), name(outcome.crypto), outcome.fingerprint);
  for (const FaultFact& fact : outcome.faults) {
    if (!fact.struck) out += fmt::format("  did not strike: {} ({})\n", describe(fact.fault), fact.why_not);
  }
  for (const Violation& broken : outcome.violations) {
    out += fmt::format("  VIOLATED {} at {:.3f} s{}{}: {}\n", broken.invariant, to_seconds(broken.at),
                       broken.peers.empty() ? "" : ", peer ", fmt::join(broken.peers, ", "), broken.text);
  }
  return out;
}

nlohmann::json to_json(const Outcome& outcome) {
  nlohmann::json out = {{"seed", outcome.seed},
                        {"fingerprint", fmt::format("{:016x}", outcome.fingerprint)},
                        {"crypto", name(outcome.crypto)},
                        {"virtual_s", to_seconds(outcome.length)},
                        {"epochs", outcome.epochs},
                        {"samples", outcome.samples_committed},
                        {"rounds_failed", outcome.rounds_failed},
                        {"checkpoints_refused", outcome.checkpoints_refused},
                        {"checkpoints_damaged", outcome.checkpoints_damaged},
                        {"bytes", outcome.bytes},
                        {"violations_total", outcome.violations_total}};
  for (const Minute& minute : outcome.minutes) {
    out["series"].push_back({{"end_s", to_seconds(minute.end)},
                             {"peers", minute.peers},
                             {"epoch", minute.epoch},
                             {"samples_per_s", minute.samples_per_s},
                             {"rounds_ok", minute.rounds_ok},
                             {"rounds_failed", minute.rounds_failed},
                             {"rounds_behind", minute.rounds_behind},
                             {"bytes", minute.bytes},
                             {"loss", minute.loss}});
  }
  for (const EpochFact& fact : outcome.epoch_facts) {
    out["rounds"].push_back({{"epoch", fact.epoch},
                             {"begun_s", to_seconds(fact.begun)},
                             {"committed_s", to_seconds(fact.committed)},
                             {"weight", fact.weight},
                             {"loss", fact.loss}});
  }
  for (const PeerFact& fact : outcome.peers) {
    out["peers"].push_back({{"samples_per_s", fact.rate},
                            {"busy", fact.busy},
                            {"records_per_s", fact.records_per_s},
                            {"epoch", fact.epoch}});
  }
  out["faults"] = nlohmann::json::array();
  for (const FaultFact& fact : outcome.faults) out["faults"].push_back(fact_json(fact));
  out["violations"] = nlohmann::json::array();
  for (const Violation& broken : outcome.violations) {
    out["violations"].push_back({{"invariant", broken.invariant},
                                 {"at_s", to_seconds(broken.at)},
                                 {"peers", broken.peers},
                                 {"text", broken.text}});
  }
  return out;
}

std::string to_svg(const Outcome& outcome) {
  const double height = 3 * kHeight + 60;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  const double length_s = std::max(to_seconds(outcome.length), 1e-9);
  for (const FaultFact& fact : outcome.faults) {
    if (!fact.struck) continue;
    const double x = kMargin + (kWidth - 2 * kMargin) * to_seconds(*fact.struck) / length_s;
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"10\" x2=\"{0:.1f}\" y2=\"{1}\" stroke=\"#d9534f\" "
        "stroke-opacity=\"0.4\"><title>{2}, peer {3}</title></line>\n",
        x, 3 * kHeight + 10, name(fact.fault.kind), fact.victim);
  }
  out += curve(outcome, 10, "samples/s in committed epochs", [](const Minute& m) { return m.samples_per_s; });
  out += curve(outcome, 10 + kHeight, "peers in step", [](const Minute& m) { return static_cast<double>(m.peers); });
  out += curve(outcome, 10 + 2 * kHeight, "loss", [](const Minute& m) { return m.loss; });
  out += fmt::format("<text x=\"{}\" y=\"{}\">seed {}: {:.1f} virtual minutes, {} epochs; red: faults</text>\n</svg>\n",
                     kMargin, height - 15, outcome.seed, length_s / 60, outcome.epochs);
  return out;
}

}  // namespace collab::sim
