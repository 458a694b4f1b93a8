#pragma once
// collab-bench overhead: what training together costs, against the same training without collab.

#include "report.hpp"

#include <cstdint>
#include <string>

namespace collab::bench {

struct OverheadOrder {
  std::string preset = "demo";
  std::string data;                  ///< folder of text; empty: what tools/setup unpacked
  std::size_t peers = 2;             ///< that train together, against as many bare loops
  std::uint64_t target_batch = 512;  ///< samples of a step
  std::uint64_t steps = 8;           ///< in a slice
  std::uint64_t casts = 5;           ///< times that everything is done, each with new processes
  std::uint64_t slices = 1;          ///< of one peer and cast that count, after one to warm up; of several thrice
  unsigned threads = 1;              ///< that compute, of each process
  Output output;
};

/// Prints the figures; progress goes to stderr. Both sides alternate, so that a machine with other work slows down
/// both; what counts are ratios of neighbouring slices. Two twin processes differ by some percent all their life, so
/// the slices are spread over several casts of processes. Two measurements:
///   bare against wrapped: one process with the loop of a user without collab (the job's gradients added up, their mean
///     clipped, LAMB's step after each target batch) and one with the same loop around collab::optim::Optimizer, as the
///     only peer of a run, so that nothing is averaged. Both compute the same samples, `steps` target batches a slice,
///     and take turns after each of them.
///   bare loops against peers: `peers` such bare loops side by side, each with target batches of its own, and as many
///     peers of one run that average over TLS. A slice of the peers is `steps` whole steps of the run; one of a bare
///     loop its share of the samples that this takes, half of them before the peers' slice and half after it.
/// Of the JSON line:
///   bare_, wrapped_, bare_loops_, peers_samples_per_s: medians over slices. Bare loops: samples computed in a second
///   of
///     the process's own time, of several the sum. Peers: samples committed by the run in a second, one in its own
///     time, several in ours, from "go" to the last "done": samples that are lost, and waiting, count against them
///   wrapped_ratio_, peers_ratio_min, _median, _max: over pairs of neighbours
///   wrapped_cpu_ratio_, peers_cpu_ratio_median: the same of samples computed in a second of processor time, which
///     other work on the machine disturbs less; waiting does not show in it
///   steps: that the peers took together; samples: that the run committed in them
///   steps_expected: whole target batches in what each step committed: the same number unless a step came so late that
///     another one was due
///   handing_over_, averaging_, stepping_s: means over steps of the peers: waiting for the microbatch in hand, the
///   round,
///     the optimizer with the hash of the parameters. All that time the trainer stands still, or finishes its
///     microbatch
///   load_before, load_after: of the machine, over a minute
///
/// Returns the exit code: not 0 when `steps` and `steps_expected` differ. Throws `Failure`; `interrupted` after Ctrl+C.
int measure_overhead(const OverheadOrder& order);

}  // namespace collab::bench
