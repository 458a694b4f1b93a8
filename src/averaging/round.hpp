#pragma once
// One peer's half of the data exchange of one round: frames in, frames out. No clock, no network, no coroutine.
//
// A butterfly all-reduce (Moshpit SGD, arXiv 2103.03239, the all-reduce inside a group): everyone sends each owner its
// part of the owner's segment, the owner sends everyone the average. Which view and which plan count is for commit.hpp
// to say; a plan may also name a result that exists, and then it is fetched.

#include "averaging/part_digests.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace collab::averaging {

/// Complete results of one segment that a peer keeps: of the newest views, and what is accepted.
inline constexpr std::size_t kResultsKept = 3;
/// How often one peer may fetch one segment from us, and how often a broken line may cost us all that it had carried.
inline constexpr std::uint32_t kServedMax = 4;

class Round {
 public:
  struct Outgoing {
    Ranks to = 0;  ///< never this peer
    Frame frame;
  };
  struct Complete {
    std::size_t index = 0;  ///< of the segment in a manifest
    std::uint32_t view = 0;
    Digest digest{};
    std::uint64_t weight = 0;
  };
  struct Setup {
    Rank self = 0;
    EncodeOptions result;                   ///< how averages are encoded
    std::vector<std::uint64_t> weight_max;  ///< by rank
    std::shared_ptr<const Work> done;       ///< as SegmentReducer::Plan::done
  };

  /// `shape`, `rule` and `guard` outlive it; of `own` nothing is read after `release_values`.
  Round(const Shape& shape, const Rule& rule, Guard& guard, Setup setup, Contribution own);

  /// A plan, newer than the last. `sources[i]`: whom this peer fetches an adopted result from. `accepted`: what must
  /// stay here, because this peer has promised to hold it; may be null.
  void enter(std::uint32_t view, std::vector<wire::Assignment> plan, std::vector<Rank> sources,
             const wire::Manifest* accepted);
  /// A higher view was promised: reduces nothing until the next plan.
  void pause() { acting_ = false; }
  void suspect(Ranks suspected);
  /// The line to that peer broke: what it carried of this view may not have arrived, and is sent once more.
  void repeat(Rank to);
  /// Committed: fetches what is missing, from `holders` first; sends no parts any more.
  void want(const wire::Manifest& manifest, Ranks holders);
  void release_values();

  /// Errors, with nothing changed but what segment_reducer.hpp says: `stale`, `denied` (a segment that is not ours or
  /// not the sender's), `bad_request`. A part or average of a view above ours is `late`: come again after `enter`.
  Result<> on(Rank from, const wire::Part&, const Frame& frame, std::span<const std::byte> payload);
  Result<> on(Rank from, const wire::Average&, const Frame& frame, std::span<const std::byte> payload);
  Result<> on(Rank from, const wire::Fetch&);
  Result<> on(Rank from, const wire::NotHeld&);

  /// Our next part for that peer, encoded when it is asked for, so that one frame per peer is in memory at a time.
  /// Null: nothing more in this view.
  Frame next_part(Rank to);
  bool has_parts(Rank to) const { return !unsent_.at(to).empty(); }
  /// Averages and fetched chunks, in order.
  std::vector<Outgoing> take_bulk() { return std::exchange(bulk_, {}); }
  std::vector<Outgoing> take_control() { return std::exchange(control_, {}); }
  /// Results that became whole since the last call, our own included.
  std::vector<Complete> take_complete() { return std::exchange(complete_, {}); }
  /// Who sent an average that no owner sends, or has not what it said it had, since the last call.
  Ranks take_liars() { return std::exchange(liars_, 0); }

  /// Senders whose parts this peer waits for; owners and servers whose results it waits for.
  Ranks awaited_senders() const;
  Ranks awaited_owners() const;
  std::uint32_t view() const noexcept { return view_; }

  bool holds(const wire::Manifest& manifest) const;
  /// The result with that digest; null when it is not here.
  const SegmentResult* find(std::size_t index, const Digest& digest) const;
  /// Null while this peer does not reduce that segment.
  const SegmentReducer* reducer(std::size_t index) const { return reducers_.at(index).get(); }

 private:
  struct Held {
    SegmentResult result;
    Digest digest{};  ///< when complete
  };
  struct Want {
    Digest digest{};
    Ranks candidates = 0;
    std::optional<Rank> server;
    std::optional<std::uint32_t> view;  ///< of the frames that the server sends: one, not one for each lie
    bool two_faced = false;  ///< the segment's owner in view 0 has sent us another whole result than is wanted
  };
  struct Unsent {
    std::size_t index = 0;
    std::uint32_t chunk = 0;
  };
  using Key = std::pair<std::size_t, std::uint32_t>;  // index, view

  bool receives() const noexcept { return contains(shape_.members.voters, setup_.self); }
  void start_reducing(std::size_t index);
  void queue_parts(std::size_t index, Rank owner);
  void forget(const wire::Manifest* accepted);
  void reduce(std::size_t index);
  SegmentResult& slot(std::size_t index, std::uint32_t view);
  void completed(std::size_t index, std::uint32_t view, Rank from);
  void fetch(std::size_t index);
  void fetch_elsewhere(std::size_t index);
  void ask_stand_ins(std::size_t index);
  void serve(Rank to, std::size_t index, const SegmentResult& result);
  void send_control(Ranks to, const wire::Header& header);

  const Shape& shape_;
  const Rule& rule_;
  Setup setup_;
  Contribution own_;
  PartDigests part_digests_;
  std::uint32_t view_ = 0;
  bool entered_ = false;
  bool acting_ = false;
  bool committed_ = false;
  Ranks suspected_ = 0;
  std::vector<wire::Assignment> plan_;
  std::vector<std::unique_ptr<SegmentReducer>> reducers_;  // by index; of this view
  std::map<Key, Held> results_;
  std::map<std::size_t, Want> wants_;
  std::map<std::pair<Rank, std::size_t>, std::uint32_t> served_;
  std::vector<std::pair<Rank, wire::Fetch>> waiting_;  // fetches of what is on its way to us
  std::map<std::size_t, Ranks> stand_ins_asked_;
  std::map<Rank, std::uint32_t> repeated_;
  std::vector<std::deque<Unsent>> unsent_;  // by rank
  std::vector<Outgoing> bulk_;
  std::vector<Outgoing> control_;
  std::vector<Complete> complete_;
  Ranks liars_ = 0;
};

}  // namespace collab::averaging
