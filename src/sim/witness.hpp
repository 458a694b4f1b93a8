#pragma once
// Global knowledge: what every peer of a simulated swarm tells the simulator, and nobody else.

#include "base/log.hpp"
#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"
#include "epoch/member_event.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace collab::sim {

/// Samples first .. first + count - 1, computed on the parameters of `epoch`.
struct SampleRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t epoch = 0;
};

/// What one peer's part in a committed epoch stands for: the mean over `samples`, counted `weight` times.
struct Sent {
  std::uint64_t weight = 0;  ///< at most so many as the samples: the group bounds it
  std::vector<SampleRun> samples;
};

struct HandOver {
  std::size_t peer = 0;
  std::uint64_t epoch = 0;  ///< the trainer's own
  std::uint64_t weight = 0;
  std::span<const float> values;  ///< mean gradient per sample
  std::span<const SampleRun> samples;
  Digest parameters{};
};

struct StepTaken {
  std::size_t peer = 0;
  std::uint64_t epoch = 0;  ///< that ends with the step
  std::span<const float> averaged;
  Digest before{};  ///< hash of the parameters
  Digest after{};
};

/// Where in a round a peer is, as the production code shows it: its log and the slots of averaging::Guard.
enum class Phase : std::uint8_t {
  begin,    ///< the group stands
  scatter,  ///< the first part is about to leave
  reduce,   ///< an owner holds one sender's whole part
  gather,   ///< an owner has its average; the last chunk is about to leave
  hold,     ///< all averages are here, nothing is accepted yet
  view,     ///< a groupmate is suspected
  commit,   ///< the round is decided for this peer
  done,     ///< the step is taken
};

/// Called inside the peer's own code, so it only takes notes: whoever wants to act posts to the loop.
class Witness {
 public:
  virtual ~Witness() = default;
  virtual void logged(std::size_t peer, LogLevel level, std::string_view event, Log::Fields fields) = 0;
  virtual void coordinator_logged(std::string_view event, Log::Fields fields) = 0;
  virtual void reached(std::size_t peer, Phase phase) = 0;
  virtual void happened(std::size_t peer, const epoch::MemberEvent& event) = 0;
  virtual void handed_over(const HandOver& mine) = 0;
  /// Of what the peer handed over last, its parts are made of these values instead: what it owed is added.
  virtual void sends(std::size_t peer, std::span<const float> values, std::uint64_t weight) = 0;
  /// `parameters`: their hash at this moment; likewise below.
  virtual void gave_back(std::size_t peer, std::span<const float> values, std::uint64_t weight,
                         const Digest& parameters) = 0;
  /// It leaves, and tries to leave these samples to another.
  virtual void handed_on(const HandOver& mine) = 0;
  /// The peer has added to its own what `from` handed on, as it came: of which samples that is.
  virtual std::vector<SampleRun> taken_on(std::size_t peer, const PeerId& from, std::uint64_t samples,
                                          std::span<const float> values) = 0;
  virtual void dropped(std::size_t peer, std::span<const SampleRun> samples) = 0;
  virtual void stepped(const StepTaken& step) = 0;
  /// A task of the peer let an exception out: a bug, or a failure nobody handles.
  virtual void broke(std::size_t peer, std::string_view task, const std::string& what) = 0;
  virtual void restored(std::size_t peer, std::uint64_t epoch, const Digest& parameters) = 0;
  /// The peer's state is that of the begin of `epoch`, with this ledger.
  virtual void has_ledger(std::size_t peer, std::uint64_t epoch, const data::Ledger& ledger) = 0;
};

}  // namespace collab::sim
