#pragma once
// One end of a circuit: a byte stream over a conversation with a relay.

#include "base/task_group.hpp"
#include "nat/relay_wire.hpp"
#include "net/byte_queue.hpp"
#include "net/endpoint.hpp"
#include "net/network.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>

namespace collab::nat {

/// The row that guards a circuit's frames, at both ends and at the relay.
net::Method circuit_protocol();
/// What a circuit's frames travel as: signals beside other calls, bulk behind them.
net::TrafficClass traffic_of(wire::CircuitClass which) noexcept;

/// What both ends and the relay have open, so that no stranger's id opens a conversation twice. Outlives them.
using OpenTopics = std::set<Digest>;

/// A conversation about a circuit with one other peer. Closes when it is destroyed.
struct CircuitLine {
  CircuitLine(net::Endpoint& endpoint, OpenTopics& topics, const Digest& topic, const PeerId& with,
              wire::CircuitClass which);
  ~CircuitLine();
  CircuitLine(const CircuitLine&) = delete;
  CircuitLine& operator=(const CircuitLine&) = delete;

  /// The other peer is connected, and not over a circuit.
  bool stands() const;
  Task<Result<>> send(Frame frame, TimePoint deadline);
  /// Of the other peer; others' are dropped. Errors: `late`; `bad_request` for what is no frame of a circuit.
  Task<Result<Frame>> receive(TimePoint deadline);

  net::Endpoint& endpoint;
  OpenTopics& topics;
  Digest topic;
  PeerId with;
  net::TrafficClass traffic;
  std::unique_ptr<net::Conversation> talk;
};

/// Whether somebody's `link` leads to him without a relay.
bool is_direct(const net::LinkState& link);

/// The end at a peer. `remote()` has the relay's id for a host, which no rule about addresses takes for one.
class CircuitStream final : public net::ByteStream {
 public:
  /// `tasks`: null once nothing may be started any more; it outlives the stream.
  CircuitStream(std::shared_ptr<CircuitLine> line, Clock& clock, TaskGroup* const& tasks, TimePoint ends_at);
  ~CircuitStream() override;

  Task<Result<std::size_t>> read(std::span<std::byte> into) override;
  Task<Result<>> write(std::span<const std::byte> bytes) override;
  void close() override;
  net::Address remote() const override;
  std::string_view path() const override { return "relay"; }
  bool is_circuit() const override { return true; }
  bool carries_tensors() const override { return tensors_; }
  bool ends_soon() const override;

 private:
  Result<> take(const Frame& frame);
  void resize_pieces(std::size_t bytes, Duration taken);

  std::shared_ptr<CircuitLine> line_;  ///< null: closed
  Clock& clock_;
  TaskGroup* const& tasks_;
  PeerId relay_;
  bool tensors_;
  TimePoint ends_at_;
  std::size_t piece_bytes_ = wire::kCarryBytesMin;  ///< of what is written, in one message
  std::size_t gone_soon_ = 0;                       ///< bytes, since a piece took long
  net::ByteQueue unread_;
  bool ended_ = false;  ///< by the other side
};

}  // namespace collab::nat
