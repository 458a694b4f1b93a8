#include "sim/faults.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::array<std::pair<FaultKind, std::string_view>, 21> kKinds = {{{FaultKind::kill, "kill"},
                                                                            {FaultKind::leave, "leave"},
                                                                            {FaultKind::freeze, "freeze"},
                                                                            {FaultKind::partition, "partition"},
                                                                            {FaultKind::join, "join"},
                                                                            {FaultKind::coordinator, "coordinator"},
                                                                            {FaultKind::ban, "ban"},
                                                                            {FaultKind::mute, "mute"},
                                                                            {FaultKind::deaf, "deaf"},
                                                                            {FaultKind::slow, "slow"},
                                                                            {FaultKind::flap, "flap"},
                                                                            {FaultKind::drift, "drift"},
                                                                            {FaultKind::corrupt, "corrupt"},
                                                                            {FaultKind::spoil, "spoil"},
                                                                            {FaultKind::swizzle, "swizzle"},
                                                                            {FaultKind::lie, "lie"},
                                                                            {FaultKind::split, "split"},
                                                                            {FaultKind::disk_full, "disk_full"},
                                                                            {FaultKind::slow_disk, "slow_disk"},
                                                                            {FaultKind::reboot, "reboot"},
                                                                            {FaultKind::suspend, "suspend"}}};
constexpr std::array<std::pair<Phase, std::string_view>, 8> kPhases = {{{Phase::begin, "begin"},
                                                                        {Phase::scatter, "scatter"},
                                                                        {Phase::reduce, "reduce"},
                                                                        {Phase::gather, "gather"},
                                                                        {Phase::hold, "hold"},
                                                                        {Phase::view, "view"},
                                                                        {Phase::commit, "commit"},
                                                                        {Phase::done, "done"}}};
constexpr std::array<std::pair<Aim, std::string_view>, 3> kAims = {
    {{Aim::any, "any"}, {Aim::coordinator, "coordinator"}, {Aim::client, "client"}}};
constexpr double kRateMax = 3600;
constexpr double kSecondsMax = 86'400;
constexpr double kSlownessMax = 1000;
constexpr double kTurnMin = 0.1;
constexpr double kShareMin = 0.01;
constexpr std::size_t kEventsMax = 10'000;

double between(Random& random, Mixture::Range range) {
  return range.min + (range.max - range.min) * random.uniform();
}

/// What `to_toml` wrote, to the nanosecond.
Duration exactly(double seconds) {
  return std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
}

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Failure(
      ExitCode::usage, fmt::format("{}: {}", file, what),
      "doc/operating.md shows such a file; calm, home, churn, storm, hostile, soak62, split and orphan need none");
}

template <class Enum, std::size_t N>
Enum named(const std::array<std::pair<Enum, std::string_view>, N>& names, const std::string& file,
           std::string_view word) {
  for (const auto& [value, known] : names) {
    if (known == word) return value;
  }
  std::string all;
  for (const auto& [value, known] : names) all += fmt::format("{}{}", all.empty() ? "" : ", ", known);
  refuse(file, fmt::format("\"{}\" is none of {}", word, all));
}

double number_of(const std::string& file, std::string_view key, const toml::node& node, double min, double max) {
  const auto value = node.value<double>();
  if (!value || !std::isfinite(*value) || *value < min || *value > max)
    refuse(file, fmt::format("{} is no number from {} to {}", key, min, max));
  return *value;
}

void read_rates(const std::string& file, const toml::table& table, Mixture& into) {
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    if (word == "blank" || word == "torn") {
      (word == "blank" ? into.blank : into.torn) = number_of(file, word, node, 0, 1);
      continue;
    }
    if (word == "close") {
      into.close = node.value_or(false);
      continue;
    }
    if (word == "from") {
      into.from_s = number_of(file, word, node, 0, kSecondsMax);
      continue;
    }
    const FaultKind kind = named(kKinds, file, word);
    const bool planned = kind == FaultKind::join || kind == FaultKind::coordinator || kind == FaultKind::split;
    if (planned || kind == FaultKind::ban)
      refuse(file, fmt::format("[rates] knows no {}: only an [[event]] does", word));
    into.rates[kind] = number_of(file, word, node, 0, kRateMax);
  }
}

void read_ranges(const std::string& file, const toml::table& table, Mixture& into) {
  struct Row {
    std::string_view name;
    Mixture::Range* range;
    double min, max;
  };
  const std::array<Row, 7> rows = {{{"down", &into.down, 0, kSecondsMax},
                                    {"away", &into.away, 0, kSecondsMax},
                                    {"adverse", &into.adverse, 0, kSecondsMax},
                                    {"slowness", &into.slowness, 1, kSlownessMax},
                                    {"turn", &into.turn_s, kTurnMin, kSecondsMax},
                                    {"drift", &into.drift_s, -kSecondsMax, kSecondsMax},
                                    {"sync", &into.sync_s, 0, kSecondsMax}}};
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& one) { return one.name == word; });
    if (row == rows.end()) refuse(file, fmt::format("[ranges] knows no {}", word));
    const toml::array* pair = node.as_array();
    if (pair == nullptr || pair->size() != 2) refuse(file, fmt::format("{} is no [least, most]", word));
    *row->range = {number_of(file, word, *pair->get(0), row->min, row->max),
                   number_of(file, word, *pair->get(1), row->min, row->max)};
    if (row->range->max < row->range->min) refuse(file, fmt::format("{}: the most is less than the least", word));
  }
}

/// What an event of that kind needs to be told.
void check_amount(const std::string& file, const Fault& fault) {
  const auto need = [&](double min, double max) {
    if (fault.amount < min || fault.amount > max)
      refuse(file, fmt::format("an [[event]] of kind {} wants \"amount\" from {} to {}", name(fault.kind), min, max));
  };
  if (fault.kind == FaultKind::slow) need(1, kSlownessMax);
  if (fault.kind == FaultKind::flap) need(kTurnMin, kSecondsMax);
  if (fault.kind == FaultKind::split) need(kShareMin, 1 - kShareMin);
  if (fault.kind == FaultKind::slow_disk) need(0, kSecondsMax);
  const bool ends = fault.kind == FaultKind::flap || fault.kind == FaultKind::swizzle || fault.kind == FaultKind::split;
  if (ends && fault.length == Duration())
    refuse(file, fmt::format("an [[event]] of kind {} wants \"seconds\"", name(fault.kind)));
}

Fault read_event(const std::string& file, const toml::table& table) {
  Fault fault;
  bool has_kind = false;
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    if (word == "at")
      fault.at = exactly(number_of(file, word, node, 0, kSecondsMax));
    else if (word == "seconds")
      fault.length = exactly(number_of(file, word, node, 0, kSecondsMax));
    else if (word == "peer") {
      fault.peer = static_cast<std::size_t>(number_of(file, word, node, 0, 1e6));
      fault.aim = Aim::peer;
    } else if (word == "amount")
      fault.amount = number_of(file, word, node, -kSecondsMax, kSecondsMax);
    else if (word == "blank")
      fault.blank = node.value_or(false);
    else if (word == "torn")
      fault.torn = node.value_or(false);
    else if (word == "close")
      fault.close = node.value_or(false);
    else if (word == "kind") {
      fault.kind = named(kKinds, file, node.value_or(std::string()));
      has_kind = true;
    } else if (word == "phase")
      fault.phase = named(kPhases, file, node.value_or(std::string()));
    else if (word == "lie") {
      const auto lie = lie_named(node.value_or(std::string()));
      if (!lie) refuse(file, fmt::format("there is no lie \"{}\"", node.value_or(std::string())));
      fault.lie = *lie;
    } else if (word == "victim")
      fault.aim = named(kAims, file, node.value_or(std::string()));
    else
      refuse(file, fmt::format("[[event]] knows no {}", word));
  }
  if (!has_kind) refuse(file, "an [[event]] says no kind");
  check_amount(file, fault);
  return fault;
}

FaultPlan read_file(const std::string& file) {
  FaultPlan plan;
  toml::table root;
  try {
    root = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    refuse(file, std::string(error.description()));
  }
  for (const auto& [key, node] : root) {
    const std::string word(key.str());
    if (word == "rates" && node.is_table())
      read_rates(file, *node.as_table(), plan.mixture);
    else if (word == "ranges" && node.is_table())
      read_ranges(file, *node.as_table(), plan.mixture);
    else if (word == "event" && node.is_array_of_tables()) {
      if (node.as_array()->size() > kEventsMax) refuse(file, fmt::format("more than {} events", kEventsMax));
      for (const auto& event : *node.as_array()) plan.events.push_back(read_event(file, *event.as_table()));
    } else
      refuse(file, fmt::format("\"{}\" is none of [rates], [ranges], [[event]]", word));
  }
  return plan;
}

}  // namespace

std::string_view name(FaultKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)].second;
}

std::string_view name(Phase phase) noexcept {
  return kPhases[static_cast<std::size_t>(phase)].second;
}

std::string describe(const Fault& fault) {
  std::string out(name(fault.kind));
  if (fault.phase && fault.aim != Aim::peer) {
    out += fmt::format(" {}", kAims[static_cast<std::size_t>(fault.aim)].second);
  } else if (has_victim(fault.kind)) {
    out += fmt::format(" peer {}", fault.peer);
  }
  if (fault.phase) out += fmt::format(" in {}, not before", name(*fault.phase));
  out += fmt::format(" {}{:.3f} s", fault.phase ? "" : "at ", to_seconds(fault.at));
  if (fault.length > Duration()) out += fmt::format(" for {:.1f} s", to_seconds(fault.length));
  if (fault.amount != 0) out += fmt::format(" by {:.1f}", fault.amount);
  if (fault.kind == FaultKind::lie) out += fmt::format(" about {}", name(fault.lie));
  if (fault.blank) out += ", disk lost";
  if (fault.torn) out += ", newest checkpoint torn";
  return out;
}

bool has_victim(FaultKind kind) noexcept {
  return kind != FaultKind::join && kind != FaultKind::coordinator && kind != FaultKind::swizzle &&
         kind != FaultKind::split;
}

namespace {

Fault fault_at(double seconds, FaultKind kind, double lasts = 0) {
  Fault fault;
  fault.at = from_seconds(seconds);
  fault.kind = kind;
  fault.length = from_seconds(lasts);
  return fault;
}

}  // namespace

FaultPlan load_faults(const std::string& preset_or_file) {
  using enum FaultKind;
  FaultPlan plan;
  auto& rates = plan.mixture.rates;
  if (preset_or_file == "calm") return plan;
  if (preset_or_file == "home") {
    rates = {{kill, 1}, {leave, 2}, {freeze, 1}, {slow, 4}, {flap, 1}, {drift, 0.5}, {corrupt, 0.5}, {reboot, 1}};
  } else if (preset_or_file == "churn") {
    rates = {{kill, 6}, {leave, 3}, {freeze, 6}, {partition, 6}};
  } else if (preset_or_file == "storm") {
    rates = {{kill, 8}, {leave, 4}, {freeze, 8}, {partition, 6}, {mute, 4},  {deaf, 4},
             {slow, 6}, {flap, 3},  {drift, 4},  {corrupt, 6},   {spoil, 4}, {swizzle, 1}};
  } else if (preset_or_file == "hostile") {
    rates = {{kill, 4}, {freeze, 4}, {partition, 4}, {corrupt, 6}, {spoil, 2}, {lie, 12}};
  } else if (preset_or_file == "soak62") {
    plan.series.insert(plan.series.end(), 27, kill);
    plan.series.insert(plan.series.end(), 18, freeze);
    plan.series.insert(plan.series.end(), 17, partition);
    plan.gap = std::chrono::seconds(29);
  } else if (preset_or_file == "split") {
    plan.events.push_back(fault_at(120, split, 600));
    plan.events.back().amount = 0.375;
  } else if (preset_or_file == "orphan") {
    plan.events.push_back(fault_at(90, coordinator));
    for (const double at_s : {150, 240, 400}) plan.events.push_back(fault_at(at_s, join));
  } else {
    return read_file(preset_or_file);
  }
  return plan;
}

namespace {

/// Everything of it but its time.
Fault draw_fault(const Mixture& mixture, FaultKind kind, std::size_t peers, Random& random) {
  Fault fault;
  fault.kind = kind;
  fault.peer = random.below(peers);
  fault.aim = Aim::peer;
  Mixture::Range lasts = mixture.away;
  if (kind == FaultKind::kill || kind == FaultKind::leave) lasts = mixture.down;
  const bool steady = kind == FaultKind::slow || kind == FaultKind::drift || kind == FaultKind::lie ||
                      kind == FaultKind::disk_full || kind == FaultKind::slow_disk;
  if (steady) lasts = mixture.adverse;
  fault.length = from_seconds(between(random, lasts));
  if (kind == FaultKind::corrupt || kind == FaultKind::spoil) fault.length = Duration();
  fault.close = mixture.close;
  fault.blank = kind == FaultKind::kill && random.chance(mixture.blank);
  fault.torn = kind == FaultKind::kill && !fault.blank && mixture.torn > 0 && random.chance(mixture.torn);
  if (kind == FaultKind::slow_disk) fault.amount = between(random, mixture.sync_s);
  if (kind == FaultKind::slow) fault.amount = between(random, mixture.slowness);
  if (kind == FaultKind::flap) fault.amount = between(random, mixture.turn_s);
  if (kind == FaultKind::drift) fault.amount = between(random, mixture.drift_s);
  if (kind == FaultKind::lie) fault.lie = static_cast<Lie>(random.below(kLies));
  return fault;
}

void draw_series(const FaultPlan& plan, std::uint64_t seed, std::size_t peers, std::vector<Fault>& events) {
  Random random = Random(seed).derive("sim.fault.series");
  auto kinds = plan.series;
  TimePoint at{};
  for (std::size_t left = kinds.size(); left > 0; --left) {
    std::swap(kinds[random.below(left)], kinds[left - 1]);
    events.push_back(draw_fault(plan.mixture, kinds[left - 1], peers, random));
    at += plan.gap;
    events.back().at = at.time_since_epoch();
  }
}

}  // namespace

std::vector<Fault> draw_faults(const FaultPlan& plan, std::uint64_t seed, std::size_t peers, Duration length) {
  std::vector<Fault> events = plan.events;
  draw_series(plan, seed, peers, events);
  const double end_s = 0.75 * to_seconds(length);
  for (const auto& [kind, rate] : plan.mixture.rates) {
    if (rate <= 0) continue;
    Random random = Random(seed).derive("sim.fault." + std::string(name(kind)));
    const double mean_gap_s = 3600 / (rate * static_cast<double>(peers));
    for (double at_s = plan.mixture.from_s;;) {
      at_s -= mean_gap_s * std::log(1 - random.uniform());
      Fault fault = draw_fault(plan.mixture, kind, peers, random);
      fault.at = from_seconds(std::min(at_s, kSecondsMax));
      if (at_s + to_seconds(fault.length) >= end_s) break;
      events.push_back(fault);
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return events;
}

std::string to_toml(const std::vector<Fault>& events) {
  std::string out;
  for (const Fault& fault : events) {
    out += fmt::format("[[event]]\nkind = \"{}\"\nat = {}\n", name(fault.kind), to_seconds(fault.at));
    if (fault.length > Duration()) out += fmt::format("seconds = {}\n", to_seconds(fault.length));
    if (fault.amount != 0) out += fmt::format("amount = {}\n", fault.amount);
    if (fault.blank) out += "blank = true\n";
    if (fault.torn) out += "torn = true\n";
    if (fault.close) out += "close = true\n";
    if (fault.kind == FaultKind::lie) out += fmt::format("lie = \"{}\"\n", name(fault.lie));
    if (fault.phase) out += fmt::format("phase = \"{}\"\n", name(*fault.phase));
    if (fault.aim == Aim::peer && has_victim(fault.kind)) out += fmt::format("peer = {}\n", fault.peer);
    if (fault.aim == Aim::coordinator || fault.aim == Aim::client)
      out += fmt::format("victim = \"{}\"\n", kAims[static_cast<std::size_t>(fault.aim)].second);
  }
  return out;
}

}  // namespace collab::sim
