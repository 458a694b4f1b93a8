#include "node/mode.hpp"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace collab::node {
namespace {

constexpr std::uint64_t kInnerStepsMax = 1'000'000;

/// The text up to the next comma, which is taken off as well.
std::string_view take_word(std::string_view& text) {
  const std::size_t comma = text.find(',');
  const std::string_view word = text.substr(0, comma);
  text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  return word;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_setting(std::string_view word, bool outer, Mode& mode) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  if (name == "inner_steps") return read(value, mode.inner_steps);
  if (!outer) return false;
  if (name == "rate") return read(value, mode.outer_rate);
  if (name == "momentum") return read(value, mode.outer_momentum);
  return false;
}

bool in_range(const Mode& mode) {
  return mode.inner_steps >= 1 && mode.inner_steps <= kInnerStepsMax && mode.outer_rate > 0 && mode.outer_rate <= 10 &&
         mode.outer_momentum >= 0 && mode.outer_momentum < 1;
}

}  // namespace

Result<Mode> parse_mode(std::string_view text) {
  if (text == "synchronous") return Mode();
  if (text.ends_with(',')) return Errc::bad_request;
  const std::string_view name = take_word(text);
  if (name != "local" && name != "diloco") return Errc::bad_request;
  Mode mode = name == "local" ? Mode::local() : Mode::diloco();
  while (!text.empty()) {
    if (!read_setting(take_word(text), name == "diloco", mode)) return Errc::bad_request;
  }
  if (!in_range(mode)) return Errc::bad_request;
  return mode;
}

std::string to_string(const Mode& mode) {
  if (mode == Mode()) return "synchronous";
  if (mode == Mode::local()) return "local";
  if (mode == Mode::local(mode.inner_steps)) return fmt::format("local,inner_steps={}", mode.inner_steps);
  return fmt::format("diloco,inner_steps={},rate={},momentum={}", mode.inner_steps, mode.outer_rate,
                     mode.outer_momentum);
}

}  // namespace collab::node
