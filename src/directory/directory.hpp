#pragma once
// The swarm's notice board, as its readers and writers see it. Whoever holds one needs not know who serves it.

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/signal.hpp"
#include "base/task.hpp"
#include "directory/record.hpp"

#include <memory>
#include <string>
#include <vector>

namespace collab::directory {

/// The current records under one key, kept up to date for as long as it lives. Belongs to the node's loop.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Sorted by (owner, subkey); expired ones are gone. Until somebody looks at this key again, so not across a wait.
  virtual const std::vector<Record>& records() const = 0;
  /// True after the next change, false when `deadline` passed first.
  virtual Task<bool> changed_until(TimePoint deadline) = 0;
  /// From now on changes within `pace` may come together: a key that many write is a key that many read, and each
  /// reading costs both ends a call. At first every change is told at once.
  virtual void relax(Duration pace) = 0;
};

/// Thread safety: none; belongs to the node's loop.
class Directory {
 public:
  virtual ~Directory() = default;
  /// Signs and stores under (key, own id, subkey) at every server, at once and then every third of `ttl` until
  /// withdrawn or replaced by a newer value. Returns immediately; what fails is retried and logged.
  virtual void publish(std::string key, std::string subkey, Bytes value, Duration ttl) = 0;
  /// Stops renewing, and asks the servers to drop it now.
  virtual void withdraw(const std::string& key, const std::string& subkey) = 0;
  /// As `publish`, but waits until more than half of all servers have taken it. Else what was published there before is
  /// published again (nothing, if nothing was), and nobody need know. For a value that servers refuse when it collides
  /// with another owner's, so that of two who claim the same at most one succeeds (while their views of the servers
  /// differ by little: it takes a second more after a change). One at a time for each (key,
  /// subkey). Errors: `denied` somebody else has it; `late` too few servers have answered by `deadline`; `gone` none
  /// can be asked; `stale` something else was published there meanwhile; `busy` too much is published already.
  virtual Task<Result<>> claim(std::string key, std::string subkey, Bytes value, Duration ttl, TimePoint deadline) = 0;
  /// Asks two servers and merges. Errors: `gone` when no server answers, `late`.
  virtual Task<Result<std::vector<Record>>> get(std::string key, TimePoint deadline) = 0;
  virtual std::unique_ptr<Watch> watch(std::string key) = 0;
  /// Whether some server answered within the last 15 s: alone and cut off are different things.
  virtual bool connected() const = 0;
  /// Since when some server has been connected without a break: one that was lost, and is back, may have begun anew,
  /// and the others may not have met it yet. `max`: none is connected.
  virtual TimePoint steady_since() const = 0;
};

}  // namespace collab::directory
