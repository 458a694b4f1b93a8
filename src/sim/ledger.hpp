#pragma once
// Which samples are in which epoch: none twice, none lost without a word.

#include "base/work.hpp"
#include "sim/violation.hpp"
#include "sim/witness.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace collab::sim {

/// Fed by the witness of a swarm. Thread safety: none.
class Ledger {
 public:
  Ledger(Clock& clock, Violations& violations) : clock_(clock), violations_(violations) {}

  /// `samples`, handed over by `peer`, are in the committed step of `epoch`.
  void committed(std::size_t peer, std::uint64_t epoch, std::span<const SampleRun> samples);
  /// The peer's trainer forgot samples; its member has to say so.
  void dropped(std::size_t peer, std::uint64_t samples) { books_[peer].dropped += samples; }
  void told_lost(std::size_t peer, std::uint64_t samples) { books_[peer].told += samples; }
  /// Its process is gone: what it was about to tell nobody waits for.
  void killed(std::size_t peer) { books_[peer] = {}; }
  /// At the end: what was forgotten was told.
  void close();

  std::uint64_t samples_committed() const noexcept { return committed_; }
  /// All that were.
  Work samples() const;

 private:
  struct Books {
    std::uint64_t dropped = 0;
    std::uint64_t told = 0;
  };
  struct Run {
    std::uint64_t end = 0;
    std::uint64_t epoch = 0;
  };

  Clock& clock_;
  Violations& violations_;
  std::map<std::size_t, Books> books_;
  std::map<std::uint64_t, Run> runs_;  // by first sample; no two overlap
  std::uint64_t committed_ = 0;
};

}  // namespace collab::sim
