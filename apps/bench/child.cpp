#include "child.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace collab::bench {
namespace {

constexpr std::size_t kLineBytesMax = std::size_t(1) << 20U;
constexpr int kEndChecks = 200;  // every 10 ms, then it is killed
constexpr int kNoExec = 127;

Failure machine_failure(const std::string& what) {
  return {ExitCode::machine, what, "fewer --peers or --floats, and look at the messages above"};
}

/// Milliseconds for poll(); 0 when the deadline has passed.
int left_ms(TimePoint deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<long>(left + 1, 0, 3'600'000));
}

/// In the new process: nothing but system calls until exec.
[[noreturn]] void become(int socket, pid_t parent, const char* program, char* const* arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNoExec);                                        // it died before we asked
  if (socket <= STDOUT_FILENO) socket = ::fcntl(socket, F_DUPFD, STDERR_FILENO + 1);  // ours were closed
  ::dup2(socket, STDIN_FILENO);
  ::dup2(socket, STDOUT_FILENO);
  ::execv(program, arguments);
  ::_exit(kNoExec);
}

/// What a program that shows its failures by cli::run_program ends with, and a person can mend.
bool told_why(int code) {
  return code >= static_cast<int>(ExitCode::usage) && code <= static_cast<int>(ExitCode::data);
}

}  // namespace

std::filesystem::path program_of_build(const std::string& name, const std::string& build_folder) {
  const auto here = std::filesystem::read_symlink(kThisProgram).parent_path();
  for (const auto& file : {here / name, here / ".." / build_folder / name})
    if (std::filesystem::exists(file)) return file;
  return {};
}

Child::Child(std::string name, const std::vector<std::string>& arguments, const std::filesystem::path& program)
    : name_(std::move(name)) {
  std::vector<std::string> words = {program == kThisProgram ? "collab-bench" : program.filename().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw machine_failure(fmt::format("no socket for {}: {}", name_, std::strerror(errno)));
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(ends[1], parent, program.c_str(), pointers.data());
  const int why = errno;
  ::close(ends[1]);
  socket_ = ends[0];
  if (pid_ > 0) return;
  ::close(socket_);
  throw machine_failure(fmt::format("{} cannot be started: {}", name_, std::strerror(why)));
}

Child::~Child() {
  stop();
}

void Child::stop() noexcept {
  ::close(socket_);
  for (int i = 0; pid_ > 0 && i < kEndChecks; ++i) {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::terminate() noexcept {
  strike(SIGTERM);
}

void Child::strike(int signal) noexcept {
  if (pid_ > 0) ::kill(pid_, signal);
}

void Child::ended() {
  int status = 0;
  ::kill(pid_, SIGKILL);  // it closed its end; most often it is dead already, or on its way with a code of its own
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFSIGNALED(status)) throw machine_failure(fmt::format("{} was ended by signal {}", name_, WTERMSIG(status)));
  const int code = WEXITSTATUS(status);
  const std::string what = fmt::format("{} ended with exit code {}", name_, code);
  if (!told_why(code)) throw machine_failure(what);
  throw Failure(static_cast<ExitCode>(code), what, "what its own message above says");
}

void Child::write_line(const std::string& line) {
  const std::string text = line + '\n';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ended();
    sent += static_cast<std::size_t>(n);
  }
}

bool Child::receive(int flags) {
  char buffer[4096];
  const ssize_t n = ::recv(socket_, buffer, sizeof buffer, flags);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  if (n <= 0) ended();
  received_.append(buffer, static_cast<std::size_t>(n));
  return true;
}

void Child::skip_lines() {
  while (receive(MSG_DONTWAIT)) received_.clear();
}

std::string Child::read_line(TimePoint deadline) {
  while (!has_line()) {
    if (received_.size() > kLineBytesMax) throw machine_failure(fmt::format("{} talks too much", name_));
    pollfd wait{socket_, POLLIN, 0};
    const int ready = ::poll(&wait, 1, left_ms(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) throw machine_failure(fmt::format("{} did not answer in time", name_));
    receive(0);
  }
  const std::size_t end = received_.find('\n');
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

namespace {

/// The index of a child that has said something, or has ended.
std::size_t first_to_speak(const Children& children, const std::vector<bool>& waited, TimePoint deadline, int stop) {
  std::vector<pollfd> descriptors;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (waited[i] && children[i]->has_line()) return i;
    descriptors.push_back({waited[i] ? children[i]->descriptor() : -1, POLLIN, 0});
  }
  descriptors.push_back({stop, POLLIN, 0});
  for (;;) {
    const int ready = ::poll(descriptors.data(), descriptors.size(), left_ms(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) throw machine_failure("the peers did not answer in time");
    if (descriptors.back().revents != 0)
      throw Failure(ExitCode::interrupted, "stopped before the figures were complete", "the same command once more");
    const auto said =
        std::find_if(descriptors.begin(), descriptors.end(), [](const pollfd& d) { return d.revents != 0; });
    return static_cast<std::size_t>(said - descriptors.begin());
  }
}

}  // namespace

std::vector<std::string> hear(Children& children, std::vector<bool> whom, TimePoint deadline, int stop) {
  assert(whom.size() == children.size());
  std::vector<std::string> answers(children.size());
  for (auto left = std::count(whom.begin(), whom.end(), true); left > 0; --left) {
    const std::size_t i = first_to_speak(children, whom, deadline, stop);
    answers[i] = children[i]->read_line(deadline);
    whom[i] = false;
  }
  return answers;
}

bool read_order(std::string& line) {
  return static_cast<bool>(std::getline(std::cin, line));
}

void answer(const std::string& line) {
  std::cout << line << '\n' << std::flush;
}

}  // namespace collab::bench
