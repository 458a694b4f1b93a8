#include "sim/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace collab::sim {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 160;  // of one panel
constexpr double kMargin = 70;
constexpr double kTitle = 30;

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

struct Point {
  double at_s;
  double value;
};

/// Where a moment of the run is drawn.
double across(const Outcome& outcome, double at_s) {
  return kMargin + (kWidth - 2 * kMargin) * at_s / std::max(to_seconds(outcome.length), 1e-9);
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

/// One panel, with its least and its greatest value beside it. `logarithmic`: of values above zero.
std::string curve(const Outcome& outcome, double top, const std::string& title, std::vector<Point> points,
                  bool logarithmic) {
  if (logarithmic) std::erase_if(points, [](const Point& point) { return !(point.value > 0); });
  double least = logarithmic ? 1e300 : 0;
  double most = 1e-12;
  for (const Point& point : points) {
    least = std::min(least, point.value);
    most = std::max(most, point.value);
  }
  const auto scaled = [&](double value) { return logarithmic ? std::log10(value) : value; };
  const double range = std::max(scaled(most) - scaled(std::min(least, most)), 1e-12);
  const double bottom = top + kHeight;
  std::string drawn;
  for (const Point& point : points)
    drawn += fmt::format("{:.1f},{:.1f} ", across(outcome, point.at_s),
                         bottom - (kHeight - kTitle) * (scaled(point.value) - scaled(least)) / range);
  return label(kMargin, top + 18, "start", title) +
         label(kMargin - 6, top + kTitle + 5, "end", fmt::format("{:.3g}", most)) +
         label(kMargin - 6, bottom, "end", fmt::format("{:.3g}", std::min(least, most))) +
         fmt::format(
             "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" points=\"{}\"/>\n"
             "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#999\"/>\n",
             drawn, kMargin, bottom, kWidth - kMargin, bottom);
}

/// A tick for each that struck, at the foot of all panels, and how often each kind did.
std::string fault_ticks(const Outcome& outcome, double foot) {
  std::map<FaultKind, std::size_t> counts;
  for (const FaultFact& fact : outcome.faults)
    if (fact.struck) ++counts[fact.fault.kind];
  std::map<FaultKind, std::string> colours;
  for (const auto& [kind, count] : counts)
    colours[kind] = fmt::format("hsl({}, 75%, 42%)", 360 * colours.size() / counts.size());
  std::string out;
  for (const FaultFact& fact : outcome.faults) {
    if (!fact.struck) continue;
    const double at_s = to_seconds(*fact.struck);
    const double wide = across(outcome, at_s + to_seconds(fact.fault.length)) - across(outcome, at_s);
    out += fmt::format(
        "<g fill=\"{0}\"><title>{1}, peer {2}, at {3:.1f} s</title><rect x=\"{4:.1f}\" y=\"10\" width=\"1\" "
        "height=\"{5}\" opacity=\"0.35\"/><rect x=\"{4:.1f}\" y=\"{6}\" width=\"{7:.1f}\" height=\"8\"/></g>\n",
        colours[fact.fault.kind], name(fact.fault.kind), fact.victim, at_s, across(outcome, at_s), foot - 10, foot,
        std::max(wide, 2.0));
  }
  double x = kMargin;
  for (const auto& [kind, count] : counts) {
    const std::string text = fmt::format("{} {}", count, name(kind));
    out += fmt::format("<g fill=\"{}\">{}</g>", colours[kind], label(x, foot + 50, "start", text));
    x += 8.0 * static_cast<double>(text.size()) + 16;
  }
  return out;
}

/// About ten, at whole minutes or seconds.
std::string time_axis(const Outcome& outcome, double y) {
  const double length_s = to_seconds(outcome.length);
  const bool in_minutes = length_s > 180;
  const double unit = in_minutes ? 60 : 1;
  const double step = std::max(1.0, std::ceil(length_s / unit / 10)) * unit;
  std::string out;
  for (double at_s = 0; at_s <= length_s; at_s += step)
    out += label(across(outcome, at_s), y, "middle",
                 fmt::format("{:.0f}{}", at_s / unit,
                             at_s > 0     ? ""
                             : in_minutes ? " min"
                                          : " s"));
  return out;
}

}  // namespace

bool Outcome::fault_missed() const {
  return !faults.empty() &&
         std::none_of(faults.begin(), faults.end(), [](const FaultFact& fact) { return fact.struck; });
}

double Outcome::median_round_s() const {
  std::vector<double> seconds;
  for (const EpochFact& fact : epoch_facts) seconds.push_back(to_seconds(fact.committed - fact.begun));
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

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
  out += fmt::format("a round takes {:.3f} s, from its group's begin to the first step: the median\n",
                     outcome.median_round_s());
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
                        {"ran", !outcome.fault_missed()},
                        {"median_round_s", outcome.median_round_s()},
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
  std::vector<Point> throughput;
  std::vector<Point> peers;
  std::vector<Point> loss;
  for (const Minute& minute : outcome.minutes) {
    throughput.push_back({to_seconds(minute.end), minute.samples_per_s});
    peers.push_back({to_seconds(minute.end), static_cast<double>(minute.peers)});
  }
  for (const EpochFact& fact : outcome.epoch_facts) loss.push_back({to_seconds(fact.committed), fact.loss});
  const double foot = 3 * kHeight + 30;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, foot + 85);
  out += fault_ticks(outcome, foot);
  out += curve(outcome, 10, "samples/s in committed epochs, by minute", throughput, false);
  out += curve(outcome, 10 + kHeight, "peers in step at the end of each minute", peers, false);
  out += curve(outcome, 10 + 2 * kHeight, "loss after each epoch, logarithmic", loss, true);
  out += time_axis(outcome, foot + 28);
  out += label(kMargin, foot + 72, "start",
               fmt::format("seed {}: {} epochs, {} samples, {} rounds failed, {} violations", outcome.seed,
                           outcome.epochs, outcome.samples_committed, outcome.rounds_failed, outcome.violations_total));
  return out + "</svg>\n";
}

}  // namespace collab::sim
