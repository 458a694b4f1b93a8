#include "net/proxy.hpp"

#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

/// The head of an answer with these lines.
std::string head(std::initializer_list<std::string> lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\r\n";
  return text + "\r\n";
}

struct Said {
  std::string bytes;
  int trouble = 0;  ///< 0: it leads on
};

/// As the dialler judges a whole answer; -1: it waits for more.
int trouble_of(const std::string& bytes) {
  const auto answer = read_connect_answer(bytes);
  if (!answer) return answer.error().value();
  if (!*answer) return -1;
  if ((*answer)->other_login) return static_cast<int>(ProxyFault::other_login);
  return (*answer)->status / 100 == 2 ? 0 : (*answer)->status;
}

bool leads(const std::string& no_proxy, const std::string& to) {
  Proxy proxy;
  proxy.direct = parse_no_proxy(no_proxy);
  return proxy.leads_to(parse_address(to).value());
}

}  // namespace

TEST_CASE("proxy: place and login are read from a flag or a URL") {
  const auto plain = parse_proxy("proxy.example:3128");
  REQUIRE(plain);
  CHECK(plain->at == Address{"proxy.example", 3128});
  CHECK(plain->user.empty());
  const auto login = parse_proxy("http://anna:p%40ss:w%C3%B6rd%zz@[2001:db8::1]:8080/");
  REQUIRE(login);
  CHECK(login->at == Address{"2001:db8::1", 8080});
  CHECK(login->user == "anna");
  CHECK(login->password == "p@ss:w\xC3\xB6rd%zz");
  const auto raw = parse_proxy("anna:a@b@host:1");
  REQUIRE(raw);
  CHECK(raw->password == "a@b");
  CHECK(parse_proxy("anna@host:1")->password.empty());
  for (const char* text :
       {"", "host", "host:0", ":@host:1", "@host:1", "https://host:1", "socks5://host:1", "socks5://anna:secret@host:1",
        "http://host:1/path", "wss://host:443/collab/v1", "a%3Ab:c@host:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_proxy(text));
  }
}

TEST_CASE("proxy: a request names the place as it is, and carries the login only when there is one") {
  Proxy proxy = parse_proxy("host:1").value();
  CHECK(connect_request(proxy, Address{"peer.example", 443, Leg::wss}) ==
        "CONNECT peer.example:443 HTTP/1.1\r\nHost: peer.example:443\r\n\r\n");
  proxy.user = "Aladdin";
  proxy.password = "open sesame";  // the example of RFC 7617
  CHECK(connect_request(proxy, Address{"2001:db8::1", 4600}) ==
        "CONNECT [2001:db8::1]:4600 HTTP/1.1\r\nHost: [2001:db8::1]:4600\r\n"
        "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n");
  proxy.user = "x\r\nInjected: 1";
  CHECK(connect_request(proxy, Address{"h", 1}).find("Injected") == std::string::npos);
}

TEST_CASE("proxy: each answer means one thing") {
  const auto fault = [](ProxyFault which) { return static_cast<int>(which); };
  const std::vector<Said> table = {
      {head({"HTTP/1.1 200 Connection established"}), 0},
      {head({"HTTP/1.0 200 OK", "Via: 1.1 somebody"}), 0},
      {head({"HTTP/1.1 200"}), 0},
      {head({"HTTP/1.1 204 "}), 0},
      {"HTTP/1.1 200 ends lines in its own way\n\n", 0},
      {head({"HTTP/1.1 407 Proxy Authentication Required", "Proxy-Authenticate: Basic realm=\"x\""}), 407},
      {head({"HTTP/1.1 407 No", "proxy-authenticate: Negotiate", "PROXY-AUTHENTICATE: basic realm=\"x\""}), 407},
      {head({"HTTP/1.1 407 No", "Proxy-Authenticate: NTLM, Basic realm=\"x\""}), 407},
      {head({"HTTP/1.1 407 No"}), 407},
      {head({"HTTP/1.1 407 No", "Proxy-Authenticate: Negotiate,Basic"}), 407},
      {head({"HTTP/1.1 407 No", "Proxy-Authenticate: Basics, Digest"}), fault(ProxyFault::other_login)},
      {head({"HTTP/1.1 407 No", "Proxy-Authenticate: NTLM"}), fault(ProxyFault::other_login)},
      {head({"HTTP/1.1 403 Forbidden"}), 403},
      {head({"HTTP/1.1 502 Bad Gateway", "Content-Length: 99999999999999999999"}), 502},
      {head({"HTTP/1.1 100 Continue"}), -1},
      {head({"HTTP/1.1 100 Continue"}) + head({"HTTP/1.1 103 Soon", "Link: x"}) + head({"HTTP/1.1 200 OK"}), 0},
      {head({"HTTP/1.1 100 Continue"}) + head({"HTTP/1.1 407 No"}), 407},
      {head({"HTTP/1.1 100 Continue"}) + "hello", fault(ProxyFault::not_http)},
      {head({"HTTP/1.1 101 Switching"}), 101},
      {head({"HTTP/1.1 100 " + std::string(kProxyHeadBytesMax - 100, 'x')}) +
           head({std::string("HTTP/1.1 200 ") + std::string(100, 'x')}),
       fault(ProxyFault::too_long)},
      {head({"HTTP/1.1 301 Moved", "Location: http://elsewhere/"}), 301},
      {head({"HTTP/1.1 600 ?"}), fault(ProxyFault::not_http)},
      {head({"HTTP/1.1 099 ?"}), fault(ProxyFault::not_http)},
      {head({"HTTP/1.1 20 ?"}), fault(ProxyFault::not_http)},
      {head({"HTTP/1.1 2000 ?"}), fault(ProxyFault::not_http)},
      {head({"HTTP/1.1 -20 ?"}), fault(ProxyFault::not_http)},
      {head({"HTTP/1.1  200 OK"}), fault(ProxyFault::not_http)},
      {head({"HTTP/2 200"}), fault(ProxyFault::not_http)},
      {head({"SSH-2.0-OpenSSH_9.2"}), fault(ProxyFault::not_http)},
      {"\x16\x03\x01", fault(ProxyFault::not_http)},
      {"<html>", fault(ProxyFault::not_http)},
      {"HTTP/1.1 200 OK\r\n" + std::string(kProxyHeadBytesMax, 'x'), fault(ProxyFault::too_long)},
      {"HTTP/1.1 200 OK\r\n" + std::string(kProxyHeadBytesMax, 'x') + "\r\n\r\n", fault(ProxyFault::too_long)},
      {std::string("HTTP/1.1 200 OK\0\r\n\r\n", 20), 0},
      {"", -1},
      {"HTTP/1.", -1},
      {"HTTP/1.1 200 OK\r\nVia: x\r\n", -1},
  };
  for (const Said& said : table) {
    CAPTURE(said.bytes.substr(0, 60));
    CHECK(trouble_of(said.bytes) == said.trouble);
  }
}

TEST_CASE("proxy: an answer may come a byte at a time, and its end is where it is") {
  const std::string whole = head({"HTTP/1.1 200 OK", "Via: x"});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto answer = read_connect_answer(whole.substr(0, size));
    REQUIRE(answer);
    CHECK_FALSE(*answer);
  }
  const auto answer = read_connect_answer(whole + "\x16\x03\x03");
  REQUIRE((answer && *answer));
  CHECK((*answer)->bytes == whole.size());
  const std::string two = head({"HTTP/1.1 100 Continue"}) + whole;
  CHECK(read_connect_answer(two + "x").value()->bytes == two.size());
}

TEST_CASE("proxy: what no_proxy lists is dialled without it, and so is this machine") {
  CHECK(leads("", "peer.example:443"));
  CHECK(leads("", "10.1.2.3:443"));
  for (const char* own : {"127.0.0.1:4600", "[::1]:4600", "localhost:4600", "127.1.2.3:4600", "[::ffff:127.0.0.1]:4600",
                          "0.0.0.0:4600", "[::]:4600", "LOCALHOST.:4600"})
    CHECK_FALSE(leads("", own));
  CHECK(leads("", "[::ffff:10.1.2.3]:4600"));
  CHECK_FALSE(leads("*", "peer.example:443"));
  CHECK_FALSE(leads("other.example , EXAMPLE", "peer.Example:443"));
  CHECK_FALSE(leads(".example", "peer.example:443"));
  CHECK_FALSE(leads("*.example", "peer.example:443"));
  CHECK(leads("ample", "peer.example:443"));
  CHECK_FALSE(leads("10.0.0.0/8", "10.1.2.3:443"));
  CHECK(leads("10.0.0.0/8", "11.1.2.3:443"));
  CHECK_FALSE(leads("2001:db8::/32", "[2001:db8:1::1]:443"));
  CHECK_FALSE(leads("2001:db8::1", "[2001:db8:0::1]:443"));
  CHECK(leads("2001:db8::/32", "10.1.2.3:443"));
  CHECK_FALSE(leads("10.1.2.3:443", "10.1.2.3:443"));
  CHECK(leads("10.1.2.3:443", "10.1.2.3:4600"));
  CHECK_FALSE(leads("[2001:db8::1]:443", "[2001:db8::1]:443"));
  CHECK(leads("10.0.0.0/99,:443,/,10.1.2.3/,[,]:1", "10.1.2.3:443"));
  CHECK(parse_no_proxy(std::string(100'000, ',')).empty());
  CHECK(parse_no_proxy("a,,  b ,").size() == 2);
}

TEST_CASE("proxy: a refusal says what it is, keeps its number, and what to do about it") {
  const auto login = proxy_refusal(proxy_status(407));
  REQUIRE(login);
  CHECK(login->code == Errc::gone);
  CHECK(login->reason == "proxy: it wants a login, or another one (407)");
  CHECK(proxy_trouble(*login) == 407);
  CHECK(proxy_remedy(407).find("--proxy USER:PASSWORD@HOST:PORT") != std::string::npos);
  CHECK(proxy_remedy(403).find("wss://HOST:443/collab/v1") != std::string::npos);
  CHECK(proxy_trouble(proxy_refusal(ProxyFault::silent).value()) == static_cast<int>(ProxyFault::silent));
  CHECK(proxy_remedy(static_cast<int>(ProxyFault::silent)) == proxy_remedy(502));
  CHECK(proxy_remedy(static_cast<int>(ProxyFault::unreachable)).find("where the proxy is") != std::string::npos);
  CHECK_FALSE(proxy_refusal(Errc::gone));
  CHECK_FALSE(proxy_trouble(Refusal(Errc::gone, "no address answers")));
  CHECK_FALSE(proxy_trouble(Refusal(Errc::denied, "proxy: said a stranger", 407)));
}

}  // namespace collab::net
