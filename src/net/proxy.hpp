#pragma once
// An HTTP proxy that leads out of a network, by CONNECT (RFC 9110, 9.3.6). Text only: tcp.cpp moves the bytes.

#include "base/error.hpp"
#include "net/address.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::net {

inline constexpr std::size_t kProxyHeadBytesMax = 8 * 1024;  ///< of its answer; a longer one is refused
inline constexpr int kProxyWantsLogin = 407;

/// Where it is, and who we are to it. `user` and `password` go to the proxy only: into no log, report or message.
struct Proxy {
  Address at;
  std::string user;  ///< empty: no login (Basic, RFC 7617)
  std::string password;
  std::vector<std::string> direct;  ///< places that need no proxy, as `parse_no_proxy` gives them

  /// Whether `to` is dialled through it: not this machine (loopback, unspecified), which would be the proxy's, nor what
  /// is `direct`.
  bool leads_to(const Address& to) const;
};

/// `[USER:PASSWORD@]HOST:PORT`, also behind `http://`, with `%40` and the like in a login. Errors: `bad_request`, for a
/// proxy of another kind (https, socks) too. Whoever tells of that does not repeat `text`: a password may be in it.
Result<Proxy> parse_proxy(std::string_view text);
/// What `no_proxy` lists: names (`example.org` and all below it), numeric hosts, networks (`10.0.0.0/8`), `*` for all,
/// each with `:PORT` or without. Blanks and what is none of these are left out.
std::vector<std::string> parse_no_proxy(std::string_view text);

/// The head that asks for a way to `to`: its host as it is, so that a name is looked up by the proxy.
std::string connect_request(const Proxy& proxy, const Address& to);

/// The head of an answer.
struct ConnectAnswer {
  int status = 0;            ///< 101, or 200 to 599; 2xx: what follows comes from whom we asked for
  std::size_t bytes = 0;     ///< of the head, with the empty line, and of those (1xx) that came before it
  bool other_login = false;  ///< it wants a login, but of another kind than Basic
};
/// From the bytes that came so far; nothing: more are needed. Errors: `ProxyFault::not_http`, `ProxyFault::too_long`.
Result<std::optional<ConnectAnswer>> read_connect_answer(std::string_view so_far);

/// Why a dial came to nothing at the proxy; beside these the status of its answer, where that is none of 2xx.
enum class ProxyFault {
  unreachable = 1,  ///< no connection to it
  silent,           ///< connected, but no answer in time: as a rule it waits for the place that we asked for
  closed,           ///< it closed the connection instead of answering
  not_http,         ///< an answer that no HTTP proxy gives
  too_long,         ///< the head of its answer goes on beyond `kProxyHeadBytesMax`
  spoke_first,      ///< bytes behind its answer: nobody whom we dial speaks before we do
  other_login,      ///< 407, and it takes no Basic login
};
boost::system::error_code make_error_code(ProxyFault) noexcept;
/// `status`: of an answer.
boost::system::error_code proxy_status(int status) noexcept;

/// For callers of a dial: `gone`, words for a person that begin with "proxy: ", and the fault or status as number.
/// Nothing when `error` is not about a proxy.
std::optional<Refusal> proxy_refusal(const boost::system::error_code& error);
/// The number of such a refusal; nothing of any other.
std::optional<int> proxy_trouble(const Refusal& why);
/// What its owner can do about it.
std::string proxy_remedy(int trouble);

}  // namespace collab::net

template <>
struct boost::system::is_error_code_enum<collab::net::ProxyFault> : std::true_type {};
