#include "net/tcp_options.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace collab::net {
namespace {

struct Place {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  sockaddr* any() { return reinterpret_cast<sockaddr*>(&at); }
  bool is_link_local() const {
    return at.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(at).sin6_addr) != 0;
  }
};

/// A socket for datagrams, of which nobody hears, that goes by the same interface as `like`.
class Trial {
 public:
  Trial(int like, int family) : socket_(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    std::array<char, IFNAMSIZ> name{};
    socklen_t size = name.size();
    if (::getsockopt(like, SOL_SOCKET, SO_BINDTODEVICE, name.data(), &size) == 0)
      (void)use_interface(socket_, std::string(name.data()));
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    if (socket_ >= 0) ::close(socket_);
  }

  bool lacks(Place own) {
    if (own.at.ss_family == AF_INET6)
      reinterpret_cast<sockaddr_in6&>(own.at).sin6_port = 0;
    else
      reinterpret_cast<sockaddr_in&>(own.at).sin_port = 0;
    return ::bind(socket_, own.any(), own.size) != 0 && errno == EADDRNOTAVAIL;
  }
  /// From an address with which one gets there.
  bool leads(Place there) {
    Place from;
    return ::connect(socket_, there.any(), there.size) == 0 && ::getsockname(socket_, from.any(), &from.size) == 0 &&
           from.is_link_local() == there.is_link_local();
  }

 private:
  int socket_;
};

}  // namespace

bool use_interface(int socket, const std::string& name) {
  if (name.empty()) return true;
  return ::setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, name.c_str(), static_cast<socklen_t>(name.size())) == 0;
}

void queue_at_most(int socket, std::size_t bytes) {
  const auto value = static_cast<int>(bytes);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, sizeof value);
}

/// Linux paces TCP by itself, whatever the queueing of the device is, and by payload.
void pace(int socket, double bytes_per_s) {
  constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
  const auto value = static_cast<std::uint32_t>(std::min(bytes_per_s, double(kNone)));
  (void)::setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof value);
}

void receive_at_most(int socket, std::size_t bytes) {
  const auto value = static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &value, sizeof value);
}

/// While a line is down there is no way from any address: then it may come back with the one that it had.
bool is_stranded(int socket) {
  Place own;
  Place there;
  const bool stands =
      ::getsockname(socket, own.any(), &own.size) == 0 && ::getpeername(socket, there.any(), &there.size) == 0;
  if (!stands) return false;
  return Trial(socket, own.at.ss_family).lacks(own) && Trial(socket, there.at.ss_family).leads(there);
}

std::uint64_t confirmed(int socket) {
  struct {  // as Linux has it; the C library's ends with its first part
    ::tcp_info first;
    std::uint64_t pacing_rate;
    std::uint64_t max_pacing_rate;
    std::uint64_t bytes_acked;
  } info{};  // an older system knows less of it
  static_assert(sizeof info == 128);
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.bytes_acked : 0;
}

}  // namespace collab::net
