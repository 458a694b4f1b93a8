#include "net/proxy.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace collab::net {
namespace {

namespace ip = boost::asio::ip;

constexpr std::string_view kWords = "proxy: ";
constexpr std::size_t kNoProxyMax = 256;  // entries; those beyond are left out

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<int> hex_digit(char c) {
  const char low = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (low >= '0' && low <= '9') return low - '0';
  if (low >= 'a' && low <= 'f') return low - 'a' + 10;
  return std::nullopt;
}

/// A percent sign that begins no escape stands for itself: passwords are pasted as they are.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    out += low ? static_cast<char>(*high * 16 + *low) : text[i];
    if (low) i += 2;
  }
  return out;
}

std::string base64(std::string_view text) {
  std::string out(4 * ((text.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

// --- what needs no proxy

struct Exempt {
  std::string_view host;
  std::string_view port;  ///< empty: any
};

/// Cuts `:PORT` off; a bare IPv6 address has none.
Exempt take_apart(std::string_view entry) {
  Exempt exempt;
  const std::size_t colon = entry.rfind(':');
  const bool bracketed = entry.starts_with('[');
  const bool has_port =
      colon != std::string_view::npos && (bracketed ? entry[colon - 1] == ']' : entry.find(':') == colon);
  exempt.host = has_port ? entry.substr(0, colon) : entry;
  if (has_port) exempt.port = entry.substr(colon + 1);
  if (bracketed && exempt.host.ends_with(']')) exempt.host = exempt.host.substr(1, exempt.host.size() - 2);
  return exempt;
}

template <class Network, class Host>
bool is_within(const Network& network, const Host& host) {
  return Network(host, network.prefix_length()).canonical() == network.canonical();
}

bool is_in_network(std::string_view network, const ip::address& host) {
  boost::system::error_code error;
  if (host.is_v4()) {
    const auto v4 = ip::make_network_v4(std::string(network), error);
    return !error && is_within(v4, host.to_v4());
  }
  const auto v6 = ip::make_network_v6(std::string(network), error);
  return !error && is_within(v6, host.to_v6());
}

bool covers(std::string_view entry, const Address& to) {
  const Exempt exempt = take_apart(entry);
  if (!exempt.port.empty() && exempt.port != std::to_string(to.port)) return false;
  if (exempt.host == "*") return true;
  boost::system::error_code named;
  const ip::address numeric = ip::make_address(to.host, named);
  if (!named) {
    if (exempt.host.find('/') != std::string_view::npos) return is_in_network(exempt.host, numeric);
    const ip::address other = ip::make_address(std::string(exempt.host), named);
    return !named && other == numeric;
  }
  const std::string host = lower(to.host);
  const std::string_view domain = exempt.host.starts_with('.') ? exempt.host.substr(1) : exempt.host;
  if (domain.empty()) return false;
  return host == domain || (host.ends_with(domain) && host[host.size() - domain.size() - 1] == '.');
}

/// `socks5://`, `https://`; not what a password may have in it.
bool has_scheme(std::string_view text) {
  const std::size_t end = text.find("://");
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return end != std::string_view::npos &&
         std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), is_letter);
}

bool is_loopback(const std::string& host) {
  boost::system::error_code named;
  const ip::address address = ip::make_address(host, named);
  if (named) return lower(host) == "localhost" || lower(host) == "localhost.";
  if (address.is_unspecified()) return true;  // who dials it meets this machine
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? is_loopback(ip::make_address_v4(ip::v4_mapped, address.to_v6()).to_string()) : address.is_loopback();
}

// --- its answer

/// Where the head ends; npos: not yet. A line may end without its carriage return, as RFC 9112, 2.2 lets readers allow.
std::size_t head_end(std::string_view bytes) {
  const std::size_t strict = bytes.find("\n\r\n");
  const std::size_t loose = bytes.find("\n\n");
  if (loose < strict) return loose + 2;
  return strict == std::string_view::npos ? strict : strict + 3;
}

/// None yet, or one that promises another (RFC 9110, 15.2). After 101 comes no other.
bool is_interim(int status) {
  return status < 200 && status != 101;
}

/// Of the first line, `HTTP/1.1 200 words`; the words may be missing.
std::optional<int> status_of(std::string_view head) {
  std::string_view line = head.substr(0, head.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  constexpr std::string_view kVersion = "HTTP/1.";
  constexpr std::size_t kStatusAt = kVersion.size() + 2;
  if (!line.starts_with(kVersion) || line.size() < kStatusAt + 3 || line[kStatusAt - 1] != ' ') return std::nullopt;
  int status = 0;
  const char* begin = line.data() + kStatusAt;
  const auto [end, error] = std::from_chars(begin, begin + 3, status);
  if (error != std::errc() || end != begin + 3 || status < 100 || status > 599) return std::nullopt;
  if (line.size() > kStatusAt + 3 && line[kStatusAt + 3] != ' ') return std::nullopt;
  return status;
}

/// What could still become a head does so far look like one.
bool may_be_http(std::string_view bytes) {
  constexpr std::string_view kBegin = "HTTP/1.";
  return bytes.substr(0, kBegin.size()) == kBegin.substr(0, bytes.size());
}

/// Whether one of these kinds, `Negotiate,Basic realm="x"`, is Basic; in lower case. A comma within quotes cuts too:
/// the worst of that is the wrong words for a person.
bool names_basic(std::string_view kinds) {
  constexpr std::string_view kBasic = "basic";
  while (!kinds.empty()) {
    const std::size_t end = std::min(kinds.find(','), kinds.size());
    const std::string_view kind = trimmed(kinds.substr(0, end));
    kinds.remove_prefix(std::min(end + 1, kinds.size()));
    if (kind.substr(0, kind.find_first_of(" \t\r")) == kBasic) return true;
  }
  return false;
}

/// Whether it names kinds of login, and Basic is not among them.
bool wants_other_login(std::string_view head) {
  constexpr std::string_view kField = "proxy-authenticate:";
  bool named = false;
  bool basic = false;
  while (!head.empty()) {
    const std::size_t end = std::min(head.find('\n'), head.size());
    const std::string line = lower(head.substr(0, end));
    head.remove_prefix(std::min(end + 1, head.size()));
    if (!line.starts_with(kField)) continue;
    named = true;
    basic = basic || names_basic(std::string_view(line).substr(kField.size()));
  }
  return named && !basic;
}

// --- words

class ProxyCategory final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "collab.proxy"; }
  std::string message(int trouble) const override {
    switch (trouble) {
      case static_cast<int>(ProxyFault::unreachable): return "nobody answers where it is said to be";
      case static_cast<int>(ProxyFault::silent): return "it does not answer for that place in time";
      case static_cast<int>(ProxyFault::closed): return "it closes the connection instead of answering";
      case static_cast<int>(ProxyFault::not_http): return "what answers there is no HTTP proxy";
      case static_cast<int>(ProxyFault::too_long): return "the head of its answer does not end";
      case static_cast<int>(ProxyFault::spoke_first): return "it speaks for whom we dial before we do";
      case static_cast<int>(ProxyFault::other_login): return "it wants a login (407), of another kind than Basic";
      case kProxyWantsLogin: return "it wants a login, or another one (407)";
      case 403:
      case 405: return "it does not allow that place or port (" + std::to_string(trouble) + ")";
      case 502:
      case 503:
      case 504: return "it cannot reach that place (" + std::to_string(trouble) + ")";
      default: return "it answers " + std::to_string(trouble);
    }
  }
};

const boost::system::error_category& proxy_category() noexcept {
  static const ProxyCategory category;
  return category;
}

}  // namespace

bool Proxy::leads_to(const Address& to) const {
  const auto spares = [&](const std::string& entry) { return covers(entry, to); };
  return !is_loopback(to.host) && std::none_of(direct.begin(), direct.end(), spares);
}

Result<Proxy> parse_proxy(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (lower(text.substr(0, kScheme.size())) == kScheme) text.remove_prefix(kScheme.size());
  if (has_scheme(text)) return Errc::bad_request;
  if (text.ends_with('/')) text.remove_suffix(1);
  Proxy proxy;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::string_view login = text.substr(0, at);
    const std::size_t colon = std::min(login.find(':'), login.size());
    proxy.user = unescaped(login.substr(0, colon));
    proxy.password = unescaped(login.substr(std::min(colon + 1, login.size())));
    // a colon in the name would move the border (RFC 7617); the rest would end the header or the text
    if (proxy.user.empty() || proxy.user.find(':') != std::string::npos) return Errc::bad_request;
    text.remove_prefix(at + 1);
  }
  auto place = parse_address(text);
  if (!place || place->leg != Leg::tcp) return Errc::bad_request;
  proxy.at = std::move(*place);
  return proxy;
}

std::vector<std::string> parse_no_proxy(std::string_view text) {
  std::vector<std::string> entries;
  while (!text.empty() && entries.size() < kNoProxyMax) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view entry = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.starts_with("*.")) entry.remove_prefix(1);
    if (!entry.empty()) entries.push_back(lower(entry));
  }
  return entries;
}

std::string connect_request(const Proxy& proxy, const Address& to) {
  const std::string place = host_and_port(to);
  std::string request = "CONNECT " + place + " HTTP/1.1\r\nHost: " + place + "\r\n";
  if (!proxy.user.empty())
    request += "Proxy-Authorization: Basic " + base64(proxy.user + ":" + proxy.password) + "\r\n";
  return request + "\r\n";
}

Result<std::optional<ConnectAnswer>> read_connect_answer(std::string_view so_far) {
  ConnectAnswer answer;
  while (is_interim(answer.status)) {
    const std::string_view rest = so_far.substr(answer.bytes);
    if (!may_be_http(rest)) return ProxyFault::not_http;
    const std::size_t end = head_end(rest.substr(0, kProxyHeadBytesMax - answer.bytes));
    if (end == std::string_view::npos) {
      if (so_far.size() >= kProxyHeadBytesMax) return ProxyFault::too_long;
      return std::optional<ConnectAnswer>();
    }
    const std::string_view head = rest.substr(0, end);
    const auto status = status_of(head);
    if (!status) return ProxyFault::not_http;
    answer.status = *status;
    answer.bytes += end;
    answer.other_login = *status == kProxyWantsLogin && wants_other_login(head);
  }
  return std::optional(answer);
}

boost::system::error_code make_error_code(ProxyFault fault) noexcept {
  return {static_cast<int>(fault), proxy_category()};
}

boost::system::error_code proxy_status(int status) noexcept {
  return {status, proxy_category()};
}

std::optional<Refusal> proxy_refusal(const boost::system::error_code& error) {
  if (error.category() != proxy_category()) return std::nullopt;
  return Refusal(Errc::gone, std::string(kWords) + error.message(), static_cast<std::uint64_t>(error.value()));
}

std::optional<int> proxy_trouble(const Refusal& why) {
  if (why.code != Errc::gone || !why.reason.starts_with(kWords)) return std::nullopt;
  return static_cast<int>(why.number);
}

std::string proxy_remedy(int trouble) {
  switch (trouble) {
    case kProxyWantsLogin: return "give the right login: --proxy USER:PASSWORD@HOST:PORT";
    case static_cast<int>(ProxyFault::other_login):
      return "ask who runs the proxy for one that takes a Basic login, or run a proxy here that speaks to that one";
    case 403:
    case 405:
      return "dial an address that the proxy allows, as a rule wss://HOST:443/collab/v1, or ask who runs the proxy";
    case static_cast<int>(ProxyFault::silent):  // most wait longer than we do for whom they cannot reach
    case 502:
    case 503:
    case 504: return "check host and port with whoever hosts it";
    default: return "check where the proxy is: --proxy HOST:PORT, or --proxy off where none is needed";
  }
}

}  // namespace collab::net
