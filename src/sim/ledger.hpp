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

/// Fed by the witness of a swarm. A swarm that falls in two has two histories: a sample may be in both, once in each.
/// Thread safety: none.
class Ledger {
 public:
  Ledger(Clock& clock, Violations& violations) : clock_(clock), violations_(violations) {}

  /// One more history, like this one until now.
  void fork(std::size_t history) { histories_.push_back(histories_.at(history)); }
  /// `samples`, handed over by `peer`, are in the committed step of `epoch`.
  void committed(std::size_t history, std::size_t peer, std::uint64_t epoch, std::span<const SampleRun> samples);
  /// The peer's trainer forgot samples; its member has to say so.
  void dropped(std::size_t peer, std::uint64_t samples) { books_[peer].dropped += samples; }
  void told_lost(std::size_t peer, std::uint64_t samples) { books_[peer].told += samples; }
  /// Its process is gone: what it was about to tell nobody waits for.
  void killed(std::size_t peer) { books_[peer] = {}; }
  /// At the end: what was forgotten was told.
  void close();

  std::uint64_t samples_committed(std::size_t history) const { return histories_.at(history).committed; }
  /// All that were.
  Work samples(std::size_t history) const;

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
  struct History {
    std::map<std::uint64_t, Run> runs;  // by first sample; no two overlap
    std::uint64_t committed = 0;
  };
  std::vector<History> histories_ = std::vector<History>(1);
};

}  // namespace collab::sim
