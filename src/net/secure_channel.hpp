#pragma once
// TLS 1.3 (RFC 8446) between two peers, then records of our own with its keys; without I/O: bytes in, bytes out. No
// socket, no clock, no thread.

#include "base/error.hpp"
#include "crypto/peer_id.hpp"
#include "net/byte_queue.hpp"
#include "net/channel_engine.hpp"
#include "net/tls_context.hpp"
#include "net/tls_fault.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace collab::net {

/// One end of a channel. The owner moves `output()` to the transport, gives what the transport brings to `receive`, and
/// takes plaintext from `opened()`. One thread at a time, any thread.
///
/// Buffers: `opened()` never holds more than was received and not consumed, `output()` never more than was sealed and
/// not sent, plus the handshake (< 8 kB). The owner bounds both by waiting. They keep their capacity, so a busy channel
/// allocates nothing; `trim()` gives it back.
///
/// A failure is final: every later call returns the same error. What is then in `output()` (an alert) is worth sending.
class SecureChannel {
 public:
  /// `expected`: the id that was dialled; anybody else is refused. Without it, any peer but ourselves is accepted.
  /// A dialling channel has its first bytes in `output()` at once.
  SecureChannel(const TlsContext& context, Side side, std::optional<PeerId> expected = std::nullopt);
  SecureChannel(SecureChannel&&) noexcept;
  SecureChannel& operator=(SecureChannel&&) noexcept;
  ~SecureChannel();

  /// Takes all of `ciphertext`, in pieces of any size; plaintext is added to `opened()`, answers to `output()`.
  /// Plaintext that came before the failing record stays in `opened()`.
  /// Errors: `bad_request` (not our TLS, damaged), `denied` (certificate, wrong peer, own key), `gone` (refused by an
  /// alert). Bytes after the other side's `close` are ignored.
  Result<> receive(std::span<const std::byte> ciphertext);

  struct Taken {
    std::size_t ciphertext = 0;  ///< bytes of it; the rest is for the next call
    std::size_t placed = 0;      ///< bytes of plaintext in `room`, proved, instead of in `opened()`
  };
  /// The same up to the end of a record. A record that fits into `room` is opened there, if nothing waits in
  /// `opened()`; what else of `room` is written says nothing.
  Result<Taken> receive_record(std::span<const std::byte> ciphertext, std::span<std::byte> room);

  /// Plaintext in order, not yet consumed. Invalidated by `receive`, `receive_record`, `consume` and `trim`.
  std::span<const std::byte> opened() const noexcept;
  /// `bytes` <= opened().size().
  void consume(std::size_t bytes) noexcept;

  /// Encrypts `head`, then `body`, into `output()` in records of 64 kB: give large pieces, each call ends a record. A
  /// long body has records of its own, so that its reader can have it where it wants it.
  /// Only when `established()` and before `close()`. Errors: that of the failure.
  Result<> seal(std::span<const std::byte> head, std::span<const std::byte> body = {});

  /// Ciphertext for the transport. Invalidated by every call that is not const.
  std::span<const std::byte> output() const noexcept;
  /// `bytes` <= output().size().
  void sent(std::size_t bytes) noexcept;
  /// Moves all output into `into`, which is empty, without copying: it stays valid while the channel goes on.
  void take_output(ByteQueue& into) noexcept;

  /// Whether the other side has proved who it is. A dialler is established before the accepting side has judged it: a
  /// refusal then arrives as `gone`.
  bool established() const noexcept;
  /// The other side. Only when `established()`.
  const PeerId& peer() const noexcept;

  TlsFault fault() const noexcept;
  /// Why the channel failed, for a person; empty while it has not.
  const std::string& failure() const noexcept;

  /// Says that no more will be sent. Receiving goes on until `closed()`. Before
  /// `established()` there is nobody to say it to. Errors: that of the failure.
  Result<> close();
  /// Whether the other side said so. A transport that ends without it was cut.
  bool closed() const noexcept;

  /// 32 bytes that both ends of this channel, and nobody else, can compute (RFC 5705). Only when `established()`.
  std::array<std::byte, 32> exporter(std::string_view label) const;

  /// Gives unused buffer memory back; for a channel that fell silent.
  void trim();
  /// Gives back the queues that are empty: cheap, so between any two messages.
  void rest();

 private:
  std::unique_ptr<ChannelEngine> engine_;
};

/// Label of the channel binding: signing this value ties a statement to one connection.
inline constexpr std::string_view kChannelBinding = "EXPORTER-collab-channel-v1";
/// Of the name under which a connection moves from one stream to another.
inline constexpr std::string_view kMovedConnection = "EXPORTER-collab-move-v1";

}  // namespace collab::net
