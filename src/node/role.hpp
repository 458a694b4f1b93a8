#pragma once
// What a node can be asked to do, as the node sees it: a thing that runs, gives its work away, and has a load.

#include "base/clock.hpp"
#include "base/task.hpp"

#include <string_view>

namespace collab::node {

/// Owned by whoever made it; outlives the node's `run()`. Belongs to the node's loop.
class Role {
 public:
  virtual ~Role() = default;
  /// Stable, for logs: "train", "serve.experts".
  virtual std::string_view name() const = 0;
  /// Until cancelled. What it throws ends the node.
  virtual Task<> run() = 0;
  /// Takes nothing new and finishes or hands over what it has; `run()` is cancelled afterwards, or at `deadline`.
  virtual Task<> drain(TimePoint deadline) = 0;
  /// 0: idle, 1: as much as it can; more: it falls behind.
  virtual double load() const = 0;
};

}  // namespace collab::node
