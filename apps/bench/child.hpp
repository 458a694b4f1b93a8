#pragma once
// A process of our own that is told what to do in lines, and answers in lines.

#include "base/clock.hpp"

#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace collab::bench {

/// This program, started once more with other arguments. It ends when its owner does, however that ends: the socket
/// that is its standard input and output closes, and the kernel kills it.
class Child {
 public:
  /// `name`: for messages. Throws `Failure(machine)` when no process can be started.
  Child(std::string name, const std::vector<std::string>& arguments);
  /// Gives it two seconds to end by itself.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Throws `Failure(machine)` when it has ended.
  void write_line(const std::string& line);
  /// The next line. Throws `Failure(machine)`, saying how it ended, when it has; or when nothing came in time.
  std::string read_line(TimePoint deadline);
  /// Whether a line, or the end, can be read at once.
  int descriptor() const noexcept { return socket_; }
  bool has_line() const noexcept { return received_.find('\n') != std::string::npos; }

 private:
  [[noreturn]] void ended();
  void stop() noexcept;

  std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string received_;
};

/// The index of a child that has said something, or has ended. `waited[i]`: whether child i is of interest; one at
/// least is. Throws `Failure(machine)` when nobody spoke in time.
std::size_t first_to_speak(const std::vector<std::unique_ptr<Child>>& children, const std::vector<bool>& waited,
                           TimePoint deadline);

/// A whole line from standard input into `line`; false when whoever started us has gone.
bool read_order(std::string& line);
/// A whole line to standard output.
void answer(const std::string& line);

}  // namespace collab::bench
