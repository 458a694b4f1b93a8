#include "sim/nat_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace collab::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMissedOneOf = 50;  // of punched tries

LinkOptions links_of(Duration rtt) {
  LinkOptions links;
  links.latency_min = links.latency_max = rtt / 2;
  links.jitter = 0;
  return links;
}

NatSetting setting(std::string name, LinkOptions links, NatClosed closed) {
  NatSetting out;
  out.name = fmt::format("{}, {}", name, closed == NatClosed::drops ? "dropped" : "reset");
  out.links = links;
  out.closed = closed;
  return out;
}

NatWay way_of(const NatPair& pair) {
  if (pair.a_dials || pair.b_dials) return NatWay::dialled;
  if (pair.punched) return NatWay::punched;
  if (pair.led_on) return NatWay::led_on;
  return pair.relayed ? NatWay::relayed : NatWay::nothing;
}

std::vector<NatCell> empty_cells(const NatMatrixOptions& options) {
  std::vector<NatCell> cells;
  for (std::size_t setting = 0; setting < options.settings.size(); ++setting) {
    for (std::size_t a = 0; a < options.kinds.size(); ++a) {
      for (std::size_t b = a; b < options.kinds.size(); ++b) {
        if (a == b && options.kinds[a].shared) continue;
        NatCell cell;
        cell.setting = setting;
        cell.a = a;
        cell.b = b;
        cell.expected = expected_way(options.kinds[a], options.kinds[b]);
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

void add_try(NatMatrix& matrix, std::size_t setting, const NatFacts& facts, std::uint64_t seed) {
  const auto lie = [&](const std::string& text) {
    matrix.lies.push_back(fmt::format("{}, seed {}: {}", matrix.settings[setting].name, seed, text));
  };
  for (const std::string& text : nat_lies(facts)) lie(text);
  for (const NatPair& pair : facts.pairs) {
    const auto is_its = [&](const NatCell& one) {
      return one.setting == setting && one.a == pair.a && one.b == pair.b;
    };
    const auto cell = std::find_if(matrix.cells.begin(), matrix.cells.end(), is_its);
    if (cell == matrix.cells.end()) continue;
    ++cell->tries;
    const NatWay way = way_of(pair);
    if (way != cell->expected) {
      lie(fmt::format("{} and {}: {}, not {}", matrix.kinds[pair.a].name, matrix.kinds[pair.b].name, name(way),
                      name(cell->expected)));
      continue;
    }
    ++cell->as_expected;
    cell->answered_in.push_back(pair.took);
    if (way != NatWay::punched) continue;
    cell->punched_in.push_back(pair.took + pair.punched_in);
    cell->crossed_in.push_back(pair.crossed_in);
  }
}

}  // namespace

std::string_view name(NatWay way) noexcept {
  switch (way) {
    case NatWay::dialled: return "dialled";
    case NatWay::punched: return "punched";
    case NatWay::relayed: return "relayed";
    case NatWay::led_on: return "led on";
    case NatWay::nothing: return "not met";
  }
  return "unknown";
}

Duration NatSetting::rtt() const {
  return from_seconds(2 * to_seconds(links.latency_max) * (1 + links.jitter));
}

std::vector<NatSetting> nat_settings() {
  LinkOptions far = links_of(milliseconds(120));
  far.jitter = 5.0 / 60;  // 5 ms of each way
  far.loss = 0.002;
  std::vector<NatSetting> settings;
  for (const NatClosed closed : {NatClosed::drops, NatClosed::resets}) {
    settings.push_back(setting("1 ms", links_of(milliseconds(1)), closed));
    settings.push_back(setting("40 ms", links_of(milliseconds(40)), closed));
    settings.push_back(setting("120 ms with jitter and loss", far, closed));
  }
  return settings;
}

NatWay expected_way(const NatKind& a, const NatKind& b) noexcept {
  if (must_be_led_on(a, b)) return NatWay::led_on;
  if (!a.box || !b.box) return NatWay::dialled;
  const auto keeps_port = [](const NatKind& kind) {
    return kind.box->mapping == NatMapping::none || kind.box->mapping == NatMapping::endpoint_independent;
  };
  return keeps_port(a) && keeps_port(b) ? NatWay::punched : NatWay::relayed;
}

NatMatrix run_nat_matrix(const NatMatrixOptions& options) {
  NatMatrix matrix;
  matrix.kinds = options.kinds;
  matrix.settings = options.settings;
  matrix.cells = empty_cells(options);
  const std::size_t runs = options.tries * options.settings.size();
  for (std::size_t run = 0; run < runs; ++run) {
    if (options.go_on && !options.go_on(run, runs)) break;
    const std::size_t setting = run % options.settings.size();
    NatPairsOptions pairs;
    pairs.seed = options.seed + run / options.settings.size();
    pairs.kinds = options.kinds;
    pairs.links = options.settings[setting].links;
    pairs.crypto = options.crypto;
    for (NatKind& kind : pairs.kinds) {
      if (kind.box) kind.box->closed = options.settings[setting].closed;
    }
    add_try(matrix, setting, run_nat_pairs(pairs), pairs.seed);
    matrix.tries = (run + 1) / options.settings.size();
  }
  for (NatCell& cell : matrix.cells) {
    for (auto* times : {&cell.answered_in, &cell.punched_in, &cell.crossed_in}) std::sort(times->begin(), times->end());
  }
  return matrix;
}

NatLimits limits_of(NatWay way, const NatSetting& setting) noexcept {
  const Duration rtt = setting.rtt();
  if (way == NatWay::punched) return {seconds(1) + 4 * rtt};
  if (way == NatWay::led_on) return {seconds(8)};
  if (way == NatWay::dialled) return {seconds(3) + 6 * rtt};  // in return for a call by way of a relay, if need be
  return {seconds(2) + 4 * rtt};
}

std::vector<std::string> short_cells(const NatMatrix& matrix) {
  std::vector<std::string> out;
  for (const NatCell& cell : matrix.cells) {
    const NatSetting& setting = matrix.settings[cell.setting];
    const std::string who =
        fmt::format("{}: {} and {}", setting.name, matrix.kinds[cell.a].name, matrix.kinds[cell.b].name);
    const NatLimits limits = limits_of(cell.expected, setting);
    const auto look = [&](std::string_view what, Duration took, Duration limit) {
      if (took <= limit) return;
      out.push_back(
          fmt::format("{}: {} after {:.2f} s; {:.2f} are allowed", who, what, to_seconds(took), to_seconds(limit)));
    };
    const bool punched = cell.expected == NatWay::punched;
    const std::size_t may_miss = punched ? cell.tries / kMissedOneOf : 0;
    if (cell.as_expected + may_miss < cell.tries)
      out.push_back(fmt::format("{}: {} {} times of {}", who, name(cell.expected), cell.as_expected, cell.tries));
    if (cell.answered_in.empty()) continue;
    if (punched) {
      look("answered, in the median,", cell.answered_in[(cell.answered_in.size() - 1) / 2], limits.answered_in);
      look("punched", cell.punched_in.back(), limits.punched_in);
    } else {
      look("answered", cell.answered_in.back(), limits.answered_in);
    }
  }
  return out;
}

}  // namespace collab::sim
