#include "served_loop.hpp"

#include <arpa/inet.h>
#include <cstdlib>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace collab::test {

Client::Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval limit{5, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error("cannot connect");
}

Client::~Client() {
  ::close(socket_);
}

void Client::send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

bool Client::read_more() {
  char chunk[4096];
  const ssize_t got = ::recv(socket_, chunk, sizeof chunk, 0);
  timed_out_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (got <= 0) return false;
  unread_.append(chunk, static_cast<std::size_t>(got));
  return true;
}

std::string Client::read_until(std::string_view mark) {
  std::size_t at = 0;
  while ((at = unread_.find(mark)) == std::string::npos) {
    if (!read_more()) return std::exchange(unread_, {});
  }
  std::string text = unread_.substr(0, at + mark.size());
  unread_.erase(0, at + mark.size());
  return text;
}

std::string Client::read_to_end() {
  while (read_more()) {
  }
  return timed_out_ ? "timeout" : std::exchange(unread_, {});
}

std::string Client::read_answer() {
  std::string answer = read_until("\r\n\r\n");
  constexpr std::string_view kLength = "Content-Length: ";
  const std::size_t at = answer.find(kLength);
  if (at == std::string::npos) return answer;
  const std::size_t body = std::strtoul(answer.c_str() + at + kLength.size(), nullptr, 10);
  while (unread_.size() < body && read_more()) {
  }
  answer += unread_.substr(0, body);
  unread_.erase(0, body);
  return answer;
}

}  // namespace collab::test
