#pragma once
// How the programs of one user talk to the node that runs in a home folder: `collab-peer status`, `collab-peer leave`.

#include "base/clock.hpp"
#include "base/log.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace collab::monitor {

inline constexpr std::string_view kStatusSocketName = "status.sock";

/// What the node does when asked. Both run on its loop and must not wait.
struct StatusCommands {
  std::function<std::string()> state;  ///< one line of JSON: that of `/api/v1/state`
  std::function<void()> leave;         ///< begin to leave as planned
};

struct StatusOptions {
  std::size_t clients_max = 16;                ///< the next is just closed
  Duration timeout = std::chrono::seconds(1);  ///< for a command to come; without one the state is sent
  Duration send_timeout = std::chrono::seconds(5);
};

/// Answers on `home/status.sock`, which only this user may open (mode 0600). A client sends one line and gets one line
/// of JSON, then the end: "status", an empty line or nothing: the state; "leave": {"leaving":true,…}; else an error.
/// Thread safety: none; belongs to the node's loop.
class StatusSocket {
 public:
  /// Takes the place at once. A socket that a dead process left is replaced. Throws `Failure(machine)` when a live
  /// process has it (named by its pid: one node per home), when something else is in its place, or it cannot be made.
  StatusSocket(const asio::any_io_executor& loop, Clock& clock, Log& log, const std::filesystem::path& home,
               StatusCommands commands, StatusOptions options = {});
  /// Removes the file, unless another process has replaced it.
  ~StatusSocket();
  StatusSocket(const StatusSocket&) = delete;
  StatusSocket& operator=(const StatusSocket&) = delete;

  /// Answers until cancelled.
  Task<> run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collab::monitor
