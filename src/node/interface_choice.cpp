#include "node/interface_choice.hpp"

#include "base/error.hpp"
#include "net/tcp_options.hpp"

#include <fmt/format.h>

#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

namespace collab::node {
namespace {

std::string names_of_interfaces() {
  std::string names;
  struct if_nameindex* const all = ::if_nameindex();
  for (const struct if_nameindex* one = all; one != nullptr && one->if_name != nullptr; ++one) {
    if (!names.empty()) names += ", ";
    names += one->if_name;
  }
  if (all != nullptr) ::if_freenameindex(all);
  return names;
}

}  // namespace

std::string choose_interface(const std::string& wish) {
  if (wish.empty()) return wish;
  if (::if_nametoindex(wish.c_str()) == 0) {
    throw Failure(ExitCode::usage, fmt::format("this machine has no network interface \"{}\"", wish),
                  fmt::format("--interface with one of {}", names_of_interfaces()));
  }
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool may = net::use_interface(socket, wish);
  if (socket >= 0) ::close(socket);
  if (may) return wish;
  throw Failure(ExitCode::machine, fmt::format("this system does not let its users choose {} for connections", wish),
                "Linux 5.7 or newer, or without --interface");
}

}  // namespace collab::node
