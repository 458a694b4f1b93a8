#pragma once
// What all peers have declared under one key, as the directory shows it.

#include "directory/directory.hpp"
#include "matchmaking/candidates.hpp"
#include "matchmaking/declaration.hpp"
#include "matchmaking/terms.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace collab::matchmaking {

/// Kept up to date for as long as it lives. Of many declarations few have changed since the last look, so each is
/// decoded once. Thread safety: none; belongs to the node's loop.
class Declarations {
 public:
  /// `watch`: null for a search that looks for nobody.
  explicit Declarations(std::unique_ptr<directory::Watch> watch) : watch_(std::move(watch)) {}

  bool watches() const noexcept { return watch_ != nullptr; }

  /// In the eyes of this round; who is ahead of it has what it looks for behind it, and is none.
  std::vector<Candidate> candidates(const Wanted&);
  /// As `directory::Watch`, which there is.
  Task<bool> changed_until(TimePoint deadline) { return watch_->changed_until(deadline); }

 private:
  struct Known {
    Bytes written;
    std::optional<Declaration> declaration;  // none: whoever wrote that only hides itself
  };

  std::unique_ptr<directory::Watch> watch_;
  std::map<PeerId, Known> known_;
};

}  // namespace collab::matchmaking
