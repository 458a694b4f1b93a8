#pragma once
// What happened in the swarm lately, for whoever follows it live.

#include "base/clock.hpp"
#include "base/signal.hpp"
#include "crypto/peer_id.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace collab::monitor {

inline constexpr std::size_t kEventsMax = 1000;
inline constexpr std::size_t kEventFieldsMax = 16;
inline constexpr std::size_t kEventTextBytesMax = 512;

enum class EventType : std::uint8_t {
  peer_joined,
  peer_left,
  peer_lost,
  peer_resynced,
  peer_refused,
  round_committed,
  round_failed,
  epoch_finished,
  checkpoint_saved,
  eval_done,
  alert,
};

/// "peer.joined", "round.committed", …: the words of the interface.
std::string_view name(EventType);

/// A fact of an event, in the words of the code with its unit in the name: {"duration_s", 1.5}.
using EventField = std::pair<std::string, std::variant<bool, std::int64_t, std::uint64_t, double, std::string>>;

struct NewEvent {
  EventType type = EventType::alert;
  std::optional<std::uint64_t> epoch;
  std::optional<PeerId> peer;
  std::vector<EventField> data;  ///< at most `kEventFieldsMax`; longer texts than `kEventTextBytesMax` are cut
};

/// The last `kEventsMax` events, encoded once for all who read them. Ids are consecutive from 1, so a reader who was
/// too slow sees the gap. Thread safety: none; belongs to the node's loop. Outlives its readers.
class Events {
 public:
  Events(asio::any_io_executor loop, Clock& clock) : clock_(clock), added_(std::move(loop)) {}

  /// Returns its id.
  std::uint64_t add(const NewEvent& event);

  /// Of the newest; 0: nothing has happened yet.
  std::uint64_t last_id() const noexcept { return last_id_; }
  struct Encoded {
    std::uint64_t id = 0;
    std::string json;  ///< {"id","time","type","epoch","peer","data"} on one line
  };
  /// The oldest event after `id` that is still here. An `id` of the future comes from before a restart of this node,
  /// and means: from the beginning. Valid until the next add().
  const Encoded* after(std::uint64_t id) const;
  /// Returns after the next add(). False: the task was cancelled, as of Signal::wait.
  Task<bool> changed() const { return added_.wait(); }

 private:
  Clock& clock_;
  std::deque<Encoded> kept_;
  std::uint64_t last_id_ = 0;
  mutable Signal added_;
};

}  // namespace collab::monitor
