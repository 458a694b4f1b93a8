#include "sim/ledger.hpp"

#include <fmt/format.h>

#include <iterator>

namespace collab::sim {

void Ledger::committed(std::size_t history, std::size_t peer, std::uint64_t epoch, std::span<const SampleRun> samples) {
  const auto violated = [&](std::string text) {
    violations_.add({"ledger", clock_.now().time_since_epoch(), {peer}, std::move(text)});
  };
  auto& [runs, sum] = histories_.at(history);
  for (const SampleRun& run : samples) {
    if (run.epoch != epoch) {
      violated(fmt::format("{} samples computed on the parameters of epoch {} count in epoch {}", run.count, run.epoch,
                           epoch));
    }
    const auto after = runs.lower_bound(run.first);
    const auto before = after == runs.begin() ? runs.end() : std::prev(after);
    const bool overlaps_after = after != runs.end() && after->first < run.first + run.count;
    const bool overlaps_before = before != runs.end() && before->second.end > run.first;
    if (overlaps_after || overlaps_before) {
      const Run& other = overlaps_after ? after->second : before->second;
      violated(fmt::format("samples {} to {} count in epoch {} and in epoch {}", run.first, run.first + run.count - 1,
                           other.epoch, epoch));
      continue;
    }
    runs.emplace(run.first, Run{run.first + run.count, epoch});
    sum += run.count;
  }
}

Work Ledger::samples(std::size_t history) const {
  Work samples;
  for (const auto& [first, run] : histories_.at(history).runs) samples.add({first, run.end - first});
  return samples;
}

void Ledger::close() {
  for (const auto& [peer, books] : books_) {
    if (books.dropped == books.told) continue;
    violations_.add({"ledger",
                     clock_.now().time_since_epoch(),
                     {peer},
                     fmt::format("{} samples were dropped, {} were told as lost", books.dropped, books.told)});
  }
}

}  // namespace collab::sim
