#include "monitor/status_socket.hpp"

#include "monitor/status_client.hpp"
#include "monitor/unix_path.hpp"
#include "served_loop.hpp"
#include "support/temp_folder.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

using std::chrono::milliseconds;

StatusOptions quick_status() {
  StatusOptions options;
  options.timeout = milliseconds(100);
  options.send_timeout = milliseconds(300);
  return options;
}

/// A node of `home` whose state is "{}", or as long as the test wants.
class Node {
 public:
  explicit Node(const std::filesystem::path& home, std::string state = "{}") {
    StatusCommands commands;
    commands.state = [state] { return state; };
    commands.leave = [this] { asked_to_leave = true; };
    loop_.on_loop([&] {
      socket_ = std::make_unique<StatusSocket>(loop_.executor(), loop_.clock, log_, home, std::move(commands),
                                               quick_status());
    });
    loop_.serve(socket_->run());
  }
  ~Node() { loop_.stop(); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::atomic<bool> asked_to_leave = false;

 private:
  test::ServedLoop loop_;
  Log log_;
  std::unique_ptr<StatusSocket> socket_;
};

/// What a node says to a client that sends `bytes` and reads to the end.
std::string talk(const std::filesystem::path& home, std::string_view bytes) {
  const UnixPath path(home, kStatusSocketName);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{5, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string answer;
  if (::connect(socket, path.address(), path.size()) == 0) {
    if (!bytes.empty()) ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char chunk[4096];
    for (ssize_t got; (got = ::recv(socket, chunk, sizeof chunk, 0)) > 0;)
      answer.append(chunk, static_cast<std::size_t>(got));
  }
  ::close(socket);
  return answer;
}

}  // namespace

TEST_CASE("status socket: only its user may open it, and its file goes with it") {
  const test::TempFolder home;
  {
    const Node node(home.path());
    struct stat there {};
    REQUIRE(::lstat((home / "status.sock").c_str(), &there) == 0);
    CHECK(S_ISSOCK(there.st_mode));
    CHECK((there.st_mode & 07777U) == 0600);
    CHECK(ask_node(home.path(), "status") == "{}");
  }
  CHECK_FALSE(std::filesystem::exists(home / "status.sock"));
}

TEST_CASE("status socket: the state without a word, leave by that word, else an error") {
  const test::TempFolder home;
  const Node node(home.path());
  CHECK(talk(home.path(), "") == "{}\n");  // silent: after the timeout
  CHECK(talk(home.path(), "\n") == "{}\n");
  CHECK(talk(home.path(), "status\n") == "{}\n");
  CHECK(talk(home.path(), "shutdown\n").find("\"code\":\"bad_request\"") != std::string::npos);
  CHECK(talk(home.path(), std::string(5000, 'x')).find("\"code\":\"bad_request\"") != std::string::npos);
  CHECK_FALSE(node.asked_to_leave);
  CHECK(ask_node(home.path(), "leave").find("\"leaving\":true") != std::string::npos);
  CHECK(node.asked_to_leave);
}

TEST_CASE("status socket: a state of megabytes arrives whole") {
  const test::TempFolder home;
  const std::string state(std::size_t(3) << 20U, 's');
  const Node node(home.path(), state);
  CHECK(ask_node(home.path(), "status") == state);
}

TEST_CASE("status socket: clients that send nothing or read nothing hold nobody up for long") {
  const test::TempFolder home;
  const Node node(home.path(), std::string(std::size_t(3) << 20U, 's'));
  const UnixPath path(home.path(), kStatusSocketName);
  std::vector<int> stuck;
  for (int i = 0; i < 16; ++i) {
    stuck.push_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(stuck.back(), path.address(), path.size()) == 0);
    REQUIRE(::send(stuck.back(), "\n", 1, MSG_NOSIGNAL) == 1);
  }
  for (const int socket : stuck) {
    pollfd hung_up{socket, 0, 0};
    CHECK(::poll(&hung_up, 1, 5000) == 1);
    CHECK((hung_up.revents & POLLHUP) != 0);
  }
  CHECK(ask_node(home.path(), "status").size() == std::size_t(3) << 20U);
  for (const int socket : stuck) ::close(socket);
}

TEST_CASE("status socket: a second node of one home is refused, with the pid of the first") {
  const test::TempFolder home;
  const Node node(home.path());
  try {
    const Node second(home.path());
    FAIL("two nodes in one home");
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::machine);
    CHECK(failure.cause().find("process " + std::to_string(::getpid()) + " ") != std::string::npos);
    CHECK(failure.remedy().find("collab-peer leave --home ") != std::string::npos);
  }
  CHECK(ask_node(home.path(), "status") == "{}");
}

TEST_CASE("status socket: what a dead process left is replaced, anything else is not touched") {
  const test::TempFolder home;
  {
    const UnixPath path(home.path(), kStatusSocketName);
    const int left = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::bind(left, path.address(), path.size()) == 0);
    ::close(left);
  }
  CHECK_THROWS_WITH_AS(ask_node(home.path(), "status"), doctest::Contains("has ended"), Failure);
  {
    const Node node(home.path());
    CHECK(ask_node(home.path(), "status") == "{}");
  }
  test::write(home / "status.sock", "precious");
  CHECK_THROWS_WITH_AS(Node(home.path()), doctest::Contains("no socket"), Failure);
  CHECK(test::content(home / "status.sock") == "precious");
}

TEST_CASE("status socket: it leaves the file of a successor alone") {
  const test::TempFolder home;
  {
    const Node node(home.path());
    std::filesystem::remove(home / "status.sock");
    test::write(home / "status.sock", "another's");
  }
  CHECK(test::content(home / "status.sock") == "another's");
}

TEST_CASE("status socket: a home with a long name works") {
  const test::TempFolder folder;
  const std::filesystem::path home = folder.path() / std::string(200, 'h');
  std::filesystem::create_directory(home);
  const Node node(home);
  CHECK(ask_node(home, "status") == "{}");
}

TEST_CASE("status client: without a node the user hears how to start one") {
  const test::TempFolder home;
  try {
    ask_node(home.path(), "status");
    FAIL("nobody answered");
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::unreachable);
    CHECK(failure.remedy().find("--home") != std::string::npos);
  }
}

}  // namespace collab::monitor
