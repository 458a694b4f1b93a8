#include "monitor/status_client.hpp"

#include "base/error.hpp"
#include "monitor/status_socket.hpp"
#include "monitor/unix_path.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/time.h>
#include <unistd.h>

namespace collab::monitor {
namespace {

constexpr std::size_t kAnswerBytesMax = std::size_t(16) << 20U;

struct Socket {
  int number = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Socket() = default;
  ~Socket() {
    if (number >= 0) ::close(number);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
};

[[noreturn]] void unreachable(const std::filesystem::path& home, const std::string& why) {
  throw Failure(ExitCode::unreachable, fmt::format("no node answers in {}: {}", home.string(), why),
                "start one with collab-peer --run-id NAME, or name the folder of another one by --home");
}

std::string read_answer(int socket, const std::filesystem::path& home) {
  std::string answer;
  std::array<char, 16384> chunk{};
  for (;;) {
    const ssize_t got = ::recv(socket, chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) unreachable(home, errno == EAGAIN ? "it is there, but silent" : std::strerror(errno));
    if (got == 0) break;
    answer.append(chunk.data(), static_cast<std::size_t>(got));
    if (answer.size() > kAnswerBytesMax) unreachable(home, "its answer does not end");
  }
  if (!answer.ends_with('\n')) unreachable(home, "it ended in the middle of its answer");
  answer.pop_back();
  return answer;
}

}  // namespace

std::string ask_node(const std::filesystem::path& home, std::string_view command, std::chrono::milliseconds patience) {
  std::error_code missing;
  if (!std::filesystem::exists(home / kStatusSocketName, missing)) unreachable(home, "none runs there");
  const UnixPath path(home, kStatusSocketName);
  const Socket socket;
  timeval limit{};
  limit.tv_sec = patience.count() / 1000;
  limit.tv_usec = patience.count() % 1000 * 1000;
  ::setsockopt(socket.number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.number, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(socket.number, path.address(), path.size()) != 0)
    unreachable(home, errno == ECONNREFUSED ? "the one that ran there has ended" : std::strerror(errno));
  const std::string line = std::string(command) + "\n";
  if (::send(socket.number, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    unreachable(home, std::strerror(errno));
  return read_answer(socket.number, home);
}

}  // namespace collab::monitor
