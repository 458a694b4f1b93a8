#pragma once
// Streams of bytes in WebSocket messages over TLS (RFC 6455), as a web browser would open them.
//
// This outer TLS hides what is inside from whoever lets only the web through, and proves nothing: its certificate is
// made at the start and nobody verifies it. Inside runs the same TLS as over bare TCP, which says who is who.

#include "base/error.hpp"
#include "base/task.hpp"
#include "net/network.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <memory>
#include <string_view>

namespace collab::net {

/// Bounds of one stream. Messages are binary; where one ends means nothing.
inline constexpr std::size_t kWssUpgradeBytesMax = 8 * 1024;     ///< of the request that opens a WebSocket
inline constexpr std::size_t kWssMessageBytes = 256 * 1024;      ///< that we write at most
inline constexpr std::size_t kWssMessageBytesMax = 1088 * 1024;  ///< that we read
/// Pings, and messages without a byte, in a row. Empty fragments of a message that does not end are not counted: Beast
/// reads on over them by itself. They cost their sender six bytes each, and us no memory.
inline constexpr std::size_t kWssIdleFramesMax = 64;

/// Keys and rules of the outer layer, and what makes streams of sockets. Thread safety: none; belongs to the node's
/// loop. Outlives its streams.
class Wss {
 public:
  /// Throws `Failure(machine)` when OpenSSL lacks TLS 1.2 with P-256.
  Wss();
  ~Wss();
  Wss(const Wss&) = delete;
  Wss& operator=(const Wss&) = delete;

  /// Shakes hands over `socket`, which is connected to `to`; whoever waits sets the deadline. `remote`: what the stream
  /// says of the other side, numeric where that is known. `path`: of `ByteStream::path`. Errors: `gone`, whatever the
  /// other end is instead.
  Task<Result<std::unique_ptr<ByteStream>>> dialled(asio::ip::tcp::socket socket, Address to, Address remote,
                                                    std::string_view path);
  /// At once. The handshake is a part of the first read, so that it counts as the stranger's time, and nobody else
  /// waits for it. A text message, a request for anything but `kWssPath`, or more than the bounds above: `gone`.
  std::unique_ptr<ByteStream> accepted(asio::ip::tcp::socket socket, Address from);

 private:
  struct Rules;
  std::unique_ptr<Rules> rules_;
};

}  // namespace collab::net
