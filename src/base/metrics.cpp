#include "base/metrics.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace collab {
namespace {

constexpr std::size_t kBuckets = 16;  // 1 ms, 2 ms … 32.8 s; the rest is in +Inf

double bucket_limit(std::size_t i) {
  return 0.001 * static_cast<double>(1U << i);
}

/// Of a label; a line of help keeps its quotation marks.
std::string escaped(std::string_view text, bool quotes = true) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (c == '"' && quotes)) out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string label_text(std::string_view run, const Metrics::Labels& labels, std::string_view more = {}) {
  std::string text = fmt::format("{{run=\"{}\"", escaped(run));
  for (const auto& [name, value] : labels) text += fmt::format(",{}=\"{}\"", name, escaped(value));
  if (!more.empty()) text += fmt::format(",{}", more);
  return text + "}";
}

}  // namespace

Metrics::Series& Metrics::series(std::string_view name, Kind kind, const Labels& labels) {
  auto found = families_.find(name);
  if (found == families_.end()) found = families_.emplace(std::string(name), Family{kind, {}}).first;
  Series& series = found->second.series[labels];
  if (kind == Kind::histogram && series.buckets.empty()) series.buckets.resize(kBuckets);
  return series;
}

void Metrics::add(std::string_view name, double amount, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  series(name, Kind::counter, labels).value += amount;
}

void Metrics::set(std::string_view name, double value, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  series(name, Kind::gauge, labels).value = value;
}

void Metrics::observe(std::string_view name, double value, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Series& into = series(name, Kind::histogram, labels);
  into.value += value;
  ++into.count;
  for (std::size_t i = 0; i < kBuckets; ++i) into.buckets[i] += value <= bucket_limit(i) ? 1 : 0;
}

void Metrics::describe(std::string_view name, std::string_view help) {
  const std::lock_guard lock(mutex_);
  help_.insert_or_assign(std::string(name), std::string(help));
}

double Metrics::value(std::string_view name, const Labels& labels) const {
  const std::lock_guard lock(mutex_);
  const auto family = families_.find(name);
  if (family == families_.end()) return 0;
  const auto found = family->second.series.find(labels);
  return found == family->second.series.end() ? 0 : found->second.value;
}

std::string Metrics::prometheus(std::string_view run) const {
  constexpr std::array<std::string_view, 3> kKinds = {"counter", "gauge", "histogram"};
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    const auto help = help_.find(name);
    if (help != help_.end()) out += fmt::format("# HELP {} {}\n", name, escaped(help->second, false));
    out += fmt::format("# TYPE {} {}\n", name, kKinds[static_cast<std::size_t>(family.kind)]);
    for (const auto& [labels, series] : family.series) {
      if (family.kind != Kind::histogram) {
        out += fmt::format("{}{} {}\n", name, label_text(run, labels), number(series.value));
        continue;
      }
      for (std::size_t i = 0; i < kBuckets; ++i) {
        const std::string limit = fmt::format("le=\"{}\"", bucket_limit(i));
        out += fmt::format("{}_bucket{} {}\n", name, label_text(run, labels, limit), series.buckets[i]);
      }
      out += fmt::format("{}_bucket{} {}\n", name, label_text(run, labels, "le=\"+Inf\""), series.count);
      out += fmt::format("{}_sum{} {}\n", name, label_text(run, labels), number(series.value));
      out += fmt::format("{}_count{} {}\n", name, label_text(run, labels), series.count);
    }
  }
  return out;
}

}  // namespace collab
