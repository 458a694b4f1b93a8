#include "net/address.hpp"

#include <boost/asio/ip/address.hpp>

#include <charconv>

namespace collab::net {
namespace {

constexpr std::size_t kHostBytesMax = 253;  // of a host name, RFC 1035
constexpr std::string_view kWssScheme = "wss://";
constexpr std::string_view kRelayScheme = "relay://";

Result<std::uint16_t> parse_port(std::string_view text, bool any_port) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return Errc::bad_request;
  if (port == 0 && !any_port) return Errc::bad_request;
  return port;
}

bool is_host_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

bool is_v6_letter(char c) {  // a zone such as fe80::1%eth0 included
  return is_host_letter(c) || c == ':' || c == '%';
}

template <class Letter>
bool all_of(std::string_view text, Letter letter) {
  for (const char c : text)
    if (!letter(c)) return false;
  return true;
}

/// `text` has the port.
Result<Address> parse_host_and_port(std::string_view text, bool any_port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Errc::bad_request;
  std::string_view host = text.substr(0, colon);
  const bool in_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.size() > kHostBytesMax) return Errc::bad_request;
  if (in_brackets ? !all_of(host, is_v6_letter) || host.find(':') == std::string_view::npos
                  : !all_of(host, is_host_letter))
    return Errc::bad_request;
  const auto port = parse_port(text.substr(colon + 1), any_port);
  if (!port) return port.error();
  Address address;
  address.host = host;
  address.port = *port;
  return address;
}

bool has_port(std::string_view host_and_port) {
  const std::size_t colon = host_and_port.rfind(':');
  return colon != std::string_view::npos && host_and_port.find(']', colon) == std::string_view::npos;
}

Result<Address> parse_wss(std::string_view text, bool any_port) {
  if (!text.ends_with(kWssPath)) return Errc::bad_request;
  text.remove_suffix(kWssPath.size());
  std::string place(text);
  if (!has_port(place)) place += ":" + std::to_string(kWssPort);
  auto address = parse_host_and_port(place, any_port);
  if (address) address->leg = Leg::wss;
  return address;
}

/// The key is not looked at: TLS proves it.
Result<Address> parse_relay(std::string_view text, bool any_port) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return Errc::bad_request;
  const auto relay = PeerId::parse_listed(text.substr(slash + 1));
  if (!relay) return Errc::bad_request;
  auto address = parse_host_and_port(text.substr(0, slash), any_port);
  if (!address) return address;
  address->leg = Leg::relay;
  address->relay = *relay;
  return address;
}

}  // namespace

std::string host_and_port(const Address& address) {
  const std::string host = is_v6(address.host) ? "[" + address.host + "]" : address.host;
  return host + ":" + std::to_string(address.port);
}

std::string to_string(const Address& address) {
  switch (address.leg) {
    case Leg::tcp: break;
    case Leg::wss: return std::string(kWssScheme) + host_and_port(address) + std::string(kWssPath);
    case Leg::relay:
    case Leg::onward: return std::string(kRelayScheme) + host_and_port(address) + "/" + address.relay.text();
  }
  return host_and_port(address);
}

Result<Address> parse_address(std::string_view text, bool any_port) {
  if (text.starts_with(kWssScheme)) return parse_wss(text.substr(kWssScheme.size()), any_port);
  if (text.starts_with(kRelayScheme)) return parse_relay(text.substr(kRelayScheme.size()), any_port);
  return parse_host_and_port(text, any_port);
}

bool is_numeric(const Address& address) {
  boost::system::error_code no_address;
  boost::asio::ip::make_address(address.host, no_address);
  return !no_address;
}

Result<Address> parse_numeric_address(std::string_view text) {
  auto address = parse_address(text);
  if (address && !is_numeric(*address)) return Errc::bad_request;
  return address;
}

}  // namespace collab::net
