#pragma once
// Writes down what a swarm does while it does it, and shows it to the invariants.

#include "sim/invariants.hpp"
#include "sim/peer.hpp"
#include "sim/report.hpp"
#include "sim/witness.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace collab::sim {

struct TraceLine;

class Recorder final : public Witness {
 public:
  Recorder(Clock& clock, Invariants& invariants) : clock_(clock), invariants_(invariants) {}

  void on_phase(std::function<void(std::size_t, Phase)> see) { see_phase_ = std::move(see); }
  void trace(std::function<void(const TraceLine&)> see) { see_line_ = std::move(see); }
  void trace_coordinator(std::function<void(const TraceLine&)> see) { see_coordinator_ = std::move(see); }

  /// Whose events come; outlives the recorder's use.
  void watch(const std::vector<std::unique_ptr<Peer>>& peers) { peers_ = &peers; }
  /// What was of an epoch is forgotten when the next one is over: a run of days gathers nothing.
  void forget_epochs() { forgets_ = true; }
  /// Now and then: closes minutes.
  void look(std::uint64_t bytes);
  void end_minute(std::uint64_t bytes);
  /// What is known of the peer at the end of the run.
  void note(const Peer& peer);
  Duration since_commit() const { return clock_.now() - committed_at_; }
  /// Of the last epoch.
  Duration epoch_length() const { return epoch_length_; }
  /// Starts `since_commit` anew.
  void touch() { committed_at_ = clock_.now(); }
  /// Rounds of the peer that failed.
  std::uint64_t failed(std::size_t peer) const;
  const std::vector<std::map<std::size_t, Sent>>& samples() const noexcept { return samples_; }
  Outcome take() { return std::move(outcome_); }

  void logged(std::size_t peer, LogLevel level, std::string_view event, Log::Fields fields) override;
  void coordinator_logged(std::string_view event, Log::Fields fields) override;
  void reached(std::size_t peer, Phase phase) override;
  void happened(std::size_t peer, const epoch::MemberEvent& event) override;
  void handed_over(const HandOver& mine) override { invariants_.handed_over(mine); }
  void sends(std::size_t peer, std::span<const float> values, std::uint64_t weight) override {
    invariants_.sends(peer, values, weight);
  }
  void gave_back(std::size_t peer, std::span<const float> values, std::uint64_t weight,
                 const Digest& parameters) override {
    invariants_.gave_back(peer, values, weight, parameters);
  }
  void handed_on(const HandOver& mine) override { invariants_.handed_on(mine); }
  std::vector<SampleRun> taken_on(std::size_t peer, const PeerId& from, std::uint64_t samples,
                                  std::span<const float> values) override {
    return invariants_.taken_on(peer, from, samples, values);
  }
  void dropped(std::size_t peer, std::span<const SampleRun> samples) override { invariants_.dropped(peer, samples); }
  void stepped(const StepTaken& step) override { invariants_.stepped(step); }
  void broke(std::size_t peer, std::string_view task, const std::string& what) override;
  void restored(std::size_t peer, std::uint64_t epoch, const Digest& parameters) override {
    invariants_.restored(peer, epoch, parameters);
  }
  void has_ledger(std::size_t peer, std::uint64_t epoch, const data::Ledger& ledger) override {
    invariants_.has_ledger(peer, epoch, ledger);
  }

 private:
  struct Event {
    Duration at{};
    std::size_t peer = 0;
    std::string text;
  };
  void committed(std::size_t peer, const epoch::MemberEvent& event);
  void keep_last_events();

  Clock& clock_;
  Invariants& invariants_;
  std::function<void(std::size_t, Phase)> see_phase_;
  std::function<void(const TraceLine&)> see_line_;
  std::function<void(const TraceLine&)> see_coordinator_;
  std::map<std::size_t, std::deque<Event>> last_;
  std::map<std::size_t, std::uint64_t> failed_;
  std::map<std::uint64_t, Duration> begun_;  // by epoch
  std::vector<std::map<std::size_t, Sent>> samples_;
  const std::vector<std::unique_ptr<Peer>>* peers_ = nullptr;
  TimePoint committed_at_{};
  Duration epoch_length_{};
  std::uint64_t samples_committed_ = 0;
  bool forgets_ = false;
  Minute minute_;
  Duration minute_began_{};
  std::uint64_t bytes_before_ = 0;
  Outcome outcome_;
};

}  // namespace collab::sim
