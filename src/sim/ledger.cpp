#include "sim/ledger.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace collab::sim {
namespace {

std::string words(const Work& samples) {
  return fmt::format("{} samples from {} on", samples.count(), samples.ranges().front().first);
}

}  // namespace

void Ledger::committed(std::size_t history, std::size_t peer, std::uint64_t epoch,
                       const std::vector<std::vector<SampleRun>>& segments) {
  const auto violated = [&](std::string text) {
    violations_.add({"ledger", clock_.now().time_since_epoch(), {peer}, std::move(text)});
  };
  Work round;
  for (const std::vector<SampleRun>& segment : segments) {
    Work counted;
    for (const SampleRun& run : segment) {
      if (run.epoch != epoch) {
        violated(fmt::format("{} samples computed on the parameters of epoch {} count in epoch {}", run.count,
                             run.epoch, epoch));
      }
      const Work samples({run.first, run.count});
      if (const Work twice = counted.common(samples); !twice.empty())
        violated(fmt::format("{} count twice in epoch {}", words(twice), epoch));
      counted.add(samples);
    }
    round.add(counted);
  }
  auto& [all, epochs] = histories_.at(history);
  if (all.overlaps(round)) {
    Work unknown = all.common(round);
    for (const auto& [other, samples] : epochs) {
      const Work twice = samples.common(round);
      if (twice.empty()) continue;
      violated(fmt::format("{} count in epoch {} and in epoch {}", words(twice), other, epoch));
      unknown.subtract(twice);
    }
    if (!unknown.empty()) violated(fmt::format("{} count in an old epoch and in epoch {}", words(unknown), epoch));
  }
  all.add(round);
  epochs[epoch].add(round);
}

void Ledger::undo(std::size_t history, std::uint64_t epoch) {
  auto& [all, epochs] = histories_.at(history);
  const auto found = epochs.find(epoch);
  if (found == epochs.end()) return;
  all.subtract(found->second);
  epochs.erase(found);
}

void Ledger::forget(std::uint64_t before_epoch) {
  for (auto& [all, epochs] : histories_) epochs.erase(epochs.begin(), epochs.lower_bound(before_epoch));
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
