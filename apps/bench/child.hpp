#pragma once
// A process of our own that is told what to do in lines, and answers in lines.

#include "base/clock.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace collab::bench {

inline constexpr const char* kThisProgram = "/proc/self/exe";

/// A program of this build: beside this one when installed, else where meson puts it. Empty: it was not built.
std::filesystem::path program_of_build(const std::string& name, const std::string& build_folder);

/// This program, started once more with other arguments, or another one. It ends when its owner does, however that
/// ends: the socket that is its standard input and output closes, and the kernel kills it.
class Child {
 public:
  /// `name`: for messages. Throws `Failure(machine)` when no process can be started.
  Child(std::string name, const std::vector<std::string>& arguments,
        const std::filesystem::path& program = kThisProgram);
  /// Gives it two seconds to end by itself.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const noexcept { return pid_; }
  /// Asks it to end by SIGTERM.
  void terminate() noexcept;
  /// SIGKILL, SIGSTOP, SIGCONT: what a measurement does to it.
  void strike(int signal) noexcept;

  /// Throws as `read_line` does when it has ended.
  void write_line(const std::string& line);
  /// The next line. Throws `Failure`, saying how it ended, when it has: with its own exit code if it said what was
  /// wrong (it told so on stderr), else `machine`; also `machine` when nothing came in time.
  std::string read_line(TimePoint deadline);
  /// Reads and forgets what it has said so far, so that it never waits for us. Throws as `read_line` does.
  void skip_lines();
  /// Whether a line, or the end, can be read at once.
  int descriptor() const noexcept { return socket_; }
  bool has_line() const noexcept { return received_.find('\n') != std::string::npos; }

 private:
  [[noreturn]] void ended();
  void stop() noexcept;
  /// Reads once. False: nothing was there, with `flags` MSG_DONTWAIT.
  bool receive(int flags);

  std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string received_;
};

using Children = std::vector<std::unique_ptr<Child>>;

/// Waits for one line from each child i with `whom[i]`: their lines, at the places of those who said them. Who dies is
/// noticed at once. `stop`: a descriptor; when it becomes readable `Failure(interrupted)` is thrown; -1: none.
/// Throws as `Child::read_line` does.
std::vector<std::string> hear(Children& children, std::vector<bool> whom, TimePoint deadline, int stop = -1);

/// A whole line from standard input into `line`; false when whoever started us has gone.
bool read_order(std::string& line);
/// A whole line to standard output.
void answer(const std::string& line);

}  // namespace collab::bench
