#include "monitor/http_server.hpp"

#include "base/task_group.hpp"
#include "monitor/http_connection.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>

#include <utility>

namespace collab::monitor {

using asio::ip::tcp;

namespace {

constexpr Duration kAcceptRetry = std::chrono::milliseconds(100);

[[noreturn]] void cannot_listen(const net::Address& at, const boost::system::error_code& error) {
  const bool taken = error == asio::error::address_in_use;
  const std::string why = taken ? "the port is taken by another program" : error.message();
  throw Failure(ExitCode::machine, fmt::format("the dashboard cannot listen at {}: {}", net::to_string(at), why),
                taken ? fmt::format("stop that program, or choose another port: --dashboard {}",
                                    net::to_string(net::Address{at.host, static_cast<std::uint16_t>(at.port + 1U)}))
                      : "choose another address: --dashboard 127.0.0.1:4680");
}

tcp::endpoint loopback_endpoint(const net::Address& at) {
  boost::system::error_code error;
  const std::string host = at.host == "localhost" ? "127.0.0.1" : at.host;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error || !address.is_loopback())
    throw Failure(
        ExitCode::usage,
        fmt::format("the dashboard cannot listen at {}: it has no password, so it is served on this machine's "
                    "loopback only",
                    net::to_string(at)),
        "use --dashboard 127.0.0.1:4680, and reach it from elsewhere by ssh -L 4680:127.0.0.1:4680 HOST");
  return {address, at.port};
}

}  // namespace

struct HttpServer::State {
  State(const asio::any_io_executor& loop, Clock& node_clock, Log& node_log, HttpRoutes table, HttpOptions bounds)
      : clock(node_clock), log(node_log), routes(std::move(table)), options(std::move(bounds)), acceptor(loop) {}

  void listen();
  Task<> accept(TaskGroup& clients);
  Task<> serve(tcp::socket socket, bool full);

  Clock& clock;
  Log& log;
  HttpRoutes routes;
  HttpOptions options;
  tcp::acceptor acceptor;
  bool told_full = false;
};

void HttpServer::State::listen() {
  const tcp::endpoint at = loopback_endpoint(options.listen);
  boost::system::error_code error;
  acceptor.open(at.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);  // not held back by old connections
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) cannot_listen(options.listen, error);
}

Task<> HttpServer::State::accept(TaskGroup& clients) {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(as_result);
    if (error) {  // too many files, or the client is gone already: others may do better
      co_await clock.sleep_until(clock.now() + kAcceptRetry);
      continue;
    }
    if (clients.size() >= options.clients_max + options.turned_away_max) continue;  // closes it
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const bool full = clients.size() >= options.clients_max;
    if (full && !told_full) log.warn("monitor.clients_full", {{"clients", clients.size()}});
    told_full = full;  // once for each time it fills up
    clients.spawn("http client", serve(std::move(socket), full));
  }
}

Task<> HttpServer::State::serve(tcp::socket socket, bool full) {
  const HttpConnection::Service service{clock, log, routes, options};
  HttpConnection connection(std::move(socket), service, full);
  co_await connection.run();
}

HttpServer::HttpServer(const asio::any_io_executor& loop, Clock& clock, Log& log, HttpRoutes routes,
                       HttpOptions options)
    : state_(std::make_unique<State>(loop, clock, log, std::move(routes), std::move(options))) {
  state_->listen();
}

HttpServer::~HttpServer() = default;

net::Address HttpServer::local() const {
  const tcp::endpoint at = state_->acceptor.local_endpoint();
  return net::Address{at.address().to_string(), at.port()};
}

Task<> HttpServer::run() {
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
