#include "monitor/status_socket.hpp"

#include "base/task_group.hpp"
#include "monitor/json.hpp"
#include "monitor/unix_path.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace collab::monitor {

using Local = asio::local::stream_protocol;

namespace {

constexpr std::size_t kCommandBytesMax = 64;
constexpr Duration kAcceptAgain = std::chrono::milliseconds(100);

[[noreturn]] void cannot_make(const std::filesystem::path& file, const std::string& why) {
  throw Failure(ExitCode::machine, fmt::format("cannot make {}: {}", file.string(), why),
                "check the folder's permissions, or choose another --home");
}

/// Nobody else looks at or takes the place meanwhile. Waits for those who do, who do not wait themselves.
class FolderLock {
 public:
  explicit FolderLock(int folder) : folder_(folder) {
    while (::flock(folder_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() { ::flock(folder_, LOCK_UN); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

/// Removes what a dead process left. Throws when somebody listens there.
void clear_place(const UnixPath& path, const std::filesystem::path& home) {
  struct stat there {};
  if (::lstat(path.path(), &there) != 0) return;
  const std::filesystem::path file = home / kStatusSocketName;
  if (!S_ISSOCK(there.st_mode)) cannot_make(file, "something that is no socket is in its place");
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool connected = ::connect(probe, path.address(), path.size()) == 0;
  const int error = errno;
  ucred owner{};
  socklen_t size = sizeof owner;
  if (connected) ::getsockopt(probe, SOL_SOCKET, SO_PEERCRED, &owner, &size);
  ::close(probe);
  if (!connected && error == ECONNREFUSED) {
    ::unlink(path.path());
    return;
  }
  const std::string who = connected ? fmt::format("process {}", owner.pid) : "another process";
  throw Failure(
      ExitCode::machine, fmt::format("{} runs a node in {} already", who, home.string()),
      fmt::format("stop it with collab-peer leave --home {0}, or choose another --home for this one", home.string()));
}

int listen_at(const UnixPath& path, const std::filesystem::path& home) {
  const FolderLock lock(path.folder());
  clear_place(path, home);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // before bind(), so that the file never has any other mode
  const bool made = socket >= 0 && ::fchmod(socket, 0600) == 0 && ::bind(socket, path.address(), path.size()) == 0 &&
                    ::listen(socket, SOMAXCONN) == 0;
  if (made) return socket;
  const int error = errno;
  if (socket >= 0) ::close(socket);
  cannot_make(home / kStatusSocketName, std::strerror(error));
}

std::pair<dev_t, ino_t> identity_of(const char* path) {
  struct stat there {};
  if (::lstat(path, &there) != 0) return {};
  return {there.st_dev, there.st_ino};
}

}  // namespace

struct StatusSocket::State {
  State(const asio::any_io_executor& loop, Clock& node_clock, Log& node_log, const std::filesystem::path& home,
        StatusCommands table, StatusOptions bounds)
      : clock(node_clock),
        log(node_log),
        commands(std::move(table)),
        options(bounds),
        path(home, kStatusSocketName),
        acceptor(loop, Local(), listen_at(path, home)),
        file(identity_of(path.path())) {}

  Task<> accept(TaskGroup& clients);
  Task<> serve(Local::socket socket);
  Task<Result<std::string>> read_command(Local::socket& socket);
  Task<Result<>> send(Local::socket& socket, const std::string& line);
  std::string answer(const std::string& command);

  Clock& clock;
  Log& log;
  StatusCommands commands;
  StatusOptions options;
  UnixPath path;
  Local::acceptor acceptor;
  std::pair<dev_t, ino_t> file;  ///< ours, as long as nobody replaced it
};

Task<> StatusSocket::State::accept(TaskGroup& clients) {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(as_result);
    if (error) {  // too many files: some will be closed
      co_await clock.sleep_until(clock.now() + kAcceptAgain);
      continue;
    }
    if (clients.size() < options.clients_max) clients.spawn("status client", serve(std::move(socket)));
  }
}

Task<> StatusSocket::State::serve(Local::socket socket) {
  const Result<std::string> command =
      co_await with_deadline(clock, clock.now() + options.timeout, read_command(socket));
  if (!command && command.error() != Errc::late) co_return;
  const std::string line = answer(command ? *command : std::string()) + "\n";
  (void)co_await with_deadline(clock, clock.now() + options.send_timeout, send(socket, line));  // it may have left
}

Task<Result<std::string>> StatusSocket::State::read_command(Local::socket& socket) {
  std::array<char, kCommandBytesMax> bytes{};
  std::size_t have = 0;
  while (have < bytes.size()) {
    const auto rest = asio::buffer(bytes) + have;
    const auto [error, size] = co_await socket.async_read_some(rest, as_result);
    have += size;
    const std::string_view text(bytes.data(), have);
    const std::size_t end = text.find('\n');
    if (end != std::string_view::npos) co_return std::string(text.substr(0, end));
    if (error == asio::error::eof) co_return std::string(text);
    if (error) co_return Errc::gone;
  }
  co_return std::string(bytes.data(), have);  // no command of ours, and answered so
}

Task<Result<>> StatusSocket::State::send(Local::socket& socket, const std::string& line) {
  const auto [error, size] = co_await asio::async_write(socket, asio::buffer(line), as_result);
  if (error) co_return Errc::gone;
  co_return Result<>();
}

std::string StatusSocket::State::answer(const std::string& command) {
  if (command.empty() || command == "status") return commands.state();
  if (command == "leave") {
    log.info("monitor.asked_to_leave");
    commands.leave();
    return leaving_json(clock.unix_ms());
  }
  return error_json(clock.unix_ms(), "bad_request", "the commands are: status, leave");
}

StatusSocket::StatusSocket(const asio::any_io_executor& loop, Clock& clock, Log& log, const std::filesystem::path& home,
                           StatusCommands commands, StatusOptions options)
    : state_(std::make_unique<State>(loop, clock, log, home, std::move(commands), options)) {}

StatusSocket::~StatusSocket() {
  const FolderLock lock(state_->path.folder());
  if (identity_of(state_->path.path()) == state_->file) ::unlink(state_->path.path());
}

Task<> StatusSocket::run() {
  State& state = *state_;
  const auto failed = [&state](std::string_view name, std::exception_ptr failure) {
    try {
      std::rethrow_exception(std::move(failure));
    } catch (const std::exception& error) {
      state.log.error("monitor.client_failed", {{"task", name}, {"reason", error.what()}});
    }
  };
  const auto body = [&state](TaskGroup& clients) -> Task<> { co_await state.accept(clients); };
  auto scope = task_scope(failed, body);
  co_await std::move(scope);
}

}  // namespace collab::monitor
