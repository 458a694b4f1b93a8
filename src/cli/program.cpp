#include "cli/program.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <malloc.h>
#include <new>
#include <sys/eventfd.h>
#include <unistd.h>

namespace collab::cli {
namespace {

// a signal handler reaches nothing but globals
volatile std::sig_atomic_t signals_seen = 0;
int wake_descriptor = -1;

void on_signal(int) {
  if (signals_seen > 0) _exit(static_cast<int>(ExitCode::interrupted));
  signals_seen = 1;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_descriptor, &one, sizeof one);
}

constexpr int kKeptBytes = 32 << 20U;  // at the end of each heap
constexpr int kMappedFrom = 4 << 20U;  // longer blocks are the system's own, and go back to it at once

/// A round moves hundreds of megabytes in messages of some hundred kilobytes. Left to itself the C library asks the
/// system for memory for each and gives it back: new pages every time, which cost as much as copying them.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

}  // namespace

std::string describe(std::string_view program, const Failure& failure) {
  return fmt::format("{}: {}\n", program, failure.what());
}

int run_program(std::string_view program, const std::function<int()>& body) {
  keep_freed_memory();
  try {
    return body();
  } catch (const Failure& failure) {
    fmt::print(stderr, "{}", describe(program, failure));
    return static_cast<int>(failure.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: out of memory. Try: a smaller --preset or --microbatch, or fewer other programs\n",
               program);
    return static_cast<int>(ExitCode::machine);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: internal error: {}. This is a bug: please report it with the command and the log file\n",
               program, e.what());
    return static_cast<int>(ExitCode::bug);
  }
}

Interrupt::Interrupt(BrokenPipe pipe) {
  signals_seen = 0;
  wake_descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, pipe == BrokenPipe::fails_write ? SIG_IGN : SIG_DFL);
}

Interrupt::~Interrupt() {
  if (signals_seen > 0) return;  // a program that was asked is ending: the second signal means the same until it has
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  ::close(wake_descriptor);
}

bool Interrupt::asked() const noexcept {
  return signals_seen > 0;
}

int Interrupt::descriptor() const noexcept {
  return wake_descriptor;
}

LogLevel parse_log_level(std::string_view text) {
  if (text == "debug") return LogLevel::debug;
  if (text == "info") return LogLevel::info;
  if (text == "warn") return LogLevel::warn;
  if (text == "error") return LogLevel::error;
  if (text == "off") return LogLevel::off;
  throw Failure(ExitCode::usage, fmt::format("log-level cannot be \"{}\"", text), "debug, info, warn, error or off");
}

}  // namespace collab::cli
