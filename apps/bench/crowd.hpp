#pragma once
// Many peers in one process: real nodes that say how they train, and do not.

#include "base/log.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace collab::bench {

struct CrowdOptions {
  std::size_t peers = 0;
  double epoch_seconds = 60;  ///< all peers end one at the same time
  std::string run;            ///< NAME#KEY
  std::string address;        ///< of a member
  LogLevel log_level = LogLevel::warn;
};

/// Joins from construction on; leaves at destruction. Any thread.
class Crowd {
 public:
  explicit Crowd(CrowdOptions options);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  /// Throws what ended a peer.
  void check();
  /// That have joined.
  std::size_t members() const noexcept;
  /// Follows the dashboard at HOST:PORT as its page in a browser does.
  void watch(const std::string& dashboard);
  /// Received by all that watch.
  std::uint64_t dashboard_bytes() const noexcept;

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace collab::bench
