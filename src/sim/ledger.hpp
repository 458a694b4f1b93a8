#pragma once
// Which samples are in which epoch: none twice, none lost without a word.

#include "base/work.hpp"
#include "sim/violation.hpp"
#include "sim/witness.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace collab::sim {

/// Fed by the witness of a swarm. A swarm that falls in two has two histories: a sample may be in both, once in each.
/// Thread safety: none.
class Ledger {
 public:
  Ledger(Clock& clock, Violations& violations) : clock_(clock), violations_(violations) {}

  /// One more history, like this one until now.
  void fork(std::size_t history) { histories_.push_back(histories_.at(history)); }
  /// `peer` told first what the committed step of `epoch` is made of: of each segment, the samples of all its senders.
  /// Of two who have a sample, each may count in other segments: then every value has it once at most.
  void committed(std::size_t history, std::size_t peer, std::uint64_t epoch,
                 const std::vector<std::vector<SampleRun>>& segments);
  /// It was not committed after all: who held it is dead.
  void undo(std::size_t history, std::uint64_t epoch);
  /// The peer's trainer forgot samples; its member has to say so.
  void dropped(std::size_t peer, std::uint64_t samples) { books_[peer].dropped += samples; }
  void told_lost(std::size_t peer, std::uint64_t samples) { books_[peer].told += samples; }
  /// Its process is gone: what it was about to tell nobody waits for.
  void killed(std::size_t peer) { books_[peer] = {}; }
  /// A sample of an older epoch that counts twice is found still, but not where it counted first.
  void forget(std::uint64_t before_epoch);
  /// At the end: what was forgotten was told.
  void close();

  /// All that were committed.
  const Work& samples(std::size_t history) const { return histories_.at(history).samples; }

 private:
  struct Books {
    std::uint64_t dropped = 0;
    std::uint64_t told = 0;
  };
  struct History {
    Work samples;
    std::map<std::uint64_t, Work> epochs;
  };

  Clock& clock_;
  Violations& violations_;
  std::map<std::size_t, Books> books_;
  std::vector<History> histories_ = std::vector<History>(1);
};

}  // namespace collab::sim
