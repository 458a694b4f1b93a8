#pragma once
// What a peer of `collab-bench directory` does: it writes records and reads those of the others.

#include "directory/directory.hpp"

#include <map>
#include <memory>
#include <vector>

namespace collab::bench {

struct Posted {
  std::vector<double> stored_s;  ///< that each record took until more than half of all servers had it
  std::vector<double> found_s;   ///< that each reading of all records took
  std::size_t missing = 0;       ///< records that a reading should have found
};

/// Thread safety: none; belongs to the node's loop.
class Board {
 public:
  /// `directory` and `clock` outlive it. `self`: whose records it writes.
  Board(directory::Directory& directory, Clock& clock, PeerId self)
      : directory_(directory), clock_(clock), self_(self) {}

  /// Writes `records` versions of its record, one in `every`, and reads all records after each. Once. Errors: those of
  /// the directory.
  Task<Result<Posted>> post(std::size_t records, Duration every);
  /// Until cancelled: notes when which version of whose record is seen, by the steady clock.
  Task<> watch();

  using Versions = std::map<std::size_t, double>;  ///< seconds of the steady clock, by version
  /// When its own ones were written.
  const Versions& written() const noexcept { return written_; }
  /// When those of the others were seen.
  const std::map<PeerId, Versions>& seen() const noexcept { return seen_; }

 private:
  directory::Directory& directory_;
  Clock& clock_;
  PeerId self_;
  Versions written_;
  std::map<PeerId, Versions> seen_;
};

}  // namespace collab::bench
