#include "node/mode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace collab::node {
namespace {

constexpr std::uint64_t kInnerStepsMax = 1'000'000;
constexpr std::uint64_t kFragmentsMax = 256;
constexpr std::size_t kStatisticsMax = 4;
constexpr std::size_t kStatisticBytesMax = 32;

/// The text up to the next `end`, which is taken off as well.
std::string_view take_word(std::string_view& text, char end = ',') {
  const std::size_t at = text.find(end);
  const std::string_view word = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return word;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_names(std::string_view text, std::vector<std::string>& names) {
  names.clear();
  while (!text.empty() && names.size() <= kStatisticsMax) names.emplace_back(take_word(text, '+'));
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return std::ranges::all_of(names, [&](const std::string& name) {
    return !name.empty() && name.size() <= kStatisticBytesMax && std::ranges::all_of(name, plain) &&
           std::ranges::count(names, name) == 1;
  });
}

bool read_setting(std::string_view word, bool outer, Mode& mode) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  if (name == "inner_steps") return read(value, mode.inner_steps);
  if (name == "average_statistics") return read_names(value, mode.statistics);
  if (name == "state_averaging_every") return read(value, mode.statistics_every);
  if (!outer) return false;
  if (name == "rate") return read(value, mode.outer_rate);
  if (name == "momentum") return read(value, mode.outer_momentum);
  if (name == "fragments") return read(value, mode.fragments);
  if (name == "overlap") return read(value, mode.overlap);
  if (name == "mix") return read(value, mode.mix);
  return false;
}

bool in_range(const Mode& mode) {
  const bool steps = mode.inner_steps >= 1 && mode.inner_steps <= kInnerStepsMax;
  const bool outer = mode.outer_rate > 0 && mode.outer_rate <= 10 && mode.outer_momentum >= 0 &&
                     mode.outer_momentum < 1 && mode.mix > 0 && mode.mix <= 1;
  const bool fragments =
      mode.fragments >= 1 && mode.fragments <= kFragmentsMax && mode.inner_steps % mode.fragments == 0;
  const bool statistics = mode.statistics.size() <= kStatisticsMax && mode.statistics_every <= kInnerStepsMax;
  return steps && outer && fragments && statistics && mode.overlap < std::max(mode.epoch_steps(), std::uint64_t(1));
}

/// "off" has one way to be written.
void settle_statistics(bool every_is_given, Mode& mode) {
  if (!every_is_given) mode.statistics_every = mode.statistics.empty() ? 0 : 1;
  if (mode.statistics_every == 0) mode.statistics.clear();
  if (mode.statistics.empty()) mode.statistics_every = 0;
}

}  // namespace

Result<Mode> parse_mode(std::string_view text) {
  if (text == "synchronous") return Mode();
  if (text.ends_with(',')) return Errc::bad_request;
  const std::string_view name = take_word(text);
  if (name != "local" && name != "diloco") return Errc::bad_request;
  Mode mode = name == "local" ? Mode::local() : Mode::diloco();
  bool every_is_given = false;
  while (!text.empty()) {
    const std::string_view word = take_word(text);
    if (!read_setting(word, name == "diloco", mode)) return Errc::bad_request;
    every_is_given |= word.starts_with("state_averaging_every");
  }
  settle_statistics(every_is_given, mode);
  if (!in_range(mode)) return Errc::bad_request;
  return mode;
}

std::string to_string(const Mode& mode) {
  if (mode == Mode()) return "synchronous";
  Mode outer = mode;
  outer.statistics.clear();
  outer.statistics_every = 0;
  std::string text;
  if (outer == Mode::local(mode.inner_steps)) {
    text = mode.inner_steps == 1 ? "local" : fmt::format("local,inner_steps={}", mode.inner_steps);
  } else {
    text = fmt::format("diloco,inner_steps={},rate={},momentum={}", mode.inner_steps, mode.outer_rate,
                       mode.outer_momentum);
  }
  if (mode.fragments > 1) text += fmt::format(",fragments={}", mode.fragments);
  if (mode.overlap > 0) text += fmt::format(",overlap={}", mode.overlap);
  if (mode.mix < 1) text += fmt::format(",mix={}", mode.mix);
  if (mode.statistics.empty()) return text;
  return text + fmt::format(",average_statistics={},state_averaging_every={}", fmt::join(mode.statistics, "+"),
                            mode.statistics_every);
}

}  // namespace collab::node
