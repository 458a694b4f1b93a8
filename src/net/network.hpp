#pragma once
// What an operating system offers: byte streams dialled and accepted. Real in tcp.*, simulated in sim/.

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/task.hpp"
#include "crypto/peer_id.hpp"
#include "net/address.hpp"
#include "net/throttle.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace collab::net {

class ChannelEngines;

/// A reliable, ordered stream of bytes to one other machine. One reader and one writer at a time.
/// Thread safety: none; belongs to the node's loop.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// At least one byte, at most `into.size()`; 0 when the other side ended in order. Errors: `gone`.
  virtual Task<Result<std::size_t>> read(std::span<std::byte> into) = 0;
  /// Returns when all of `bytes` were taken over. Waits while the other side does not read. Errors: `gone`.
  virtual Task<Result<>> write(std::span<const std::byte> bytes) = 0;
  /// At once, without waiting: pending and later calls end with `gone`.
  virtual void close() = 0;
  /// From now on about so many bytes that were taken over wait behind what is on its way: what is written later passes
  /// none of them. A wish.
  virtual void queue_at_most(std::size_t /*bytes*/) {}
  /// From now on what was taken over leaves no faster; infinite: as fast as can be. A wish.
  virtual void pace(double /*bytes_per_s*/) {}
  /// From now on about so many bytes may be on their way here or wait unread. A wish.
  virtual void receive_at_most(std::size_t /*bytes*/) {}
  /// More than this should not be written at once: what comes later, and is more urgent, would wait for it.
  virtual std::size_t write_at_most() const { return std::numeric_limits<std::size_t>::max(); }
  /// Bytes that the other side's system has confirmed, since the stream began, with what is around them on their way; 0
  /// where nobody knows. Goes up only.
  virtual std::uint64_t delivered() { return 0; }
  /// The other side's address as seen from here: for limits and logs, never for identity.
  virtual Address remote() const = 0;
  /// The own end's address as this machine has it; without a host: unknown.
  virtual Address local() const { return {}; }
  /// This machine has the address of the own end no longer, and would dial the other one from another: nothing comes
  /// here any more, and nobody says so. False where nobody knows.
  virtual bool is_stranded() { return false; }
  /// What its bytes travel in and through, for people: "tcp", "wss", "tcp through a proxy", "wss through a proxy". Of a
  /// text that lives as long as the program.
  virtual std::string_view path() const { return "tcp"; }
  /// It leads through another peer, which may end it any time: others than this node cannot dial there, `remote()` is
  /// no place, and its end says nothing about the other side.
  virtual bool is_circuit() const { return false; }
  /// Tensors and states may travel on it, not only words.
  virtual bool carries_tensors() const { return true; }
  /// It will end soon, in order: who still needs the other side then needs another stream.
  virtual bool ends_soon() const { return false; }
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// Errors: `gone` after close(). Trouble with one connection (too many files, reset) is waited out, not returned.
  virtual Task<Result<std::unique_ptr<ByteStream>>> accept() = 0;
  virtual Address local() const = 0;
  virtual void close() = 0;
};

/// At any address of IPv4: the system chooses by the way.
inline constexpr const char* kAnyV4 = "0.0.0.0";

/// A port of this machine from which several places are dialled. A translator of addresses on the way makes one outside
/// port of it, whoever is dialled, or shows that it does not. Held while this lives; nobody is accepted there.
class LocalPort {
 public:
  virtual ~LocalPort() = default;
  virtual std::uint16_t number() const = 0;
  /// By bare TCP, to a numeric address of the family of its own. When `to` dials this port at the same time the two
  /// become one connection, of which neither side is the one that accepted (RFC 9293 3.5, simultaneous open). Errors:
  /// `gone` (refused, unreachable, or connected there already), `late`, `bad_request` for another kind of address.
  virtual Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) = 0;
};

class Network {
 public:
  virtual ~Network() = default;
  /// Errors: `gone` (refused, unreachable, no such host), `late`; of a network behind a proxy also those of
  /// net/proxy.hpp.
  virtual Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) = 0;
  /// The same for who knows whom to expect there; a relay has to be told.
  virtual Task<Result<std::unique_ptr<ByteStream>>> dial_peer(Address to, std::optional<PeerId> /*expected*/,
                                                              TimePoint deadline) {
    return dial(std::move(to), deadline);
  }
  /// Errors: `busy` when the port is taken, `denied` when it is not allowed, `bad_request` for a foreign address.
  virtual Result<std::unique_ptr<Listener>> listen(const Address& at) = 0;
  /// A free port to dial from, at `host` of this machine. It may outlive no network. Errors: `denied` where all dials
  /// begin elsewhere, as behind a proxy; `busy` when no port is free; `bad_request` for a host that is not this
  /// machine's.
  virtual Result<std::unique_ptr<LocalPort>> local_port(const std::string& /*host*/) { return Errc::denied; }
  /// What this machine's owner allows of the line.
  virtual Caps caps() const { return {}; }
  /// What secures its streams in place of TLS: null, but for a simulated network, where nobody else listens.
  virtual const ChannelEngines* channel_engines() const noexcept { return nullptr; }
};

}  // namespace collab::net
