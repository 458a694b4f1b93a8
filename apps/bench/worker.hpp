#pragma once
// One peer of a measurement, in a process of its own: a loop, a TLS endpoint on TCP, and the vector it averages.

namespace collab::bench {

/// Serves the orders on standard input, one JSON object a line, each answered by one on standard output:
///   setup {index, peers, tensors, floats, codec, seed, log_level} -> {id, address}
///   meet {others: [{id, address}]}  -> {}           connections to all of them stand
///   round {round, begin}            -> {}           the inputs are made; `begin` is the hex of the leader's Begin
///   go                              -> {seconds, exchange_s, commit_s, apply_s, counted, views} or {failed}
///   settle                          -> {cpu_s, bytes_sent}   groupmates are served; both since `go`
///   result                          -> {digest, peak_memory_bytes, descriptors}
///   unchanged                       -> {unchanged}           whether the values are still the inputs
///   watch                           -> {}                    from now on it notes when connections end
///   lost {peer}                     -> {lost_at}             when that one ended, in seconds of the steady clock
///   seek {round, after}             -> {declared_at, begun_at, group, members} or {failed}   looks for a group of all
///   inputs {round}                  -> {}                    the inputs are made
///   pass {radices}                  -> {rounds, rounds_full} or {failed}   over a grid of all; then `settle`
///   ready {gives}                   -> {}                    from now on it answers joiners, with a state if it gives
///   fetch {donors}                  -> {bytes, seconds, donors, whole} or {failed}   from these indices
///   board                           -> {}                    from now on it sees what others write to the directory
///   write {records, every}          -> {stored_s, found_s, missing, written_at} or {failed}
///   seen                            -> {seen_at}             by index of who wrote it: [version, when] each
///   spent                           -> {seconds, cpu_s}      since `ready`, `board` or the last `spent`
///   error                           -> {max_relative_error}
/// Returns the exit code once standard input ends.
int run_worker();

}  // namespace collab::bench
