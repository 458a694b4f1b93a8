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

constexpr std::array<std::pair<FaultKind, std::string_view>, 7> kKinds = {{{FaultKind::kill, "kill"},
                                                                           {FaultKind::leave, "leave"},
                                                                           {FaultKind::freeze, "freeze"},
                                                                           {FaultKind::partition, "partition"},
                                                                           {FaultKind::join, "join"},
                                                                           {FaultKind::coordinator, "coordinator"},
                                                                           {FaultKind::ban, "ban"}}};
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
constexpr std::size_t kEventsMax = 10'000;

double uniform(Random& random) {
  return static_cast<double>(random.next() >> 11U) * 0x1p-53;
}

Duration between(Random& random, Mixture::Range range) {
  return from_seconds(range.min_s + (range.max_s - range.min_s) * uniform(random));
}

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Failure(ExitCode::usage, fmt::format("{}: {}", file, what),
                "doc/operating.md shows such a file; calm and churn need none");
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

double number_of(const std::string& file, std::string_view key, const toml::node& node, double max) {
  const auto value = node.value<double>();
  if (!value || !std::isfinite(*value) || *value < 0 || *value > max)
    refuse(file, fmt::format("{} is no number from 0 to {}", key, max));
  return *value;
}

void read_rates(const std::string& file, const toml::table& table, Mixture& into) {
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    if (word == "kill")
      into.kill = number_of(file, word, node, kRateMax);
    else if (word == "leave")
      into.leave = number_of(file, word, node, kRateMax);
    else if (word == "freeze")
      into.freeze = number_of(file, word, node, kRateMax);
    else if (word == "partition")
      into.partition = number_of(file, word, node, kRateMax);
    else if (word == "blank")
      into.blank = number_of(file, word, node, 1);
    else
      refuse(file, fmt::format("[rates] knows no {}", word));
  }
}

void read_ranges(const std::string& file, const toml::table& table, Mixture& into) {
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    const toml::array* pair = node.as_array();
    if (pair == nullptr || pair->size() != 2) refuse(file, fmt::format("{} is no [shortest, longest]", word));
    const Mixture::Range range{number_of(file, word, *pair->get(0), kSecondsMax),
                               number_of(file, word, *pair->get(1), kSecondsMax)};
    if (range.max_s < range.min_s) refuse(file, fmt::format("{}: the longest is shorter than the shortest", word));
    if (word == "down")
      into.down = range;
    else if (word == "away")
      into.away = range;
    else
      refuse(file, fmt::format("[seconds] knows no {}", word));
  }
}

Fault read_event(const std::string& file, const toml::table& table) {
  Fault fault;
  bool has_kind = false;
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    if (word == "at")
      fault.at = from_seconds(number_of(file, word, node, kSecondsMax));
    else if (word == "seconds")
      fault.length = from_seconds(number_of(file, word, node, kSecondsMax));
    else if (word == "peer") {
      fault.peer = static_cast<std::size_t>(number_of(file, word, node, 1e6));
      fault.aim = Aim::peer;
    } else if (word == "blank")
      fault.blank = node.value_or(false);
    else if (word == "kind") {
      fault.kind = named(kKinds, file, node.value_or(std::string()));
      has_kind = true;
    } else if (word == "phase")
      fault.phase = named(kPhases, file, node.value_or(std::string()));
    else if (word == "victim")
      fault.aim = named(kAims, file, node.value_or(std::string()));
    else
      refuse(file, fmt::format("[[event]] knows no {}", word));
  }
  if (!has_kind) refuse(file, "an [[event]] says no kind");
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
    else if (word == "seconds" && node.is_table())
      read_ranges(file, *node.as_table(), plan.mixture);
    else if (word == "event" && node.is_array_of_tables()) {
      if (node.as_array()->size() > kEventsMax) refuse(file, fmt::format("more than {} events", kEventsMax));
      for (const auto& event : *node.as_array()) plan.events.push_back(read_event(file, *event.as_table()));
    } else
      refuse(file, fmt::format("\"{}\" is none of [rates], [seconds], [[event]]", word));
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
  } else if (fault.kind != FaultKind::join && fault.kind != FaultKind::coordinator) {
    out += fmt::format(" peer {}", fault.peer);
  }
  if (fault.phase) out += fmt::format(" in {}, not before", name(*fault.phase));
  out += fmt::format(" {}{:.3f} s", fault.phase ? "" : "at ", to_seconds(fault.at));
  if (fault.length > Duration()) out += fmt::format(" for {:.1f} s", to_seconds(fault.length));
  if (fault.blank) out += ", disk lost";
  return out;
}

FaultPlan load_faults(const std::string& preset_or_file) {
  FaultPlan plan;
  if (preset_or_file == "calm") return plan;
  if (preset_or_file != "churn") return read_file(preset_or_file);
  plan.mixture.kill = 6;
  plan.mixture.leave = 3;
  plan.mixture.freeze = 6;
  plan.mixture.partition = 6;
  return plan;
}

std::vector<Fault> draw_faults(const FaultPlan& plan, std::uint64_t seed, std::size_t peers, Duration calm_until,
                               Duration length) {
  std::vector<Fault> events = plan.events;
  const Mixture& mixture = plan.mixture;
  const std::array<std::pair<FaultKind, double>, 4> rates = {{{FaultKind::kill, mixture.kill},
                                                              {FaultKind::leave, mixture.leave},
                                                              {FaultKind::freeze, mixture.freeze},
                                                              {FaultKind::partition, mixture.partition}}};
  const double end_s = 0.75 * to_seconds(length);
  for (const auto& [kind, rate] : rates) {
    if (rate <= 0) continue;
    Random random = Random(seed).derive("sim.fault." + std::string(name(kind)));
    const double mean_gap_s = 3600 / (rate * static_cast<double>(peers));
    const bool gone = kind == FaultKind::kill || kind == FaultKind::leave;
    for (double at_s = to_seconds(calm_until);;) {
      at_s -= mean_gap_s * std::log(1 - uniform(random));
      Fault fault;
      fault.at = from_seconds(std::min(at_s, kSecondsMax));
      fault.kind = kind;
      fault.peer = random.below(peers);
      fault.aim = Aim::peer;
      fault.length = between(random, gone ? mixture.down : mixture.away);
      fault.blank = kind == FaultKind::kill && random.chance(mixture.blank);
      if (at_s + to_seconds(fault.length) >= end_s) break;
      events.push_back(fault);
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return events;
}

}  // namespace collab::sim
