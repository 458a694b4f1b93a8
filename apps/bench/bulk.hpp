#pragma once
// What a peer of `collab-bench transport` does: tensors' traffic to another peer, and small questions beside it.

#include "base/clock.hpp"
#include "net/endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace collab::bench {

struct BulkOrder {
  std::uint64_t run = 0;  ///< both ends of one measurement have the same
  PeerId other;
  bool sends = false;
  bool receives = false;
  Duration length{};     ///< of sending
  Duration ask_every{};  ///< zero: asks nothing
  std::size_t frame_bytes = 0;
};

struct BulkFigures {
  std::uint64_t bytes = 0;      ///< received after the first second
  double seconds = 0;           ///< in which they came
  std::vector<double> answers;  ///< seconds that each question took
};

/// Thread safety: none; belongs to the node's loop.
class Bulk {
 public:
  /// Adds its rows to `net`.
  Bulk(net::Endpoint& net, Clock& clock);
  /// Errors: those of the network.
  Task<Result<BulkFigures>> run(BulkOrder order);

 private:
  Task<Result<>> send(net::Conversation& talk, const BulkOrder& order);
  Task<Result<>> receive(net::Conversation& talk, BulkFigures& figures, const BulkOrder& order);
  Task<Result<>> ask(const BulkOrder& order, BulkFigures& figures);

  net::Endpoint& net_;
  Clock& clock_;
};

}  // namespace collab::bench
