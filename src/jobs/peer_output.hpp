#pragma once
// What collab-peer says: lines for people, JSON lines for programs.

#include "optim/collaboration.hpp"
#include "optim/optimizer.hpp"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::jobs {

enum class OutputMode : std::uint8_t { people, json, quiet };

/// One voice per program. People get lines on stderr, of which the last is rewritten each second on a terminal;
/// programs get JSON objects on stdout, one a line.
class PeerOutput {
 public:
  PeerOutput(OutputMode mode, std::string run_id);

  /// A step of the start, with a tick.
  void done(const std::string& text);
  /// Something that people should read though it is no failure.
  void note(const std::string& text);
  void json(const nlohmann::json& object);
  bool wants_json() const noexcept { return mode_ == OutputMode::json; }

  /// At most once a second on a terminal; nothing elsewhere.
  void progress(const optim::Progress& progress);
  /// An epoch is over, and had these samples: where there is no terminal a plain line, at most once a second.
  void epoch(const optim::Progress& over);

 private:
  void clear_line();
  /// For the next line; then it is not for a second.
  bool is_time();

  OutputMode mode_;
  std::string run_id_;
  std::optional<std::size_t> columns_;
  bool unicode_;
  bool line_shown_ = false;
  std::chrono::steady_clock::time_point shown_at_{};
};

}  // namespace collab::jobs
