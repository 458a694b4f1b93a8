#pragma once
// What one that leaves has gathered goes to one that stays, so that its samples count all the same: both sides of it.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/work.hpp"
#include "data/leases.hpp"
#include "epoch/bridge.hpp"
#include "epoch/wire.hpp"
#include "matchmaking/seating.hpp"
#include "net/endpoint.hpp"
#include "progress/tracker.hpp"
#include "tensor/codec.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace collab::epoch {

/// Of `epoch.take_on`, which Endpoint::handle gives to Member::take_on; and of the conversation beside it, for
/// Endpoint::allow_conversation.
net::Method take_on_method();
net::Method legacy_protocol();

/// What a leaver has in hand: the mean gradient over `behind.samples` > 0 samples of `epoch`.
struct Estate {
  std::uint64_t epoch = 0;
  std::vector<float> values;
  Gathered behind;
};

struct LegacyOptions {
  std::uint64_t samples_max = 0;                          ///< that an heir has in hand, with what it takes on
  std::size_t ranges_max = 0;                             ///< of its units of work, so that a round can name them all
  Duration silence_max = std::chrono::seconds(3);         ///< of the leaver, between two pieces
  Duration answer_time = std::chrono::milliseconds(250);  ///< of the leaver's deadline, kept for the answer
};

/// An estate counts once or not at all. The heir adds it beside its own sum in one piece, if by then the epoch is still
/// its own and nothing of it is in a round; what is refused, or broke on its way, is lost. Nobody is believed more
/// samples than its records allowed it, nor twice in an epoch (progress/self_report.hpp has the others' side of that).
/// Memory: an heir takes on one estate at a time, a flat vector. Thread safety: none; belongs to the node's loop.
class Legacy {
 public:
  struct Needs {
    net::Endpoint& net;
    Clock& clock;
    Log& log;
    progress::Tracker& tracker;  ///< its own record names the present epoch and parameters
    Bridge& bridge;
    const CodecMap& codecs;
    data::Leases* leases = nullptr;
    std::function<bool()> takes_part;  ///< this peer: it stays, and its samples have a place in rounds
    Random random;
  };
  Legacy(Needs needs, LegacyOptions options) : needs_(std::move(needs)), options_(options) {}

  /// While one lives, what the trainer has gathered is in a round, or may belong to the epoch after it.
  class InRound {
   public:
    explicit InRound(Legacy& of) : legacy_(of) { ++legacy_.rounds_; }
    ~InRound() { --legacy_.rounds_; }
    InRound(const InRound&) = delete;
    InRound& operator=(const InRound&) = delete;

   private:
    Legacy& legacy_;
  };

  /// Who had best be given what is in hand: of those with the same parameters, a seat, and a connection to us, one of
  /// the last round's group before others, the nearest, the lowest id. Empty: nobody, or a round has it.
  std::optional<PeerId> heir(const matchmaking::Seating* grid) const;
  /// The leaver's side, once in a life. Returns when `heir` has answered; errors, with no telling whether it has taken
  /// it: `late`, `gone`; else those of the heir, which has not.
  Task<Result<>> hand_on(PeerId heir, std::shared_ptr<const Estate> estate, TimePoint deadline);
  /// The heir's side: answers `epoch.take_on`, see wire.hpp.
  Task<net::Answer> take_on(PeerId from, Frame request, TimePoint deadline);

 private:
  /// Why this peer will not take it on; empty: it will.
  std::optional<Refusal> refuses(const PeerId& from, const wire::Asked& asked) const;
  Task<Result<>> send_pieces(net::Conversation& talk, PeerId heir, std::shared_ptr<const Estate> estate,
                             TimePoint deadline) const;
  Task<> feed(net::Conversation& talk, PeerId heir, std::shared_ptr<const Estate> estate, TimePoint deadline) const;
  Task<Result<>> receive(const PeerId& from, const wire::TakeOn& ask, std::span<float> values,
                         TimePoint deadline) const;
  Task<Result<>> add(PeerId from, std::uint64_t epoch, std::shared_ptr<const Estate> estate) const;

  Needs needs_;
  LegacyOptions options_;
  unsigned rounds_ = 0;
  bool taking_ = false;
  std::map<PeerId, std::uint64_t> taken_from_;  // and in which epoch, of the present one and some before
};

}  // namespace collab::epoch
