#pragma once
// One client of the HTTP server, from its first byte to its last.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "monitor/http_routes.hpp"
#include "monitor/http_server.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace collab::monitor {

/// Whether the value of a Host field names this machine's loopback, whatever the port (it may be a tunnel's).
bool is_own_host(std::string_view host);
/// The same of an Origin field: "http://localhost:4680".
bool is_own_origin(std::string_view origin);
/// "/events?after=7" -> path and query. Empty for what is no absolute path.
std::optional<HttpRequest> split_target(std::string_view target);

/// Thread safety: none; belongs to the node's loop.
class HttpConnection {
 public:
  /// What it serves by; all outlive it. `full`: the server has no place for this client, who is told so.
  struct Service {
    Clock& clock;
    Log& log;
    const HttpRoutes& routes;
    const HttpOptions& options;
  };
  HttpConnection(asio::ip::tcp::socket socket, const Service& service, bool full)
      : socket_(std::move(socket)), service_(service), full_(full) {}

  /// Returns when the connection is closed.
  Task<> run();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  enum class Head { complete, malformed, too_large, ended };

  /// False when that was the last request.
  Task<bool> serve_one();
  Task<Result<Head>> read_head(Parser& parser);
  Task<Result<>> read_some();
  Task<Result<>> read_until_gone();
  Task<Result<>> write(std::string text);
  Task<Result<>> write_now(const std::string& text);
  Task<> close();
  Task<Result<>> drain();

  Task<bool> answer(const Parser& parser);
  Task<> stream(const Events& events, std::uint64_t after);
  HttpAnswer page(const HttpRequest& request, const HttpHandler& handler);
  HttpAnswer error(unsigned status, std::string_view code, std::string_view message) const;
  /// Why this request is not served, if so.
  std::optional<HttpAnswer> refusal(const Parser& parser) const;
  std::string head_text(const HttpAnswer& answer, bool keep_alive) const;

  asio::ip::tcp::socket socket_;
  Service service_;
  bool full_;
  std::array<char, 4096> chunk_{};
  std::string unread_;  ///< received, not yet parsed
};

}  // namespace collab::monitor
