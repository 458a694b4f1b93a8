// WebSockets and proxies on real sockets of this machine.
#include "net/wss.hpp"

#include "net/certificate.hpp"
#include "support/real_node.hpp"
#include "support/test_proxy.hpp"

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using namespace std::chrono_literals;
using test::RealNode;
using test::TestProxy;

constexpr const char* kLed = "HTTP/1.1 200 Connection established\r\n\r\n";
constexpr const char* kUpgrade =
    "GET /collab/v1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

EndpointOptions listens_by(Leg leg, Duration handshake_time = 10s) {
  EndpointOptions options;
  options.listen.push_back(Address{"127.0.0.1", 0, leg});
  options.handshake_time = handshake_time;
  return options;
}

Frame frame_of(std::size_t bytes, unsigned char value) {
  return std::make_shared<const Buffer>(Bytes(bytes, std::byte(value)));
}

void add_echo(RealNode& node) {
  Method method;
  method.name = "test.echo";
  method.request_bytes_max = method.answer_bytes_max = kMessageBytesMax;
  const auto echo = [](PeerId, Frame request, TimePoint) -> Task<Answer> { co_return request; };
  node.endpoint().handle(method, echo);
}

boost::system::result<PeerId, Refusal> connected(RealNode& from, const Address& to, Duration time = 5s) {
  return from.in_loop(from.endpoint().connect(to, from.in(time)));
}

std::string path_to(RealNode& from, const PeerId& peer) {
  const auto ask = [&]() -> Task<std::string> { co_return std::string(from.endpoint().link(peer).path); };
  return from.in_loop(ask());
}

bool echoes(RealNode& from, const PeerId& peer, std::size_t bytes) {
  const auto answer = from.in_loop(from.endpoint().call(peer, "test.echo", frame_of(bytes, 7), from.in(5s)));
  return answer && **answer == *frame_of(bytes, 7);
}

/// Somebody who shakes hands as far as a test wants, then says what it wants.
class Intruder {
 public:
  explicit Intruder(RealNode& host)
      : host_(host), rules_(asio::ssl::context::tls_client), stream_(host.executor(), rules_) {}

  bool knocks(const Address& at) {
    const auto connect = [this, port = at.port]() -> Task<bool> {
      const asio::ip::tcp::endpoint to(asio::ip::address_v4::loopback(), port);
      const auto [error] = co_await stream_.next_layer().async_connect(to, as_result);
      co_return !error;
    };
    return host_.in_loop(connect());
  }
  bool secures() {
    const auto shake = [this]() -> Task<bool> {
      const auto [error] = co_await stream_.async_handshake(asio::ssl::stream_base::client, as_result);
      co_return !error;
    };
    return host_.in_loop(shake());
  }
  /// Whether all of it was taken.
  bool says(std::string text) {
    const auto write = [this](std::string bytes) -> Task<bool> {
      const auto [error, size] = co_await asio::async_write(stream_, asio::buffer(bytes), as_result);
      co_return !error && size == bytes.size();
    };
    return host_.in_loop(write(std::move(text)));
  }
  std::string hears() {
    const auto read = [this]() -> Task<std::string> {
      std::string text(4096, '\0');
      const auto [error, size] = co_await stream_.async_read_some(asio::buffer(text), as_result);
      text.resize(error ? 0 : size);
      co_return text;
    };
    return host_.in_loop(read());
  }
  /// Whether the other side ends it in time; what it says until then is skipped.
  bool is_closed_within(Duration time) {
    const auto read = [this]() -> Task<Result<>> {
      std::string text(65536, '\0');
      for (;;) {
        const auto [error, size] = co_await stream_.next_layer().async_read_some(asio::buffer(text), as_result);
        if (error) co_return Result<>();
      }
    };
    const auto in_time = [&]() -> Task<bool> {
      auto reading = read();
      const auto ended = co_await with_deadline(host_.clock(), host_.in(time), std::move(reading));
      co_return ended.has_value();
    };
    return host_.in_loop(in_time());
  }
  /// TLS and upgrade.
  bool gets_in(const Address& at) {
    return knocks(at) && secures() && says(kUpgrade) && hears().starts_with("HTTP/1.1 101");
  }

 private:
  RealNode& host_;
  asio::ssl::context rules_;
  asio::ssl::stream<asio::ip::tcp::socket> stream_;
};

/// A frame as a client sends it, masked with zeros. `more`: of the length as it is written, for a longer one.
std::string client_frame(unsigned char kind, const std::string& payload) {
  std::string text;
  text += static_cast<char>(0x80U | kind);
  text += static_cast<char>(0x80U | payload.size());
  return text + std::string(4, '\0') + payload;
}

/// Who ends the outer layer and begins another one, as the web filters of companies do, and may flip one bit of what is
/// inside, or count.
class Filter {
 public:
  Filter(RealNode& host, Address to, std::size_t flip_at) : host_(host), to_(std::move(to)), flip_at_(flip_at) {
    const auto listen = [this]() -> Task<Address> {
      listener_ = host_.network().listen(Address{"127.0.0.1", 0, Leg::wss}).value();
      tasks_ = std::make_unique<TaskGroup>(host_.executor(), rethrow);
      tasks_->spawn("accept", accept());
      co_return listener_->local();
    };
    at_ = host_.in_loop(listen());
  }
  ~Filter() {
    const auto stop = [this]() -> Task<bool> {
      co_await tasks_->stop();
      tasks_.reset();
      listener_.reset();
      co_return true;
    };
    host_.in_loop(stop());
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  Address at() const { return at_; }

 private:
  Task<> accept() {
    for (;;) {
      auto stream = co_await listener_->accept();
      if (!stream) co_return;
      tasks_->spawn("serve", serve(std::move(*stream)));
    }
  }
  Task<> serve(std::unique_ptr<ByteStream> client) {
    const auto server = co_await host_.network().dial(to_, host_.in(5s));
    if (!server) co_return;
    const auto both = [&](TaskGroup& ways) -> Task<> {
      ways.spawn("up", copy(*client, **server, flip_at_));
      ways.spawn("down", copy(**server, *client, std::size_t(-1)));
      co_await ways.join();
    };
    auto scope = task_scope(rethrow, both);
    co_await std::move(scope);
  }
  static Task<> copy(ByteStream& from, ByteStream& to, std::size_t flip_at) {
    Bytes buffer(65536);
    for (std::size_t passed = 0;;) {
      const auto size = co_await from.read(buffer);
      if (!size || *size == 0) break;
      if (flip_at >= passed && flip_at < passed + *size) buffer[flip_at - passed] ^= std::byte(0x04);
      passed += *size;
      const auto written = co_await to.write(std::span(buffer).first(*size));
      if (!written) break;
    }
    from.close();
    to.close();
  }

  RealNode& host_;
  Address to_;
  std::size_t flip_at_;
  Address at_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<TaskGroup> tasks_;
};

/// A web server that has no WebSockets: it answers each request with `head`, then goes on and on.
class WebServer {
 public:
  WebServer(RealNode& host, std::string head)
      : host_(host), head_(std::move(head)), rules_(asio::ssl::context::tls_server) {
    const PrivateKeyPtr key = make_private_key(host.identity());
    const CertificatePtr certificate = make_certificate(host.identity());
    REQUIRE(SSL_CTX_use_certificate(rules_.native_handle(), certificate.get()) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey(rules_.native_handle(), key.get()) == 1);
    const auto begin = [this]() -> Task<bool> {
      acceptor_.emplace(host_.executor(), asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
      tasks_ = std::make_unique<TaskGroup>(host_.executor(), rethrow);
      tasks_->spawn("serve", serve());
      co_return true;
    };
    host_.in_loop(begin());
  }
  ~WebServer() {
    const auto stop = [this]() -> Task<bool> {
      co_await tasks_->stop();
      tasks_.reset();
      acceptor_.reset();
      co_return true;
    };
    host_.in_loop(stop());
  }
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;
  Address at() const { return Address{"127.0.0.1", acceptor_->local_endpoint().port(), Leg::wss}; }
  std::size_t taken() const { return taken_; }  ///< bytes behind the head

 private:
  Task<> serve() {
    asio::ssl::stream<asio::ip::tcp::socket> client(host_.executor(), rules_);
    const auto [none] = co_await acceptor_->async_accept(client.next_layer(), as_result);
    const auto [insecure] = co_await client.async_handshake(asio::ssl::stream_base::server, as_result);
    if (none || insecure) co_return;
    std::string request(4096, '\0');
    const auto [silent, size] = co_await client.async_read_some(asio::buffer(request), as_result);
    const auto [gone, sent] = co_await asio::async_write(client, asio::buffer(head_), as_result);
    if (silent || gone || size + sent == 0) co_return;
    const std::string more(1000, 'x');
    for (;;) {
      co_await host_.clock().sleep_until(host_.in(10ms));
      const auto [over, some] = co_await asio::async_write(client, asio::buffer(more), as_result);
      if (over) co_return;
      taken_ += some;
    }
  }

  RealNode& host_;
  std::string head_;
  asio::ssl::context rules_;
  std::optional<asio::ip::tcp::acceptor> acceptor_;
  std::unique_ptr<TaskGroup> tasks_;
  std::atomic<std::size_t> taken_ = 0;
};

}  // namespace

TEST_CASE("streams of sockets: what the other side has taken is delivered, and no faster than their pace") {
  RealNode node(1);
  node.start();
  for (const Leg leg : {Leg::tcp, Leg::wss}) {
    CAPTURE(static_cast<int>(leg));
    const Bytes bytes(2'000'000, std::byte(1));  // Linux lets the first ten packets go, each of 64 kB on loopback
    const auto take_all = [&bytes](Listener& listener) -> Task<> {
      const auto from = co_await listener.accept();
      Bytes into(65536);
      for (std::size_t taken = 0; from && taken < bytes.size();) {
        const auto size = co_await (*from)->read(into);
        if (!size) co_return;
        taken += *size;
      }
    };
    const auto exchange = [&]() -> Task<Duration> {
      const auto listener = node.network().listen(Address{"127.0.0.1", 0, leg}).value();
      TaskGroup tasks(node.executor(), rethrow);
      tasks.spawn("take", take_all(*listener));
      auto dialled = co_await node.network().dial(listener->local(), node.in(5s));
      const std::unique_ptr<ByteStream> to = std::move(dialled.value());
      const std::uint64_t before = to->delivered();  // of a handshake, if there was one
      CHECK(before < 10'000);
      to->pace(4e6);
      const TimePoint start = node.clock().now();
      std::uint64_t longest = 0;  // bytes from one look to the next
      const auto watch = [&]() -> Task<> {
        for (std::uint64_t last = before; last < before + bytes.size() && node.clock().now() < start + 10s;) {
          co_await node.clock().sleep_until(node.clock().now() + 1ms);
          const std::uint64_t now = to->delivered();
          CHECK(now >= last);
          longest = std::max(longest, now - last);
          last = now;
        }
      };
      tasks.spawn("watch", watch());
      const auto written = co_await to->write(bytes);
      CHECK(written);
      co_await tasks.join();
      CHECK(to->delivered() >= before + bytes.size());
      CHECK(to->delivered() < before + bytes.size() * 101 / 100);  // what is around it
      CHECK(longest < bytes.size() / 2);
      co_return node.clock().now() - start;
    };
    CHECK(node.in_loop(exchange()) > 200ms);
  }
}

TEST_CASE("wss: two nodes connect, know each other by their keys, and carry messages of every size both ways") {
  RealNode a(1, listens_by(Leg::wss));
  RealNode b(2, listens_by(Leg::wss));
  add_echo(a);
  add_echo(b);
  a.start();
  b.start();
  CHECK(to_string(b.address()).starts_with("wss://127.0.0.1:"));
  const auto met = connected(a, b.address());
  REQUIRE(met);
  CHECK(*met == b.id());
  for (const std::size_t bytes : {1UL, 1000UL, kWssMessageBytes - 1, kWssMessageBytes + 1, 3 * kWssMessageBytes}) {
    CAPTURE(bytes);
    CHECK(echoes(a, b.id(), bytes));
    CHECK(echoes(b, a.id(), bytes));
  }
  CHECK(path_to(a, b.id()) == "wss");
  CHECK(path_to(b, a.id()) == "wss");
}

TEST_CASE("wss: who listens for one leg is not dialled by the other") {
  RealNode a(1);
  RealNode bare(2);
  RealNode web(3, listens_by(Leg::wss));
  a.start();
  bare.start();
  web.start();
  CHECK_FALSE(connected(a, Address{"127.0.0.1", web.address().port}));
  CHECK_FALSE(connected(a, Address{"127.0.0.1", bare.address().port, Leg::wss}));
}

TEST_CASE("wss: bare TCP goes first, and a WebSocket when that has failed") {
  EndpointOptions both = listens_by(Leg::tcp);
  both.listen.push_back(Address{"127.0.0.1", 0, Leg::wss});
  RealNode a(1);
  RealNode b(2, both);
  add_echo(b);
  a.start();
  b.start();
  const auto listening = [&]() -> Task<std::vector<Address>> { co_return b.endpoint().listening(); };
  const std::vector<Address> all = b.in_loop(listening());
  REQUIRE(all.size() == 2);
  const auto introduce = [&](std::vector<Address> addresses) -> Task<bool> {
    a.endpoint().introduce(b.id(), std::move(addresses));
    co_return true;
  };
  a.in_loop(introduce({all[1], all[0]}));
  CHECK(echoes(a, b.id(), 1));
  CHECK(path_to(a, b.id()) == "tcp");

  RealNode c(3);
  c.start();
  const auto introduce_to_c = [&](std::vector<Address> addresses) -> Task<bool> {
    c.endpoint().introduce(b.id(), std::move(addresses));
    co_return true;
  };
  c.in_loop(introduce_to_c({all[1], Address{"127.0.0.1", 1}}));  // nobody listens at port 1
  CHECK(echoes(c, b.id(), 1));
  CHECK(path_to(c, b.id()) == "wss");
}

TEST_CASE("wss: a filter that ends the outer layer learns and changes nothing") {
  RealNode a(1);
  RealNode b(2, listens_by(Leg::wss));
  RealNode filter_host(3);
  add_echo(b);
  a.start();
  b.start();
  filter_host.start();
  {
    const Filter honest(filter_host, b.address(), std::size_t(-1));
    const auto met = connected(a, honest.at());
    REQUIRE(met);
    CHECK(*met == b.id());
    CHECK(echoes(a, b.id(), 100'000));
  }
  for (const std::size_t flip_at : {std::size_t(0), std::size_t(100), std::size_t(300), std::size_t(700)}) {
    CAPTURE(flip_at);
    RealNode other(4);
    other.start();
    const Filter liar(filter_host, b.address(), flip_at);
    CHECK_FALSE(connected(other, liar.at(), 2s));
  }
  {
    RealNode other(5);
    other.start();
    const Filter late_liar(filter_host, b.address(), 20'000);  // behind the handshake
    REQUIRE(connected(other, late_liar.at()));
    CHECK(echoes(other, b.id(), 100'000));  // asked anew, over a connection that leads past the filter
    CHECK(b.metrics().value("collab_refused_total", {{"reason", "tls_record"}}) == 1);
  }
}

TEST_CASE("wss: somebody else's key is refused, as over bare TCP") {
  RealNode a(1);
  RealNode b(2, listens_by(Leg::wss));
  a.start();
  b.start();
  const auto introduce = [&]() -> Task<bool> {
    a.endpoint().introduce(test::identity_of(9).id(), std::vector<Address>(1, b.address()));
    co_return true;
  };
  a.in_loop(introduce());
  CHECK_FALSE(echoes(a, test::identity_of(9).id(), 1));
}

TEST_CASE("wss: of an answer that opens no WebSocket nothing is read") {
  RealNode host(1);
  RealNode a(2);
  host.start();
  a.start();
  for (const char* head :
       {"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n", "HTTP/1.1 404 Not here\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n", "HTTP/1.1 101 Upgraded\r\nX: "}) {
    CAPTURE(head);
    const WebServer server(host, head);
    CHECK_FALSE(connected(a, server.at(), 2s));
    CHECK(server.taken() < 20'000);  // some wait in the socket; in 2 s it would be 200,000
  }
}

TEST_CASE("wss: a stranger who does not come to the point is closed in time") {
  RealNode host(1);
  RealNode b(2, listens_by(Leg::wss, 1s));
  add_echo(b);
  host.start();
  b.start();
  const std::vector<std::pair<std::string, std::string>> at_once = {
      {"a request that does not end", "GET /collab/v1 HTTP/1.1\r\nX: " + std::string(64 * 1024, 'x')},
      {"another path",
       "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"},
      {"no upgrade", "GET /collab/v1 HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"a body", "POST /collab/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
      {"no HTTP", std::string(1000, '\x00')},
      {"a frame before it was let in", std::string(kUpgrade) + client_frame(2, "x")}};
  for (const auto& said : at_once) {
    CAPTURE(said.first);
    Intruder intruder(host);
    REQUIRE((intruder.knocks(b.address()) && intruder.secures()));
    (void)intruder.says(said.second);
    CHECK(intruder.is_closed_within(700ms));
  }
  std::string pings;
  for (int i = 0; i < 1000; ++i) pings += client_frame(9, "");
  std::string nothings;
  for (int i = 0; i < 1000; ++i) nothings += client_frame(2, "");
  const std::string too_long = "\x82\xff" + std::string(5, '\0') + "\x20" + std::string(6, '\0');  // 2 MiB, announced
  const std::vector<std::pair<std::string, std::string>> frames = {{"text", client_frame(1, "hello")},
                                                                   {"nonsense inside", client_frame(2, "hello")},
                                                                   {"too long a message", too_long},
                                                                   {"a flood of pings", pings},
                                                                   {"a flood of empty messages", nothings},
                                                                   {"no mask", "\x82\x01x"},
                                                                   {"reserved bits", "\xf2\x80" + std::string(4, '\0')},
                                                                   {"good-bye", client_frame(8, "")}};
  for (const auto& said : frames) {
    CAPTURE(said.first);
    Intruder intruder(host);
    REQUIRE(intruder.gets_in(b.address()));
    (void)intruder.says(said.second);
    CHECK(intruder.is_closed_within(700ms));
  }
  CHECK(connected(host, b.address()));
}

TEST_CASE("wss: silence ends with the time for handshakes, wherever it begins; and its place is limited") {
  RealNode host(1);
  EndpointOptions options = listens_by(Leg::wss, 1s);
  options.gate.handshakes_max = 4;
  RealNode b(2, options);
  host.start();
  b.start();
  Intruder before_tls(host);
  Intruder before_upgrade(host);
  Intruder within_upgrade(host);
  Intruder behind_upgrade(host);
  REQUIRE(before_tls.knocks(b.address()));
  REQUIRE((before_upgrade.knocks(b.address()) && before_upgrade.secures()));
  REQUIRE((within_upgrade.knocks(b.address()) && within_upgrade.secures() && within_upgrade.says("GET /col")));
  REQUIRE(behind_upgrade.gets_in(b.address()));
  Intruder one_too_many(host);
  REQUIRE(one_too_many.knocks(b.address()));
  CHECK(one_too_many.is_closed_within(300ms));
  CHECK_FALSE(before_tls.is_closed_within(100ms));
  for (Intruder* intruder : {&before_tls, &before_upgrade, &within_upgrade, &behind_upgrade})
    CHECK(intruder->is_closed_within(1500ms));
  CHECK(connected(host, b.address()));
}

TEST_CASE("proxy: leads to bare TCP and to a WebSocket, by a name that only it knows, with a login") {
  for (const Leg leg : {Leg::tcp, Leg::wss}) {
    CAPTURE(static_cast<int>(leg));
    RealNode b(2, listens_by(leg));
    add_echo(b);
    b.start();
    TestProxy proxy(kLed, b.address().port);
    Proxy with_login = proxy.where();
    with_login.user = "Aladdin";
    with_login.password = "open sesame";
    RealNode a(1, {}, with_login);
    a.start();
    const auto met = connected(a, Address{"peer.invalid", 443, leg});
    REQUIRE(met);
    CHECK(*met == b.id());
    CHECK(echoes(a, b.id(), 600'000));
    CHECK(path_to(a, b.id()) == (leg == Leg::wss ? "wss through a proxy" : "tcp through a proxy"));
    REQUIRE(proxy.requests().size() == 1);
    CHECK(proxy.requests().front() ==
          "CONNECT peer.invalid:443 HTTP/1.1\r\nHost: peer.invalid:443\r\n"
          "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n");
  }
}

TEST_CASE("proxy: each of its answers is told as what it is") {
  struct Said {
    std::string answer;
    int trouble;
  };
  const auto fault = [](ProxyFault which) { return static_cast<int>(which); };
  const std::vector<Said> table = {
      {"HTTP/1.1 407 Authentication required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n", 407},
      {"HTTP/1.1 407 Authentication required\r\nProxy-Authenticate: NTLM\r\n\r\n", fault(ProxyFault::other_login)},
      {"HTTP/1.1 403 Forbidden\r\n\r\n", 403},
      {"HTTP/1.1 503 Away\r\n\r\n", 503},
      {"SSH-2.0-OpenSSH_9.2\r\n", fault(ProxyFault::not_http)},
      {"HTTP/1.1 200 OK\r\n" + std::string(100'000, 'x'), fault(ProxyFault::too_long)},
      {std::string(kLed) + "hello", fault(ProxyFault::spoke_first)},
      {"HTTP/1.1 200 OK\r\nnever ends", fault(ProxyFault::closed)},
  };
  for (const Said& said : table) {
    CAPTURE(said.answer.substr(0, 40));
    TestProxy proxy(said.answer);
    RealNode a(1, {}, proxy.where());
    a.start();
    const auto met = connected(a, Address{"peer.invalid", 4600});
    REQUIRE_FALSE(met);
    CHECK(proxy_trouble(met.error()) == said.trouble);
    CHECK(met.error().reason.starts_with("proxy: "));
  }
  TestProxy silent("");  // and known to be there
  RealNode a(1, {}, silent.where());
  a.start();
  CHECK(proxy_trouble(connected(a, Address{"peer.invalid", 4600}).error()) == fault(ProxyFault::silent));
  Proxy nowhere;
  nowhere.at = Address{"127.0.0.1", 1};
  RealNode b(2, {}, nowhere);
  b.start();
  CHECK(proxy_trouble(connected(b, Address{"peer.invalid", 4600}).error()) == fault(ProxyFault::unreachable));
}

TEST_CASE("proxy: a wrong login is told to it once, however many places are known, and each dial ends the same way") {
  for (const std::string kinds : {"Basic realm=\"x\"", "Negotiate"}) {
    TestProxy proxy("HTTP/1.1 407 No\r\nProxy-Authenticate: " + kinds + "\r\n\r\n");
    Proxy wrong = proxy.where();
    wrong.user = "anna";
    wrong.password = "old";
    RealNode a(1, {}, wrong);
    a.start();
    const auto all = [&]() -> Task<std::vector<int>> {
      std::vector<int> troubles;
      const auto dial = [&](std::uint16_t port) -> Task<> {
        const Address to{"peer.invalid", port};
        const auto met = co_await a.endpoint().connect(to, a.in(5s));
        troubles.push_back(met ? 0 : proxy_trouble(met.error()).value_or(-1));
      };
      const auto body = [&](TaskGroup& tasks) -> Task<> {
        for (std::uint16_t port = 1; port <= 8; ++port) tasks.spawn("dial", dial(port));
        co_await tasks.join();
      };
      auto scope = task_scope(rethrow, body);
      co_await std::move(scope);
      co_await dial(9);
      co_return troubles;
    };
    const int trouble = kinds == "Negotiate" ? static_cast<int>(ProxyFault::other_login) : kProxyWantsLogin;
    CHECK(a.in_loop(all()) == std::vector<int>(9, trouble));
    CHECK(proxy.requests().size() == 1);
  }
}

TEST_CASE("proxy: what needs none is dialled without it, and told nothing about") {
  TestProxy proxy("HTTP/1.1 403 Forbidden\r\n\r\n");
  RealNode a(1, {}, proxy.where());
  RealNode b(2);
  a.start();
  b.start();
  CHECK(connected(a, b.address()));
  CHECK(path_to(a, b.id()) == "tcp");
  CHECK(proxy.requests().empty());
}

}  // namespace collab::net
