#include "monitor/http_server.hpp"

#include "monitor/http_connection.hpp"
#include "served_loop.hpp"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "support/doctest.hpp"

namespace collab::monitor {
namespace {

using std::chrono::milliseconds;

HttpOptions quick() {
  HttpOptions options;
  options.listen.port = 0;
  options.timeout = milliseconds(400);
  options.heartbeat = milliseconds(300);
  return options;
}

/// A server with a page "/page", a huge one, one that fails, and events.
class ServerFixture {
 public:
  explicit ServerFixture(HttpOptions options = quick()) {
    HttpRoutes routes;
    routes.pages["/page"] = [](const HttpRequest& request) {
      HttpAnswer answer;
      answer.content_type = "text/plain";
      answer.body = "hello";
      if (const auto word = request.query.find("word"); word != request.query.end()) answer.body = word->second;
      return answer;
    };
    routes.pages["/kept"] = [](const HttpRequest&) {
      HttpAnswer answer;
      answer.body = "hello";
      answer.etag = "\"7f\"";
      return answer;
    };
    routes.pages["/huge"] = [](const HttpRequest&) {
      HttpAnswer answer;
      answer.body.assign(std::size_t(64) << 20U, 'x');
      return answer;
    };
    routes.pages["/broken"] = [](const HttpRequest&) -> HttpAnswer { throw std::runtime_error("no such luck"); };
    routes.streams["/events"] = &events;
    loop.on_loop([&] {
      server = std::make_unique<HttpServer>(loop.executor(), loop.clock, log, std::move(routes), std::move(options));
    });
    port = server->local().port;
    loop.serve(server->run());
  }

  std::string ask(const std::string& request) {
    test::Client client(port);
    client.send(request);
    return client.read_to_end();
  }
  void add_events(std::size_t count) {
    NewEvent event;
    event.type = EventType::epoch_finished;
    loop.on_loop([&] {
      for (std::size_t i = 0; i < count; ++i) events.add(event);
    });
  }

  test::ServedLoop loop;
  Log log;
  Events events{loop.executor(), loop.clock};
  std::unique_ptr<HttpServer> server;
  std::uint16_t port = 0;
  struct Stop {
    test::ServedLoop& loop;
    ~Stop() { loop.stop(); }
  } stop{loop};  ///< before the server goes
};

std::string get(const std::string& target, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

bool refused(const std::string& answer, const std::string& status, const std::string& code) {
  INFO(answer);
  const bool as_told = answer.starts_with("HTTP/1.1 " + status + " ") &&
                       answer.find("\"code\":\"" + code + "\"") != std::string::npos &&
                       answer.find("Connection: close") != std::string::npos;
  CHECK(as_told);
  return as_told;
}

const std::string kClose = "Connection: close\r\n";

}  // namespace

TEST_CASE("http: one connection serves many requests, also sent together") {
  ServerFixture fixture;
  test::Client client(fixture.port);
  client.send(get("/page") + get("/page?word=again&x"));
  const std::string first = client.read_answer();
  CHECK(first.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(first.find("Content-Type: text/plain\r\n") != std::string::npos);
  CHECK(first.ends_with("\r\n\r\nhello"));
  CHECK(client.read_answer().ends_with("\r\n\r\nagain"));
  client.send(get("/page", kClose));
  CHECK(client.read_to_end().ends_with("\r\n\r\nhello"));
}

TEST_CASE("http: a body with a name is sent once, a body of the moment every time") {
  ServerFixture fixture;
  const std::string first = fixture.ask(get("/kept", kClose));
  CHECK(first.find("Cache-Control: no-cache\r\nETag: \"7f\"\r\n") != std::string::npos);
  CHECK(first.ends_with("hello"));
  const std::string again = fixture.ask(get("/kept", kClose + "If-None-Match: \"1\", W/\"7f\"\r\n"));
  CHECK(again.starts_with("HTTP/1.1 304 "));
  CHECK(again.ends_with("\r\n\r\n"));
  CHECK(again.find("Content-Length") == std::string::npos);
  CHECK(fixture.ask(get("/kept", kClose + "If-None-Match: \"7e\"\r\n")).ends_with("hello"));
  const std::string moment = fixture.ask(get("/page", kClose + "If-None-Match: *\r\n"));
  CHECK(moment.find("Cache-Control: no-store\r\n") != std::string::npos);
  CHECK(moment.ends_with("hello"));
}

TEST_CASE("http: HEAD tells the length and sends no body") {
  ServerFixture fixture;
  const std::string answer = fixture.ask("HEAD /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(answer.find("Content-Length: 5\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE("http: what is unknown is not found, and the connection goes on") {
  ServerFixture fixture;
  test::Client client(fixture.port);
  client.send(get("/pag") + get("/page", kClose));
  const std::string missing = client.read_answer();
  CHECK(missing.starts_with("HTTP/1.1 404 "));
  CHECK(missing.find("\"code\":\"not_found\"") != std::string::npos);
  CHECK(client.read_to_end().ends_with("hello"));
}

TEST_CASE("http: only names of this machine are hosts") {
  for (const char* host : {"localhost", "LocalHost:9000", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:4680"})
    CHECK_MESSAGE(is_own_host(host), host);
  for (const char* host : {"", "evil.example", "localhost.evil.example", "localhost:", "localhost:x", "localhost:99999",
                           "localhost:1:2", "127.0.0.1.evil.example", "[::1", "[::1]x", "[", "[::2]", "::1", "0.0.0.0"})
    CHECK_MESSAGE(!is_own_host(host), host);
}

TEST_CASE("http: a foreign Host, no Host or two of them are refused") {
  ServerFixture fixture;
  refused(fixture.ask("GET /page HTTP/1.1\r\nHost: evil.example\r\n\r\n"), "403", "bad_host");
  refused(fixture.ask("GET /page HTTP/1.1\r\n\r\n"), "400", "bad_request");
  refused(fixture.ask(get("/page", "Host: localhost\r\n")), "400", "bad_request");
}

TEST_CASE("http: a page of another origin is refused, our own is served") {
  ServerFixture fixture;
  for (const char* origin : {"http://evil.example", "null", "https://localhost", "http://localhost.evil.example"})
    refused(fixture.ask(get("/page", std::string("Origin: ") + origin + "\r\n")), "403", "cross_origin");
  CHECK(fixture.ask(get("/page", "Origin: http://localhost:4680\r\n" + kClose)).ends_with("hello"));
}

TEST_CASE("http: whoever wants to write is refused, and reads why even with a body under way") {
  ServerFixture fixture;
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"}) {
    const std::string answer = fixture.ask(
        method + " /page HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000\r\n\r\n" + std::string(30000, 'x'));
    refused(answer, "405", "method_not_allowed");
    CHECK(answer.find("Allow: GET, HEAD\r\n") != std::string::npos);
  }
}

TEST_CASE("http: a GET with a body is refused, so nothing can hide in it") {
  ServerFixture fixture;
  refused(fixture.ask(get("/page", "Content-Length: 3\r\n") + "abc"), "400", "bad_request");
  refused(fixture.ask(get("/page", "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n"), "400", "bad_request");
  refused(fixture.ask("hello there\r\n\r\n"), "400", "bad_request");
  CHECK(fixture.ask("GET http://localhost/page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 400 "));
}

TEST_CASE("http: a head may be 8192 bytes long, and no longer") {
  ServerFixture fixture;
  const auto padded = [](std::size_t bytes) {
    const std::string bare = get("/page", kClose + "X-Padding: \r\n");
    return get("/page", kClose + "X-Padding: " + std::string(bytes - bare.size(), 'x') + "\r\n");
  };
  REQUIRE(padded(8192).size() == 8192);
  CHECK(fixture.ask(padded(8192)).ends_with("hello"));
  refused(fixture.ask(padded(8193)), "431", "head_too_large");
  refused(fixture.ask("GET /" + std::string(20000, 'x')), "431", "head_too_large");
  refused(fixture.ask(get("/page", "X-Endless: " + std::string(50000, 'x'))), "431", "head_too_large");
}

TEST_CASE("http: a slow client is told so, a silent one is closed, and nobody waits for either") {
  ServerFixture fixture;
  test::Client slow(fixture.port);
  test::Client silent(fixture.port);
  slow.send("GET /page HT");
  CHECK(fixture.ask(get("/page", kClose)).ends_with("hello"));
  refused(slow.read_to_end(), "408", "timeout");
  CHECK(silent.read_to_end().empty());
}

TEST_CASE("http: a client that does not take its answer loses its place") {
  HttpOptions options = quick();
  options.clients_max = 1;
  ServerFixture fixture(options);
  test::Client stuck(fixture.port);
  stuck.send(get("/huge"));
  CHECK(stuck.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  refused(fixture.ask(get("/page")), "503", "too_many_clients");
  std::string answer;
  for (int i = 0; i < 20 && !answer.ends_with("hello"); ++i) {
    std::this_thread::sleep_for(milliseconds(200));
    answer = fixture.ask(get("/page", kClose));
  }
  CHECK(answer.ends_with("hello"));
}

TEST_CASE("http: the 101st client is told that the house is full, and served when somebody has left") {
  HttpOptions options = quick();
  options.timeout = std::chrono::seconds(10);
  ServerFixture fixture(options);
  std::vector<std::unique_ptr<test::Client>> guests;
  for (int i = 0; i < 100; ++i) {
    guests.push_back(std::make_unique<test::Client>(fixture.port));
    guests.back()->send(get("/page"));
    REQUIRE(guests.back()->read_answer().ends_with("hello"));
  }
  refused(fixture.ask(get("/page")), "503", "too_many_clients");
  guests.front().reset();
  std::string answer;
  for (int i = 0; i < 20 && !answer.ends_with("hello"); ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    answer = fixture.ask(get("/page", kClose));
  }
  CHECK(answer.ends_with("hello"));
  guests.back()->send(get("/page"));
  CHECK(guests.back()->read_answer().ends_with("hello"));
}

TEST_CASE("http: a page that throws is an error of the node, which goes on") {
  ServerFixture fixture;
  const std::string answer = fixture.ask(get("/broken", kClose));
  CHECK(answer.starts_with("HTTP/1.1 500 "));
  CHECK(answer.find("no such luck") == std::string::npos);
  CHECK(fixture.ask(get("/page", kClose)).ends_with("hello"));
}

TEST_CASE("http: a cancelled server closes its connections") {
  HttpOptions options = quick();
  options.timeout = std::chrono::seconds(10);
  ServerFixture fixture(options);
  test::Client idle(fixture.port);
  test::Client listening(fixture.port);
  listening.send(get("/events"));
  listening.read_until("retry: 2000\n\n");
  fixture.loop.stop();
  CHECK(idle.read_to_end().empty());
  CHECK(listening.read_to_end().empty());
}

TEST_CASE("http: a taken port names the remedy, and other machines are not served") {
  ServerFixture fixture;
  Log log;
  HttpOptions options;
  options.listen.port = fixture.port;
  try {
    const HttpServer second(fixture.loop.executor(), fixture.loop.clock, log, HttpRoutes(), options);
    FAIL("two servers on one port");
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::machine);
    CHECK(failure.cause().find("taken") != std::string::npos);
    CHECK(failure.remedy().find("--dashboard 127.0.0.1:" + std::to_string(fixture.port + 1)) != std::string::npos);
  }
  for (const char* host : {"0.0.0.0", "192.0.2.7", "::", "example.org"}) {
    options.listen.host = host;
    try {
      const HttpServer open(fixture.loop.executor(), fixture.loop.clock, log, HttpRoutes(), options);
      FAIL("served beyond loopback");
    } catch (const Failure& failure) {
      CHECK(failure.code() == ExitCode::usage);
      CHECK(failure.remedy().find("ssh -L") != std::string::npos);
    }
  }
}

TEST_CASE("http events: a stream begins now, and goes on where Last-Event-ID or ?after says") {
  ServerFixture fixture;
  fixture.add_events(3);
  test::Client now(fixture.port);
  test::Client resumed(fixture.port);
  test::Client after(fixture.port);
  now.send(get("/events"));
  resumed.send(get("/events", "Last-Event-ID: 1\r\n"));
  after.send(get("/events?after=2"));
  CHECK(now.read_until("retry: 2000\n\n").find("text/event-stream") != std::string::npos);
  CHECK(resumed.read_until("id: 2\n").find("id: 1\n") == std::string::npos);
  CHECK(after.read_until("id: 3\n").find("id: 2\n") == std::string::npos);
  fixture.add_events(1);
  CHECK(now.read_until("id: 4\n").find("id: 3\n") == std::string::npos);
  const std::string data = now.read_until("\n\n");
  CHECK(data.starts_with("data: {\"id\":4,"));
  CHECK(data.ends_with("}\n\n"));
  CHECK(resumed.read_until("id: 4\n").find("id: 3\n") != std::string::npos);
}

TEST_CASE("http events: of long ago the last 1000 are left, and an id of a former life means all") {
  ServerFixture fixture;
  fixture.add_events(1200);
  for (const char* id : {"7", "5000"}) {
    CAPTURE(id);
    test::Client client(fixture.port);
    client.send(get("/events", std::string("Last-Event-ID: ") + id + "\r\n"));
    client.read_until("retry: 2000\n\n");
    CHECK(client.read_until("\n") == "id: 201\n");
    const std::string rest = client.read_until("id: 1200\n");
    std::size_t events = 0;
    for (std::size_t at = rest.find("\nid: "); at != std::string::npos; at = rest.find("\nid: ", at + 1)) ++events;
    CHECK(events == 999);
  }
}

TEST_CASE("http events: a quiet stream beats, and its place is free as soon as the reader leaves") {
  HttpOptions options = quick();
  options.clients_max = 1;
  options.heartbeat = milliseconds(100);
  ServerFixture fixture(options);
  {
    test::Client reader(fixture.port);
    reader.send(get("/events"));
    reader.read_until("retry: 2000\n\n");
    CHECK(reader.read_until("\n\n") == ": heartbeat\n\n");
    CHECK(reader.read_until("\n\n") == ": heartbeat\n\n");
    refused(fixture.ask(get("/page")), "503", "too_many_clients");
  }
  std::string answer;
  for (int i = 0; i < 20 && !answer.ends_with("hello"); ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    answer = fixture.ask(get("/page", kClose));
  }
  CHECK(answer.ends_with("hello"));
}

}  // namespace collab::monitor
