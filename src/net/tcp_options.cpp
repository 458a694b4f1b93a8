#include "net/tcp_options.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace collab::net {
namespace {

using SocketCall = int (*)(int, const sockaddr*, socklen_t);

/// What the system says to a socket for datagrams, which nobody hears of: an `errno`, or 0.
int tried(SocketCall call, const sockaddr_storage& at, socklen_t size) {
  const int socket = ::socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  const int problem = call(socket, reinterpret_cast<const sockaddr*>(&at), size) == 0 ? 0 : errno;
  ::close(socket);
  return problem;
}

void clear_port(sockaddr_storage& at) {
  if (at.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(at).sin6_port = 0;
  else
    reinterpret_cast<sockaddr_in&>(at).sin_port = 0;
}

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
  sockaddr_storage own{};
  sockaddr_storage there{};
  socklen_t own_size = sizeof own;
  socklen_t there_size = sizeof there;
  const bool stands = ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
                      ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_size) == 0;
  if (!stands) return false;
  clear_port(own);
  return tried(::bind, own, own_size) == EADDRNOTAVAIL && tried(::connect, there, there_size) == 0;
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
