#pragma once
// What a SecureChannel runs on: TLS, or what a simulated network puts in its place.

#include "crypto/peer_id.hpp"
#include "net/byte_queue.hpp"
#include "net/record_head.hpp"
#include "net/tls_fault.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace collab::net {

/// `dialled`: we opened the connection, so we are the TLS client. After a simultaneous open the lower id is.
enum class Side { dialled, accepted };

/// The state of one end, which its SecureChannel shows, and what moves it. Sets `fault` when it fails and is not called
/// again then.
struct ChannelEngine {
  ChannelEngine() = default;
  ChannelEngine(const ChannelEngine&) = delete;
  ChannelEngine& operator=(const ChannelEngine&) = delete;
  virtual ~ChannelEngine() = default;

  /// Takes the beginning of `ciphertext`, which has bytes, to the end of a record at most, and returns its size; may
  /// add to `output`, set `established` with `peer`, or `closed`. Plaintext goes to `room`, of which `placed` says how
  /// much that was, when nothing waits in `opened` and all of a record fits there; else it is added to `opened`.
  virtual std::size_t receive(std::span<const std::byte> ciphertext, std::span<std::byte> room) = 0;
  /// When established: a record of `head`, then `body`, together 1 to kRecordBytes. Adds to `output`.
  virtual void seal(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  /// Once, when established: says that nothing more will be sent.
  virtual void close() = 0;
  virtual std::array<std::byte, 32> exporter(std::string_view label) const = 0;
  virtual void trim() = 0;

  void fail(TlsFault found, std::string reason) {
    fault = found;
    failure = std::move(reason);
  }

  ByteQueue opened;
  std::size_t placed = 0;  ///< by the last `receive`; its caller clears it
  ByteQueue output;
  PeerId peer{};
  bool established = false;
  bool closing = false;
  bool closed = false;
  TlsFault fault = TlsFault::none;
  std::string failure;
};

/// Makes them. Thread safety: none.
class ChannelEngines {
 public:
  virtual ~ChannelEngines() = default;
  /// `own`: whose end this is. The others as in SecureChannel.
  virtual std::unique_ptr<ChannelEngine> make(const PeerId& own, Side side,
                                              const std::optional<PeerId>& expected) const = 0;
};

}  // namespace collab::net
