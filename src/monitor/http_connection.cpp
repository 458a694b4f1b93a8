#include "monitor/http_connection.hpp"

#include "monitor/json.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <charconv>
#include <exception>
#include <sstream>
#include <utility>

namespace collab::monitor {

namespace http = boost::beast::http;

namespace {

constexpr Duration kTurnAwayTimeout = std::chrono::seconds(1);
constexpr Duration kLinger = std::chrono::seconds(1);
constexpr std::size_t kLingerBytesMax = std::size_t(64) << 10U;
constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n"
    "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\n"
    "retry: 2000\n\n";

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Where the reader of a stream was: the field of a browser that reconnects, else the query, else now.
std::uint64_t resume_after(const Events& events, std::string_view last_event_id, const HttpRequest& request) {
  if (const auto id = number(last_event_id)) return *id;
  const auto asked = request.query.find("after");
  if (asked == request.query.end()) return events.last_id();
  return number(asked->second).value_or(events.last_id());
}

/// Whether an If-None-Match lists `etag`; a cache on the way may have marked it as weak.
bool names(std::string_view list, std::string_view etag) {
  return list.find(etag) != std::string_view::npos || list == "*";
}

/// As many events after `id` as fit; moves `id` on.
std::string batch_after(const Events& events, std::uint64_t& id, std::size_t bytes_max) {
  std::string batch;
  while (const Events::Encoded* event = events.after(id)) {
    if (!batch.empty() && batch.size() + event->json.size() > bytes_max) break;
    batch += "id: " + std::to_string(event->id) + "\ndata: " + event->json + "\n\n";
    id = event->id;
  }
  return batch;
}

}  // namespace

bool is_own_host(std::string_view host) {
  const std::size_t name_end = host.starts_with('[') ? std::min(host.find(']'), host.size() - 1) + 1 : host.find(':');
  const std::string_view name = host.substr(0, name_end);
  if (name.size() < host.size()) {
    const std::string_view port = host.substr(name.size());
    const auto value = number(port.substr(1));
    if (port.front() != ':' || !value || *value > 65535) return false;
  }
  return boost::beast::iequals(name, "localhost") || name == "127.0.0.1" || name == "[::1]";
}

bool is_own_origin(std::string_view origin) {
  constexpr std::string_view scheme = "http://";
  return origin.starts_with(scheme) && is_own_host(origin.substr(scheme.size()));
}

std::optional<HttpRequest> split_target(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  HttpRequest request;
  const std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark == std::string_view::npos) return request;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    const std::size_t equal = std::min(pair.find('='), pair.size());
    request.query.emplace(pair.substr(0, equal), pair.substr(std::min(equal + 1, pair.size())));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return request;
}

Task<> HttpConnection::run() {
  bool go_on = true;
  while (go_on) go_on = co_await serve_one();
  co_await close();
}

Task<bool> HttpConnection::serve_one() {
  Clock& clock = service_.clock;
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(service_.options.head_bytes_max));
  const Duration patience = full_ ? std::min(kTurnAwayTimeout, service_.options.timeout) : service_.options.timeout;
  const Result<Head> head = co_await with_deadline(clock, clock.now() + patience, read_head(parser));
  const bool silent = unread_.empty() && !parser.got_some();
  if (head ? *head == Head::ended : silent) co_return false;  // it left, or did not use a kept connection
  std::optional<HttpAnswer> refused;
  if (full_) {
    refused = error(503, "too_many_clients", "this node serves no more clients at once; try again later");
  } else if (!head) {
    refused = error(408, "timeout", "the request was not complete in time");
  } else if (*head == Head::too_large) {
    refused = error(431, "head_too_large", "the header of the request is too long");
  } else if (*head == Head::malformed) {
    refused = error(400, "bad_request", "not an HTTP request");
  } else {
    refused = refusal(parser);
  }
  if (refused) {
    (void)co_await write(head_text(*refused, false) + refused->body);  // closed either way
    co_return false;
  }
  co_return co_await answer(parser);
}

Task<Result<HttpConnection::Head>> HttpConnection::read_head(Parser& parser) {
  std::size_t parsed = 0;
  for (;;) {
    if (!unread_.empty()) {
      boost::system::error_code wrong;
      const std::size_t used = parser.put(asio::buffer(unread_), wrong);
      parsed += used;
      unread_.erase(0, used);
      const bool over = parsed > service_.options.head_bytes_max;
      if (parser.is_header_done()) co_return over ? Head::too_large : Head::complete;
      if (over || wrong == http::error::header_limit) co_return Head::too_large;
      if (wrong && wrong != http::error::need_more) co_return Head::malformed;
      if (parsed + unread_.size() > service_.options.head_bytes_max) co_return Head::too_large;
    }
    const Result<> more = co_await read_some();
    if (!more) co_return Head::ended;
  }
}

Task<Result<>> HttpConnection::read_some() {
  const auto [error, size] = co_await socket_.async_read_some(asio::buffer(chunk_), as_result);
  if (error) co_return Errc::gone;
  unread_.append(chunk_.data(), size);
  co_return Result<>();
}

Task<Result<>> HttpConnection::read_until_gone() {
  for (;;) {
    const auto [error, size] = co_await socket_.async_read_some(asio::buffer(chunk_), as_result);
    if (error) co_return Errc::gone;
  }
}

Task<Result<>> HttpConnection::write(std::string text) {
  co_return co_await with_deadline(service_.clock, service_.clock.now() + service_.options.timeout, write_now(text));
}

Task<Result<>> HttpConnection::write_now(const std::string& text) {
  const auto [error, size] = co_await asio::async_write(socket_, asio::buffer(text), as_result);
  if (error) co_return Errc::gone;
  co_return Result<>();
}

Task<> HttpConnection::close() {
  // closing with bytes unread would reset the connection, and the client might lose our last answer
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  (void)co_await with_deadline(service_.clock, service_.clock.now() + kLinger, drain());  // gone or late: done
  socket_.close(ignored);
}

Task<Result<>> HttpConnection::drain() {
  for (std::size_t drained = 0; drained < kLingerBytesMax;) {
    const auto [error, size] = co_await socket_.async_read_some(asio::buffer(chunk_), as_result);
    if (error) break;
    drained += size;
  }
  co_return Result<>();
}

HttpAnswer HttpConnection::error(unsigned status, std::string_view code, std::string_view message) const {
  HttpAnswer answer;
  answer.status = status;
  answer.body = error_json(service_.clock.unix_ms(), code, message);
  return answer;
}

std::optional<HttpAnswer> HttpConnection::refusal(const Parser& parser) const {
  const auto& head = parser.get();
  const auto hosts = head.count(http::field::host);
  if (hosts != 1) return error(400, "bad_request", "a request needs exactly one Host");
  if (!is_own_host(head[http::field::host]))
    return error(403, "bad_host", "this Host is not served here; ask localhost");
  const auto origin = head.find(http::field::origin);
  if (origin != head.end() && !is_own_origin(origin->value()))
    return error(403, "cross_origin", "pages of other origins may not read this");
  if (head.method() != http::verb::get && head.method() != http::verb::head)
    return error(405, "method_not_allowed", "this server only answers GET and HEAD");
  if (parser.chunked() || parser.content_length().value_or(0) != 0)
    return error(400, "bad_request", "a GET or HEAD carries no body");
  return std::nullopt;
}

Task<bool> HttpConnection::answer(const Parser& parser) {
  const auto& head = parser.get();
  const bool with_body = head.method() == http::verb::get;
  const bool keep_alive = head.keep_alive();
  const HttpRoutes& routes = service_.routes;
  const std::optional<HttpRequest> request = split_target(head.target());
  HttpAnswer answer;
  if (!request) {
    answer = error(400, "bad_request", "the target is no path");
  } else if (const auto events = routes.streams.find(request->path); events != routes.streams.end() && with_body) {
    co_await stream(*events->second, resume_after(*events->second, head["Last-Event-ID"], *request));
    co_return false;
  } else if (const auto found = routes.pages.find(request->path); found != routes.pages.end()) {
    answer = page(*request, found->second);
    if (!answer.etag.empty() && names(head[http::field::if_none_match], answer.etag)) {
      answer.status = 304;
      answer.body.clear();
    }
  } else {
    answer = error(404, "not_found", "there is nothing at this path");
  }
  const std::string text = head_text(answer, keep_alive) + (with_body ? answer.body : std::string());
  const Result<> sent = co_await write(text);
  co_return sent&& keep_alive;
}

HttpAnswer HttpConnection::page(const HttpRequest& request, const HttpHandler& handler) {
  try {
    return handler(request);
  } catch (const std::exception& failure) {
    service_.log.error("monitor.page_failed", {{"path", request.path}, {"reason", failure.what()}});
    return error(500, "internal", "this page failed; the node's log says why");
  }
}

std::string HttpConnection::head_text(const HttpAnswer& answer, bool keep_alive) const {
  http::response_header<> head;
  head.version(11);
  head.result(answer.status);
  head.set(http::field::content_type, answer.content_type);
  if (answer.status != 304) head.set(http::field::content_length, std::to_string(answer.body.size()));
  head.set(http::field::connection, keep_alive ? "keep-alive" : "close");
  head.set(http::field::cache_control, answer.etag.empty() ? "no-store" : "no-cache");
  if (!answer.etag.empty()) head.set(http::field::etag, answer.etag);
  // what a browser must not do with an answer: run scripts of others, guess its type, show it inside another page
  head.set("Content-Security-Policy",
           "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
  head.set("X-Content-Type-Options", "nosniff");
  head.set("Cross-Origin-Resource-Policy", "same-origin");
  head.set("Referrer-Policy", "no-referrer");
  if (answer.status == 405) head.set(http::field::allow, "GET, HEAD");
  if (answer.status == 503) head.set(http::field::retry_after, "10");
  std::ostringstream text;
  text << head;
  return text.str();
}

Task<> HttpConnection::stream(const Events& events, std::uint64_t after) {
  using namespace asio::experimental::awaitable_operators;
  Clock& clock = service_.clock;
  const Result<> opened = co_await write(std::string(kStreamHead));
  if (!opened) co_return;
  TimePoint beat = clock.now() + service_.options.heartbeat;
  for (;;) {
    std::string batch = batch_after(events, after, service_.options.stream_bytes);
    if (batch.empty() && clock.now() >= beat) batch = ": heartbeat\n\n";
    if (batch.empty()) {
      const auto first = co_await (events.changed() || clock.sleep_until(beat) || read_until_gone());
      if (first.index() == 2) co_return;
      continue;
    }
    const Result<> sent = co_await write(std::move(batch));
    if (!sent) co_return;
    beat = clock.now() + service_.options.heartbeat;
  }
}

}  // namespace collab::monitor
