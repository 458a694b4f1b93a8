// What a browser or anybody else on this machine may send to the dashboard: every request gets one typed answer, and
// pages are read by nobody but a client that names this machine. The input is the bytes of one connection.
#include "base/task_group.hpp"
#include "monitor/http_connection.hpp"
#include "sim/simulation.hpp"
#include "support.hpp"

#include <boost/algorithm/string/case_conv.hpp>

#include <array>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace collab::fuzz::http_target {

using namespace monitor;

constexpr std::string_view kSecret = "what-the-page-says";

/// Both ends of a connection without a network.
struct Pair {
  explicit Pair(const asio::any_io_executor& executor) : server(executor) {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    server.assign(asio::ip::tcp::v4(), ends[0]);
    client = ends[1];
  }
  ~Pair() { ::close(client); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void send(std::string_view bytes) const {
    // a full buffer means that the server has stopped reading, which it may
    (void)::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  std::string receive() const {
    std::string all;
    std::array<char, 4096> chunk{};
    for (;;) {
      const ssize_t got = ::recv(client, chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (got <= 0) return all;
      all.append(chunk.data(), static_cast<std::size_t>(got));
    }
  }

  asio::ip::tcp::socket server;
  int client = -1;
};

void check_answers(const std::string& answers, std::string_view request) {
  for (std::size_t at = 0; at < answers.size();) {
    const std::string_view rest = std::string_view(answers).substr(at);
    require(rest.starts_with("HTTP/1.1 "));
    const std::size_t head = rest.find("\r\n\r\n");
    require(head != std::string_view::npos);
    const std::size_t next = rest.find("HTTP/1.1 ", head);
    at += next == std::string_view::npos ? rest.size() : next;
  }
  if (answers.find(kSecret) == std::string::npos) return;
  const std::string asked = boost::algorithm::to_lower_copy(std::string(request));
  const auto says = [&](std::string_view word) { return asked.find(word) != std::string::npos; };
  require(says("get /page") && (says("localhost") || says("127.0.0.1") || says("[::1]")));
}

void check_helpers(std::string_view text) {
  if (is_own_origin(text)) require(is_own_host(text.substr(std::string_view("http://").size())));
  const auto target = split_target(text);
  require(target.has_value() == text.starts_with('/'));
  if (target) require(target->path.find('?') == std::string::npos && target->query.size() <= text.size());
}

Task<> serve(HttpConnection& connection) {
  co_await connection.run();
}

COLLAB_FUZZ_TARGET(http) {
  const std::string_view text = fuzz::text_of(fuzz::bytes_of(data, size));
  check_helpers(text);
  sim::Simulation world;
  Log log;
  Events events(world.executor(), world.clock());
  events.add({EventType::epoch_finished, 7, {}, {}});
  HttpRoutes routes;
  routes.pages["/page"] = [](const HttpRequest&) {
    HttpAnswer answer;
    answer.body = kSecret;
    answer.etag = "\"7f\"";
    return answer;
  };
  routes.streams["/events"] = &events;
  const HttpOptions options;
  Pair pair(world.executor());
  pair.send(text);
  ::shutdown(pair.client, SHUT_WR);
  const HttpConnection::Service service{world.clock(), log, routes, options};
  HttpConnection connection(std::move(pair.server), service, false);
  world.run(serve(connection));
  check_answers(pair.receive(), text);
  return 0;
}

}  // namespace collab::fuzz::http_target
