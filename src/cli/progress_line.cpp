#include "cli/progress_line.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace collab::cli {
namespace {

constexpr std::size_t kBarCells = 10;

/// 2710 -> "2,710".
std::string grouped(std::uint64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string bar(double fraction, bool unicode) {
  const auto full = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * kBarCells);
  std::string out;
  for (std::size_t i = 0; i < kBarCells; ++i) out += unicode ? (i < full ? "▓" : "░") : (i < full ? "#" : "-");
  return out;
}

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string progress_line(const ProgressFacts& facts, std::size_t columns, bool unicode) {
  const double fraction = facts.target_batch == 0 ? 0 : double(facts.samples) / double(facts.target_batch);
  const double share = facts.samples == 0 ? 0 : 100 * double(facts.own_samples) / double(facts.samples);
  std::vector<std::string> fields = {facts.run_id, "epoch " + grouped(facts.epoch)};
  if (std::isfinite(facts.loss)) fields.push_back(fmt::format("loss {:.3f}", facts.loss));
  fields.push_back(fmt::format("{} peer{}", facts.peers, facts.peers == 1 ? "" : "s"));
  fields.push_back(
      fmt::format("{} {}/{}", bar(fraction, unicode), grouped(facts.samples), grouped(facts.target_batch)));
  if (std::isfinite(facts.eta_s)) fields.push_back("next step in " + human_seconds(facts.eta_s));
  fields.push_back(fmt::format("you {} ({:.1f} %)", grouped(facts.own_samples), share));
  fields.push_back(fmt::format("{}{:.1f} {}{:.1f} MB/s", unicode ? "↑" : "up ", facts.up_bytes_per_s / 1e6,
                               unicode ? "↓" : "down ", facts.down_bytes_per_s / 1e6));
  std::string line;
  for (const std::string& field : fields) {
    const std::string longer = line.empty() ? field : line + "  " + field;
    if (width(longer) > columns) break;
    line = longer;
  }
  return line;
}

std::optional<std::size_t> terminal_columns() {
  if (::isatty(STDERR_FILENO) == 0) return std::nullopt;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace collab::cli
