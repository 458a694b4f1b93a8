#pragma once
// Takes part in a run's averaging without computing: the user's side of epoch/auxiliary.hpp.

#include "optim/collaboration.hpp"
#include "tensor/schema.hpp"

#include <cstdint>
#include <memory>

namespace collab::optim {

/// From construction to destruction. Rounds are told as events: `round.committed`, `round.failed`.
class Auxiliary {
 public:
  /// `run` is started and outlives it; `schema`: of the tensors that the run trains. Throws `Failure(incompatible)`
  /// when the run trains others, `Failure(machine)` when nobody can dial this peer: then it could not own a segment.
  Auxiliary(Collaboration& run, const Schema& schema);
  ~Auxiliary();
  Auxiliary(const Auxiliary&) = delete;
  Auxiliary& operator=(const Auxiliary&) = delete;

  /// Committed ones that it was in. Any thread.
  std::uint64_t rounds() const;

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace collab::optim
