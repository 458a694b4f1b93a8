// What an HTTP proxy answers, and how a person names one. The first byte is even: the rest is an answer. Odd: the text
// of a proxy, a line, then that of no_proxy.
#include "net/proxy.hpp"
#include "support.hpp"

namespace collab::fuzz::proxy_answer_target {

/// A head is whole or not, whatever comes behind it, and no byte earlier.
void check_answer(std::string_view text) {
  const auto answer = net::read_connect_answer(text);
  if (!answer) {
    require(net::proxy_refusal(answer.error()).has_value());
    return;
  }
  if (!*answer) return;
  const net::ConnectAnswer head = **answer;
  require(head.status >= 100 && head.status <= 599);
  require(head.bytes > 0 && head.bytes <= text.size() && head.bytes <= net::kProxyHeadBytesMax);
  require(!head.other_login || head.status == net::kProxyWantsLogin);
  const auto again = net::read_connect_answer(text.substr(0, head.bytes));
  require(again && *again && (*again)->status == head.status && (*again)->bytes == head.bytes);
  for (const std::size_t size : {head.bytes - 1, head.bytes / 2}) {
    const auto early = net::read_connect_answer(text.substr(0, size));
    require(early && !*early);
  }
  const auto refusal = net::proxy_refusal(net::proxy_status(head.status));
  require(refusal && net::proxy_trouble(*refusal) == head.status && !net::proxy_remedy(head.status).empty());
}

/// A request is three lines and an empty one, whatever the login is made of.
void check_proxy(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  auto proxy = net::parse_proxy(text.substr(0, end));
  const auto direct = net::parse_no_proxy(text.substr(std::min(end + 1, text.size())));
  if (!proxy) return;
  proxy->direct = direct;
  for (const char* to : {"10.1.2.3:443", "[2001:db8::1]:443", "wss://peer.example:443/collab/v1"}) {
    const net::Address address = net::parse_address(to).value();
    (void)proxy->leads_to(address);
    const std::string request = net::connect_request(*proxy, address);
    std::size_t lines = 0;
    for (std::size_t at = request.find("\r\n"); at != std::string::npos; at = request.find("\r\n", at + 2)) ++lines;
    require(lines == (proxy->user.empty() ? 3U : 4U) && request.ends_with("\r\n\r\n"));
  }
}

COLLAB_FUZZ_TARGET(proxy_answer) {
  if (size == 0) return 0;
  const std::string_view rest = fuzz::text_of(fuzz::bytes_of(data + 1, size - 1));
  data[0] % 2 == 0 ? check_answer(rest) : check_proxy(rest);
  return 0;
}

}  // namespace collab::fuzz::proxy_answer_target
