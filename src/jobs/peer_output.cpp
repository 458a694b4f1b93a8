#include "jobs/peer_output.hpp"

#include "cli/progress_line.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>

namespace collab::jobs {
namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr std::size_t kPlainColumns = 200;

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    return text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos;
  }
  return false;
}

cli::ProgressFacts facts_of(const optim::Progress& progress, const std::string& run_id) {
  cli::ProgressFacts facts;
  facts.run_id = run_id;
  facts.epoch = progress.epoch;
  facts.loss = progress.loss;
  facts.peers = progress.peers;
  facts.samples = progress.samples;
  facts.target_batch = progress.target_batch;
  facts.eta_s = progress.eta_s;
  facts.own_samples = progress.own_samples;
  facts.up_bytes_per_s = progress.up_bytes_per_s;
  facts.down_bytes_per_s = progress.down_bytes_per_s;
  return facts;
}

}  // namespace

PeerOutput::PeerOutput(OutputMode mode, std::string run_id)
    : mode_(mode), run_id_(std::move(run_id)), columns_(cli::terminal_columns()), unicode_(speaks_utf8()) {}

void PeerOutput::clear_line() {
  if (!line_shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  line_shown_ = false;
}

void PeerOutput::done(const std::string& text) {
  if (mode_ != OutputMode::people) return;
  clear_line();
  fmt::print(stderr, "{} {}\n", unicode_ ? "✓" : "+", text);
}

void PeerOutput::note(const std::string& text) {
  if (mode_ == OutputMode::json) return;
  clear_line();
  fmt::print(stderr, "{} {}\n", unicode_ ? "•" : "!", text);
}

void PeerOutput::json(const nlohmann::json& object) {
  if (mode_ != OutputMode::json) return;
  fmt::print("{}\n", object.dump());
  std::fflush(stdout);
}

bool PeerOutput::is_time() {
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_at_ < kPeriod) return false;
  shown_at_ = now;
  return true;
}

void PeerOutput::progress(const optim::Progress& progress) {
  if (mode_ != OutputMode::people || !columns_ || !is_time()) return;
  columns_ = cli::terminal_columns().value_or(*columns_);
  clear_line();
  fmt::print(stderr, "{}", cli::progress_line(facts_of(progress, run_id_), *columns_ - 1, unicode_));
  std::fflush(stderr);
  line_shown_ = true;
}

void PeerOutput::epoch(const optim::Progress& over) {
  if (mode_ != OutputMode::people || columns_ || !is_time()) return;
  fmt::print(stderr, "{}\n", cli::progress_line(facts_of(over, run_id_), kPlainColumns, unicode_));
}

}  // namespace collab::jobs
