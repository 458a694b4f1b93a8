#pragma once
// How calls and conversations get at connections.

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/task.hpp"
#include "crypto/peer_id.hpp"
#include "net/multiplexer.hpp"

#include <cstdint>

namespace collab::net {

using Reached = boost::system::result<Multiplexer*, Refusal>;

class Paths {
 public:
  virtual ~Paths() = default;
  /// The connection that new streams to `peer` use; dials when there is none. The pointer is good until the next
  /// suspension. Errors: `gone`, `late`, or why the peer refuses.
  virtual Task<Reached> reach(PeerId peer, TimePoint deadline) = 0;
  /// The same of methods and protocols whose row says bulk, all of what they say: a circuit that carries words only
  /// will not do.
  virtual Task<Reached> reach_for_tensors(PeerId peer, TimePoint deadline) { return reach(peer, deadline); }
  /// Null when that connection is over.
  virtual Multiplexer* find(std::uint64_t serial) = 0;
  /// The least that a word and its answer took on that connection; zero: not known.
  virtual Duration rtt_least(std::uint64_t) const { return Duration::zero(); }
  /// Somebody waits for `peer` (+1), or no longer (-1): its silence is noticed sooner.
  virtual void waits(const PeerId& peer, int change) = 0;
  /// The same for a conversation.
  virtual void converses(const PeerId& peer, int change) = 0;
  /// Something that was planned begins.
  virtual void share_line() {}
};

/// Counts as waiting while it lives.
class WaitsFor {
 public:
  WaitsFor(Paths& paths, const PeerId& peer) : paths_(paths), peer_(peer) { paths_.waits(peer_, 1); }
  ~WaitsFor() { paths_.waits(peer_, -1); }
  WaitsFor(const WaitsFor&) = delete;
  WaitsFor& operator=(const WaitsFor&) = delete;

 private:
  Paths& paths_;
  PeerId peer_;
};

/// A stream of one of this node's connections.
struct StreamKey {
  std::uint64_t connection = 0;
  StreamHandle stream = 0;
  auto operator<=>(const StreamKey&) const = default;
};

inline StreamKey key_of(const Multiplexer& streams, StreamHandle stream) {
  StreamKey key;
  key.connection = streams.serial();
  key.stream = stream;
  return key;
}

}  // namespace collab::net
