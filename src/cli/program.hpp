#pragma once
// What every program does the same way: signals, failures shown to a person, exit codes.

#include "base/error.hpp"
#include "base/log.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace collab::cli {

/// Runs `body` and turns what it throws into a message of what failed, why and what to do, and an exit code. A Failure
/// is shown as it is; anything else is our bug, and says how to report it. Sets how the process's memory is kept.
int run_program(std::string_view program, const std::function<int()>& body);

/// The message of run_program, for those who go on.
std::string describe(std::string_view program, const Failure& failure);

/// When whoever reads what the program writes has gone: an error of that write, as programs with sockets need it, or
/// the quiet end of one that only prints.
enum class BrokenPipe : std::uint8_t { fails_write, ends_program };

/// SIGINT and SIGTERM: the first asks, the second ends the process at once with code 130. One per process, made before
/// threads start.
class Interrupt {
 public:
  explicit Interrupt(BrokenPipe = BrokenPipe::fails_write);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// Whether the first signal has come. Any thread.
  bool asked() const noexcept;
  /// A descriptor that becomes readable with the first signal: for a loop that waits.
  int descriptor() const noexcept;
};

LogLevel parse_log_level(std::string_view text);

}  // namespace collab::cli
