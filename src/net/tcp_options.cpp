#include "net/tcp_options.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace collab::net {

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
