#include "net/wss.hpp"

#include "net/openssl.hpp"
#include "net/tcp_options.hpp"

#include <boost/asio/buffers_iterator.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket/stream.hpp>

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>

namespace collab::net {
namespace {

namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using asio::ip::tcp;

/// TLS. Before a client's WebSocket is open, it passes on no answer but 101: that has no body, and Beast bounds its
/// head by 8 kB. Of any other Beast would read a body of up to 8 MB, and reserve as much as its head announces.
class Outer : public beast::ssl_stream<tcp::socket> {
 public:
  using Base = beast::ssl_stream<tcp::socket>;
  using Base::Base;

  void expect_upgrade() { heard_ = 0; }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (heard_ == kUpgraded.size()) return Base::async_read_some(buffers, std::forward<Token>(token));
    return asio::async_compose<Token, void(boost::system::error_code, std::size_t)>(Looked<Buffers>{*this, buffers},
                                                                                    token, *this);
  }

 private:
  template <class Buffers>
  struct Looked {
    Outer& outer;
    Buffers buffers;

    template <class Self>
    void operator()(Self& self) {
      const Buffers into = buffers;  // `self` has this, and moves
      outer.Base::async_read_some(into, std::move(self));
    }
    template <class Self>
    void operator()(Self& self, boost::system::error_code error, std::size_t size) {
      if (!error && !outer.may_be_upgrade(buffers, size)) error = asio::error::invalid_argument;
      self.complete(error, size);
    }
  };

  static constexpr std::string_view kUpgraded = "HTTP/1.1 101 ";

  template <class Buffers>
  bool may_be_upgrade(const Buffers& buffers, std::size_t size) {
    auto byte = asio::buffers_begin(buffers);
    for (; size > 0 && heard_ < kUpgraded.size(); --size, ++byte, ++heard_)
      if (*byte != kUpgraded[heard_]) return false;
    return true;
  }

  std::size_t heard_ = kUpgraded.size();  ///< of the answer's first bytes; all of them: it does not matter any more
};

/// Called by a WebSocket that ends, in order or for a fault. TLS would wait here for the other side's good-bye, which a
/// stranger need not say.
template <class Handler>
void async_teardown(beast::role_type, Outer& outer, Handler&& handler) {
  boost::system::error_code ignored;
  beast::get_lowest_layer(outer).close(ignored);
  const auto executor = outer.get_executor();
  asio::post(executor, beast::bind_front_handler(std::forward<Handler>(handler), boost::system::error_code()));
}

using WebSocket = websocket::stream<Outer, /*deflateSupported=*/false>;

/// Both sides of it; `Wss::dialled` has shaken hands before anybody has it.
class WssStream final : public ByteStream {
 public:
  WssStream(tcp::socket socket, asio::ssl::context& rules, Address remote, std::string_view path)
      : remote_(std::move(remote)), path_(path), socket_(std::move(socket), rules) {
    socket_.binary(true);
    socket_.auto_fragment(false);
    socket_.write_buffer_bytes(kWssMessageBytes);
    socket_.read_message_max(kWssMessageBytesMax);
    // called within a read, which answers pings by itself: who only pings is not worth the answers
    const auto count = [this](websocket::frame_type, beast::string_view) { count_idle_frame(); };
    socket_.control_callback(count);
  }

  Task<Result<>> shake_hands_as_client(Address to) {
    Outer& outer = socket_.next_layer();
    if (!is_numeric(to)) (void)SSL_set_tlsext_host_name(outer.native_handle(), to.host.c_str());
    const auto [insecure] = co_await outer.async_handshake(asio::ssl::stream_base::client, as_result);
    if (insecure) co_return Errc::gone;
    outer.expect_upgrade();
    const std::string host = host_and_port(to);
    const auto [refused] = co_await socket_.async_handshake(host, std::string(kWssPath), as_result);
    if (refused) co_return Errc::gone;
    open_ = true;
    co_return Result<>();
  }

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    if (!open_) {
      const auto shaken = co_await shake_hands_as_server();
      if (!shaken) co_return shaken.error();
    }
    for (;;) {
      const auto [error, size] = co_await socket_.async_read_some(asio::buffer(into.data(), into.size()), as_result);
      if (is_end(error)) co_return std::size_t(0);
      if (error || socket_.got_text()) {
        close();
        co_return Errc::gone;
      }
      if (size > 0) {
        idle_frames_ = 0;
        co_return size;
      }
      count_idle_frame();
    }
  }

  Task<Result<>> write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto message = bytes.first(std::min(bytes.size(), kWssMessageBytes));
      const auto [error, size] = co_await socket_.async_write(asio::buffer(message.data(), message.size()), as_result);
      if (error) co_return Errc::gone;
      bytes = bytes.subspan(size);
    }
    co_return Result<>();
  }

  void close() override {
    boost::system::error_code ignored;
    beast::get_lowest_layer(socket_).close(ignored);
  }

  void queue_at_most(std::size_t bytes) override { net::queue_at_most(native(), bytes); }
  void pace(double bytes_per_s) override { net::pace(native(), bytes_per_s); }
  void receive_at_most(std::size_t bytes) override { net::receive_at_most(native(), bytes); }
  std::uint64_t delivered() override { return confirmed(native()); }
  bool is_stranded() override { return net::is_stranded(native()); }
  Address remote() const override { return remote_; }
  std::string_view path() const override { return path_; }

 private:
  int native() { return beast::get_lowest_layer(socket_).native_handle(); }
  Task<Result<>> shake_hands_as_server() {
    Outer& outer = socket_.next_layer();
    const auto [insecure] = co_await outer.async_handshake(asio::ssl::stream_base::server, as_result);
    if (insecure) co_return Errc::gone;
    beast::flat_buffer head(kWssUpgradeBytesMax);
    beast::http::request_parser<beast::http::empty_body> request;
    request.header_limit(static_cast<std::uint32_t>(kWssUpgradeBytesMax));
    const auto [malformed, size] = co_await beast::http::async_read_header(outer, head, request, as_result);
    const bool ours = !malformed && websocket::is_upgrade(request.get()) && request.get().target() == kWssPath;
    // a client speaks on only when it has been let in
    if (!ours || size == 0 || head.size() > 0) co_return Errc::gone;
    const auto [refused] = co_await socket_.async_accept(request.get(), as_result);
    if (refused) co_return Errc::gone;
    open_ = true;
    co_return Result<>();
  }

  void count_idle_frame() {
    if (++idle_frames_ > kWssIdleFramesMax) close();
  }

  /// The other side ended; whether in order, the TLS inside knows.
  static bool is_end(const boost::system::error_code& error) {
    return error == asio::error::eof || error == asio::ssl::error::stream_truncated ||
           error == websocket::error::closed;
  }

  Address remote_;
  std::string_view path_;
  WebSocket socket_;
  std::size_t idle_frames_ = 0;
  bool open_ = false;
};

void require_outer(bool worked) {
  if (!worked) throw Failure(ExitCode::machine, "OpenSSL cannot make a P-256 certificate", "install OpenSSL 3");
}

/// P-256, which every TLS library takes. That nobody but itself signed it is rare in the web: a filter that looks at
/// certificates (in TLS 1.2, or as the one who ends the outer layer) sees that, and may refuse it.
void use_own_certificate(SSL_CTX* context) {
  const PrivateKeyPtr key(EVP_EC_gen("P-256"));
  const CertificatePtr certificate(X509_new());
  require_outer(key != nullptr && certificate != nullptr);
  X509* x509 = certificate.get();
  X509_NAME* subject = X509_get_subject_name(x509);
  const unsigned char common_name[] = "collab";
  bool worked = X509_set_version(x509, 2) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(x509), 1) == 1;
  worked = worked && ASN1_TIME_set_string_X509(X509_getm_notBefore(x509), "19700101000000Z") == 1;
  worked = worked && ASN1_TIME_set_string_X509(X509_getm_notAfter(x509), "99991231235959Z") == 1;
  worked = worked && X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC, common_name, -1, -1, 0) == 1;
  worked = worked && X509_set_issuer_name(x509, subject) == 1 && X509_set_pubkey(x509, key.get()) == 1;
  worked = worked && X509_sign(x509, key.get(), EVP_sha256()) > 0;
  worked = worked && SSL_CTX_use_certificate(context, x509) == 1 && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
  require_outer(worked);
}

void set_outer_rules(asio::ssl::context& rules) {
  SSL_CTX* context = rules.native_handle();
  rules.set_verify_mode(asio::ssl::verify_none);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  require_outer(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1);
}

}  // namespace

struct Wss::Rules {
  asio::ssl::context client{asio::ssl::context::tls_client};
  asio::ssl::context server{asio::ssl::context::tls_server};
};

Wss::Wss() : rules_(std::make_unique<Rules>()) {
  set_outer_rules(rules_->client);
  set_outer_rules(rules_->server);
  use_own_certificate(rules_->server.native_handle());
}

Wss::~Wss() = default;

Task<Result<std::unique_ptr<ByteStream>>> Wss::dialled(tcp::socket socket, Address to, Address remote,
                                                       std::string_view path) {
  auto stream = std::make_unique<WssStream>(std::move(socket), rules_->client, std::move(remote), path);
  const auto shaken = co_await stream->shake_hands_as_client(std::move(to));
  if (!shaken) co_return shaken.error();
  co_return std::unique_ptr<ByteStream>(std::move(stream));
}

std::unique_ptr<ByteStream> Wss::accepted(tcp::socket socket, Address from) {
  return std::make_unique<WssStream>(std::move(socket), rules_->server, std::move(from), "wss");
}

}  // namespace collab::net
