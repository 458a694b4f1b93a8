#include "doctor/port.hpp"

#include "node/find_run.hpp"

#include <fmt/format.h>

#include <string>

namespace collab::doctor {
namespace {

constexpr const char* kPortName = "port";
constexpr const char* kPerhapsOurs = "perhaps by the peer that runs here";

/// With the port that the system chose.
Result<net::Address> try_port(net::Network& network, const net::Address& at) {
  const auto listener = network.listen(at);
  if (!listener) return listener.error();
  const net::Address local = (*listener)->local();
  (*listener)->close();
  return local;
}

net::Address default_address(std::uint16_t nth) {
  net::Address at;
  at.host = "::";
  at.port = static_cast<std::uint16_t>(node::kDefaultPort + nth);
  return at;
}

/// The first of the usual ports at `host` that is free, else any.
std::optional<net::Address> free_port(net::Network& network, const std::string& host) {
  net::Address at;
  for (std::uint16_t i = 0; i <= node::kDefaultPorts; ++i) {
    at = default_address(i);
    at.host = host;
    if (i == node::kDefaultPorts) at.port = 0;
    if (const auto open = try_port(network, at)) return *open;
  }
  return std::nullopt;
}

std::string why(const boost::system::error_code& error) {
  if (error == Errc::busy) return "is taken";
  if (error == Errc::denied) return "is not allowed to this user";
  return "is no address of this machine";
}

/// A port that was wanted and cannot be had, with what a start would end with.
Finding cannot_have(net::Network& network, const std::string& measured, const net::Address& wanted,
                    const boost::system::error_code& error) {
  if (error != Errc::busy && error != Errc::denied)
    return fail(kPortName, measured, "an address that it has, or [::]:PORT for all", ExitCode::usage);
  const auto open = free_port(network, wanted.host);
  const std::string remedy =
      open ? fmt::format("--listen {}, which is free", net::to_string(*open)) : "another --listen";
  return fail(kPortName, measured, remedy, ExitCode::machine);
}

PortCheck check_wanted(net::Network& network, const net::Address& wanted, bool peer_here) {
  PortCheck check;
  const auto open = try_port(network, wanted);
  if (open) {
    check.open = *open;
    check.finding = ok(kPortName, fmt::format("{} is free", net::to_string(*open)));
    return check;
  }
  const std::string measured = fmt::format("{} {}", net::to_string(wanted), why(open.error()));
  if (peer_here && open.error() == Errc::busy) {
    check.finding = warn(kPortName, fmt::format("{}, {}", measured, kPerhapsOurs), "stop that one first");
  } else {
    check.finding = cannot_have(network, measured, wanted, open.error());
  }
  return check;
}

}  // namespace

PortCheck check_port(net::Network& network, const PortWish& wish) {
  PortCheck check;
  if (wish.client) {
    check.finding = ok(kPortName, "none, by wish: this peer only dials");
    return check;
  }
  if (wish.wanted) return check_wanted(network, *wish.wanted, wish.peer_here);
  const net::Address first = default_address(0);
  check.open = free_port(network, first.host);
  if (!check.open) {
    check.finding =
        fail(kPortName, "no port can be listened at", "allow listening, or --client to dial only", ExitCode::machine);
  } else if (check.open->port == first.port) {
    check.finding = ok(kPortName, fmt::format("{} is free", first.port));
  } else if (wish.peer_here) {
    check.open.reset();  // a port that nobody has opened in the firewall says nothing of the one in use
    check.finding = ok(kPortName, fmt::format("{} is taken, {}", first.port, kPerhapsOurs));
  } else {
    check.finding = ok(kPortName, fmt::format("{} is taken, {} is free", first.port, check.open->port));
  }
  return check;
}

Finding check_wss_port(net::Network& network, const std::string& host, std::uint16_t port, bool peer_here) {
  constexpr const char* kName = "wss port";
  const auto open = try_port(network, net::Address{host, port, net::Leg::wss});
  if (open) return ok(kName, fmt::format("{} is free", port));
  const std::string measured = fmt::format("{} {}", port, why(open.error()));
  if (peer_here && open.error() == Errc::busy)
    return warn(kName, fmt::format("{}, {}", measured, kPerhapsOurs), "stop that one first");
  const bool denied = open.error() == Errc::denied;
  return fail(kName, measured,
              denied ? "let this program have it (CAP_NET_BIND_SERVICE), or leave out --wss-port"
                     : "end the program that has it, or another --wss-port",
              ExitCode::machine);
}

}  // namespace collab::doctor
