#include "net/tcp.hpp"

#include "base/signal.hpp"
#include "net/tcp_options.hpp"
#include "net/wss.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace collab::net {
namespace {

using asio::ip::tcp;

Address address_of(const tcp::endpoint& endpoint) {
  Address address;
  address.port = endpoint.port();
  const asio::ip::address host = endpoint.address();
  const bool mapped = host.is_v6() && host.to_v6().is_v4_mapped();  // an IPv4 peer of a dual-stack listener
  address.host = mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, host.to_v6()).to_string() : host.to_string();
  return address;
}

/// Options that make a stream better; one that the kernel does not know costs nothing but itself.
void tune(tcp::socket& socket, const TcpNetwork::Options& options) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const auto set = [&](int name, int value) {
    (void)::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_USER_TIMEOUT,
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(options.unacknowledged_max).count()));
  set(TCP_NOTSENT_LOWAT, options.unsent_bytes);
}

Address remote_of(const tcp::socket& socket) {
  boost::system::error_code ignored;
  return address_of(socket.remote_endpoint(ignored));
}

class TcpStream final : public ByteStream {
 public:
  explicit TcpStream(tcp::socket socket) : socket_(std::move(socket)), remote_(remote_of(socket_)) {}
  /// A way to `remote` that begins at a proxy.
  TcpStream(tcp::socket socket, Address remote)
      : socket_(std::move(socket)), remote_(std::move(remote)), path_("tcp through a proxy") {}

  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    const auto [error, size] = co_await socket_.async_read_some(asio::buffer(into.data(), into.size()), as_result);
    if (error == asio::error::eof) co_return std::size_t(0);
    if (error) co_return Errc::gone;
    co_return size;
  }

  Task<Result<>> write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {  // asio::async_write would hand over no more than 64 kB at a time
      const auto [error, size] = co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), as_result);
      if (error) co_return Errc::gone;
      bytes = bytes.subspan(size);
    }
    co_return Result<>();
  }

  void close() override {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

  void queue_at_most(std::size_t bytes) override { net::queue_at_most(socket_.native_handle(), bytes); }
  void pace(double bytes_per_s) override { net::pace(socket_.native_handle(), bytes_per_s); }
  void receive_at_most(std::size_t bytes) override { net::receive_at_most(socket_.native_handle(), bytes); }
  std::uint64_t delivered() override { return confirmed(socket_.native_handle()); }

  bool is_stranded() override { return net::is_stranded(socket_.native_handle()); }

  Address remote() const override { return remote_; }
  Address local() const override {
    boost::system::error_code error;
    const tcp::endpoint own = socket_.local_endpoint(error);
    return error ? Address() : address_of(own);
  }
  std::string_view path() const override { return path_; }

 private:
  tcp::socket socket_;
  Address remote_;
  std::string_view path_ = "tcp";
};

class TcpListener final : public Listener {
 public:
  /// `wss`: whose streams these are; null: bare ones.
  TcpListener(tcp::acceptor acceptor, Clock& clock, const TcpNetwork::Options& options, std::shared_ptr<Wss> wss)
      : acceptor_(std::move(acceptor)), clock_(clock), options_(options), wss_(std::move(wss)) {}

  Task<Result<std::unique_ptr<ByteStream>>> accept() override {
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(as_result);
      if (!error) {
        tune(socket, options_);
        if (!wss_) co_return std::make_unique<TcpStream>(std::move(socket));
        Address from = remote_of(socket);
        from.leg = Leg::wss;
        co_return wss_->accepted(std::move(socket), std::move(from));
      }
      // too many files, or a connection reset while it waited: others come
      if (acceptor_.is_open()) co_await clock_.sleep_until(clock_.now() + std::chrono::milliseconds(50));
    }
    co_return Errc::gone;
  }

  Address local() const override {
    boost::system::error_code ignored;
    Address address = address_of(acceptor_.local_endpoint(ignored));
    if (wss_) address.leg = Leg::wss;
    return address;
  }

  void close() override {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
  }

 private:
  tcp::acceptor acceptor_;
  Clock& clock_;
  TcpNetwork::Options options_;
  std::shared_ptr<Wss> wss_;
};

Errc errc_of(const boost::system::error_code& error) {
  if (error == asio::error::address_in_use) return Errc::busy;
  if (error == asio::error::access_denied) return Errc::denied;
  return Errc::bad_request;
}

/// A socket at an own port that others of this process are at as well; of port 0: at any free one.
Result<tcp::socket> socket_at(const asio::any_io_executor& executor, const tcp::endpoint& own,
                              const std::string& interface) {
  tcp::socket socket(executor);
  boost::system::error_code error;
  socket.open(own.protocol(), error);
  if (error) return errc_of(error);
  if (!use_interface(socket.native_handle(), interface)) return Errc::denied;
  socket.set_option(tcp::socket::reuse_address(true), error);
  if (error) return errc_of(error);
  const int yes = 1;
  if (::setsockopt(socket.native_handle(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0) return Errc::denied;
  socket.bind(own, error);
  if (error) return errc_of(error);
  return socket;
}

Task<Result<tcp::socket>> connect_from(tcp::socket socket, tcp::endpoint to) {
  const auto [error] = co_await socket.async_connect(to, as_result);
  if (error) co_return Errc::gone;
  co_return std::move(socket);
}

class TcpLocalPort final : public LocalPort {
 public:
  /// `holder`: bound to `own`, so that the port is nobody else's.
  TcpLocalPort(tcp::socket holder, tcp::endpoint own, Clock& clock, const TcpNetwork::Options& options)
      : holder_(std::move(holder)), own_(std::move(own)), clock_(clock), options_(options) {}

  std::uint16_t number() const override { return own_.port(); }
  Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) override {
    boost::system::error_code error;
    const auto host = asio::ip::make_address(to.host, error);
    if (error || host.is_v6() != own_.address().is_v6() || to.leg != Leg::tcp) co_return Errc::bad_request;
    auto own = socket_at(holder_.get_executor(), own_, options_.interface);
    if (!own) co_return Errc::gone;
    auto connecting = connect_from(std::move(*own), tcp::endpoint(host, to.port));
    auto socket = co_await with_deadline(clock_, deadline, std::move(connecting));
    if (!socket) co_return socket.error();
    tune(*socket, options_);
    co_return std::make_unique<TcpStream>(std::move(*socket));
  }

 private:
  tcp::socket holder_;
  tcp::endpoint own_;
  Clock& clock_;
  TcpNetwork::Options options_;
};

Task<Result<tcp::socket>> connect_one(asio::any_io_executor executor, tcp::endpoint to, std::string interface) {
  tcp::socket socket(executor);
  boost::system::error_code closed;
  socket.open(to.protocol(), closed);
  if (closed) co_return Errc::gone;
  if (!use_interface(socket.native_handle(), interface)) co_return Errc::gone;
  const auto [error] = co_await socket.async_connect(to, as_result);
  if (error) co_return Errc::gone;
  co_return socket;
}

/// A question to the name service, which cannot be taken back: who no longer waits leaves it to the answer.
struct LookUp {
  explicit LookUp(const asio::any_io_executor& executor) : resolver(executor), changed(executor) {}
  tcp::resolver resolver;
  Signal changed;
  bool over = false;
  std::vector<tcp::endpoint> found;
};

Task<Result<std::vector<tcp::endpoint>>> endpoints_of(asio::any_io_executor executor, Address address) {
  boost::system::error_code not_numeric;
  const auto host = asio::ip::make_address(address.host, not_numeric);
  std::vector<tcp::endpoint> found;
  if (!not_numeric) {
    found.emplace_back(host, address.port);
    co_return found;
  }
  const auto state = std::make_shared<LookUp>(executor);
  const auto answered = [state](const boost::system::error_code& error, const tcp::resolver::results_type& entries) {
    if (!error)
      for (const auto& entry : entries) state->found.push_back(entry.endpoint());
    state->over = true;
    state->changed.notify();
  };
  state->resolver.async_resolve(address.host, std::to_string(address.port), answered);
  while (!state->over) co_await state->changed.wait();
  found = std::move(state->found);
  if (found.empty()) co_return Errc::gone;
  const auto is_v6 = [](const tcp::endpoint& endpoint) { return endpoint.address().is_v6(); };
  std::stable_partition(found.begin(), found.end(), is_v6);
  co_return found;
}

Result<tcp::acceptor> bind(const asio::any_io_executor& executor, const tcp::endpoint& at,
                           const TcpNetwork::Options& options) {
  tcp::acceptor acceptor(executor);
  boost::system::error_code error;
  acceptor.open(at.protocol(), error);
  if (error) return errc_of(error);
  if (!use_interface(acceptor.native_handle(), options.interface)) return Errc::denied;
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (at.address().is_v6()) acceptor.set_option(asio::ip::v6_only(!at.address().is_unspecified()), error);
  acceptor.bind(at, error);
  if (error) return errc_of(error);
  acceptor.listen(options.backlog, error);
  if (error) return errc_of(error);
  return acceptor;
}

Task<Result<tcp::socket>> connect(asio::any_io_executor executor, Clock& clock, TcpNetwork::Options options, Address to,
                                  TimePoint deadline) {
  const auto found = co_await with_deadline(clock, deadline, endpoints_of(executor, to));
  if (!found) co_return found.error();
  Errc why = Errc::gone;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const bool last = i + 1 == found->size();
    const TimePoint until = last ? deadline : std::min(deadline, clock.now() + options.attempt_timeout);
    auto socket = co_await with_deadline(clock, until, connect_one(executor, (*found)[i], options.interface));
    if (socket) co_return std::move(*socket);
    why = socket.error() == Errc::late ? Errc::late : Errc::gone;
    if (clock.now() >= deadline) break;
  }
  co_return why;
}

/// The proxy joins `socket` to what `request` asks for, or says why not.
Task<Result<>> ask_proxy(tcp::socket& socket, std::string request) {
  const auto [unsent, sent] = co_await asio::async_write(socket, asio::buffer(request), as_result);
  if (unsent || sent < request.size()) co_return ProxyFault::closed;
  std::string heard;
  for (;;) {
    std::array<char, 1024> buffer;
    const auto [error, size] = co_await socket.async_read_some(asio::buffer(buffer), as_result);
    if (error) co_return ProxyFault::closed;
    heard.append(buffer.data(), size);
    const auto answer = read_connect_answer(heard);
    if (!answer) co_return answer.error();
    if (!*answer) continue;
    const ConnectAnswer& head = **answer;
    if (head.other_login) co_return ProxyFault::other_login;
    if (head.status / 100 != 2) co_return proxy_status(head.status);
    if (heard.size() > head.bytes) co_return ProxyFault::spoke_first;
    co_return Result<>();
  }
}

}  // namespace

Wss& TcpNetwork::wss() {
  if (!wss_) wss_ = std::make_shared<Wss>();
  return *wss_;
}

/// Those that wait for their turn are connected already: a proxy that cannot be reached keeps nobody waiting twice.
Task<Result<tcp::socket>> TcpNetwork::connect_by_proxy(Address to, TimePoint deadline) {
  if (const auto why = gate_.barred()) co_return *why;
  const TimePoint reached_by = std::min(deadline, clock_.now() + options_.proxy_timeout);
  auto socket = co_await connect(executor_, clock_, options_, options_.proxy->at, reached_by);
  if (!socket) co_return ProxyFault::unreachable;
  const auto turn = co_await gate_.enter(deadline);
  if (!turn) co_return turn.error();
  const TimePoint silent_at = clock_.now() + options_.proxy_timeout;
  auto question = ask_proxy(*socket, connect_request(*options_.proxy, to));
  auto led = co_await with_deadline(clock_, std::min(deadline, silent_at), std::move(question));
  if (!led && led.error() == Errc::late) {
    if (deadline < silent_at) co_return Errc::late;  // it had less time than it may take: that says nothing of it
    led = ProxyFault::silent;
  }
  (*turn)->answered(led ? boost::system::error_code() : led.error());
  if (!led) co_return led.error();
  co_return std::move(*socket);
}

Task<Result<std::unique_ptr<ByteStream>>> TcpNetwork::dial(Address to, TimePoint deadline) {
  const bool by_proxy = options_.proxy && options_.proxy->leads_to(to);
  auto dialling = by_proxy ? connect_by_proxy(to, deadline) : connect(executor_, clock_, options_, to, deadline);
  auto socket = co_await std::move(dialling);
  if (!socket) co_return socket.error();
  tune(*socket, options_);
  if (to.leg == Leg::wss) {
    const std::string_view path = by_proxy ? "wss through a proxy" : "wss";
    Address remote = by_proxy ? to : remote_of(*socket);
    remote.leg = Leg::wss;
    auto shaking = wss().dialled(std::move(*socket), std::move(to), std::move(remote), path);
    co_return co_await with_deadline(clock_, deadline, std::move(shaking));
  }
  if (by_proxy) co_return std::make_unique<TcpStream>(std::move(*socket), std::move(to));
  co_return std::make_unique<TcpStream>(std::move(*socket));
}

Task<Result<std::vector<std::string>>> TcpNetwork::look_up(std::string host, TimePoint deadline) {
  Address address;
  address.host = std::move(host);
  const auto found = co_await with_deadline(clock_, deadline, endpoints_of(executor_, std::move(address)));
  if (!found) co_return found.error();
  std::vector<std::string> hosts;
  for (const tcp::endpoint& endpoint : *found) {
    std::string numeric = endpoint.address().to_string();
    if (std::find(hosts.begin(), hosts.end(), numeric) == hosts.end()) hosts.push_back(std::move(numeric));
  }
  co_return hosts;
}

Result<std::unique_ptr<Listener>> TcpNetwork::listen(const Address& at) {
  boost::system::error_code error;
  const auto host = asio::ip::make_address(at.host, error);
  if (error) return Errc::bad_request;
  auto acceptor = bind(executor_, tcp::endpoint(host, at.port), options_);
  if (!acceptor && host.is_v6() && host.is_unspecified() && acceptor.error() == Errc::bad_request)
    acceptor = bind(executor_, tcp::endpoint(asio::ip::address_v4::any(), at.port), options_);
  if (!acceptor) return acceptor.error();
  if (at.leg == Leg::wss) (void)wss();
  return std::make_unique<TcpListener>(std::move(*acceptor), clock_, options_, at.leg == Leg::wss ? wss_ : nullptr);
}

Result<std::unique_ptr<LocalPort>> TcpNetwork::local_port(const std::string& host) {
  if (options_.proxy) return Errc::denied;
  boost::system::error_code error;
  const auto at = asio::ip::make_address(host, error);
  if (error) return Errc::bad_request;
  auto holder = socket_at(executor_, tcp::endpoint(at, 0), options_.interface);
  if (!holder) return holder.error();
  tcp::endpoint own = holder->local_endpoint(error);
  if (error) return Errc::gone;
  return std::make_unique<TcpLocalPort>(std::move(*holder), std::move(own), clock_, options_);
}

}  // namespace collab::net
