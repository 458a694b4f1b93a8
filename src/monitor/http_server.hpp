#pragma once
// The read-only HTTP server of a node: the dashboard, its interfaces, Prometheus.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "monitor/http_routes.hpp"
#include "net/address.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace collab::monitor {

struct HttpOptions {
  net::Address listen = net::Address{"127.0.0.1", 4680};  ///< of this machine's loopback; port 0: the system chooses
  std::size_t clients_max = 100;                          ///< the next is told 503
  std::size_t turned_away_max = 16;                       ///< being told so at once; the next is just closed
  std::size_t head_bytes_max = 8192;                      ///< of a request
  Duration timeout = std::chrono::seconds(10);            ///< for a request's head to come, for an answer to be taken
  Duration heartbeat = std::chrono::seconds(15);          ///< of an event stream
  std::size_t stream_bytes = std::size_t(64) << 10U;      ///< of one write to an event stream, a single event aside
};

/// Answers GET and HEAD of the routes, everything else with a typed JSON error:
///   400 bad_request      malformed, with a body, without Host         431 head_too_large
///   403 bad_host         a Host that is no name of this machine, so that no foreign page can read us by DNS rebinding
///   403 cross_origin     asked by a page of another origin            408 timeout
///   404 not_found        405 method_not_allowed                       500 internal     503 too_many_clients
///
/// Event streams resume after `Last-Event-ID` or `?after=ID`; without either they begin with the next event.
/// Connections are kept alive. Memory: `clients_max` times a head and an answer. Nobody waits behind a slow client.
/// Thread safety: none; belongs to the node's loop.
class HttpServer {
 public:
  /// Listens at once. Throws `Failure(machine)` when the port is taken or the address is not ours, `Failure(usage)` for
  /// an address beyond loopback: what is served has no password.
  HttpServer(const asio::any_io_executor& loop, Clock& clock, Log& log, HttpRoutes routes, HttpOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// With the port that the system chose.
  net::Address local() const;
  /// Serves until cancelled; then every connection is closed.
  Task<> run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collab::monitor
