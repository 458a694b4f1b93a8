#pragma once
// One owner's arithmetic for one segment in one view: parts in, averages out.

#include "averaging/fault.hpp"
#include "averaging/round_work.hpp"
#include "averaging/rule.hpp"
#include "averaging/segment_result.hpp"
#include "averaging/weights.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace collab::averaging {

/// What this peer itself brings. `values`: the whole flat vector, finite, or empty without weight; outlives the round.
struct Contribution {
  std::span<const float> values;
  Weights weights;
  Work work;           ///< units of work behind the values
  EncodeOptions part;  ///< how its parts are encoded
};

class SegmentReducer {
 public:
  struct Plan {
    Rank self = 0;
    Rank segment = 0;
    std::uint32_t view = 0;
    EncodeOptions result;                   ///< how averages are encoded
    std::vector<std::uint64_t> weight_max;  ///< by rank
    std::shared_ptr<const Work> done;       ///< counted in earlier rounds, by the state of this epoch; null: unknown
  };

  /// `shape`, `rule` and what `own` refers to outlive it.
  SegmentReducer(const Shape& shape, const Rule& rule, Plan plan, Contribution own);

  /// Stores a part; its values are read when the chunk is reduced. Holds `frame`, in which `payload` lies, until then.
  /// Errors: `stale` for a part that is here already, or of a chunk that is reduced, or of a sender that is left out;
  /// `bad_request`, and the sender is left out of every chunk that is not reduced yet: a wrong chunk or size, other
  /// bytes for the same chunk, another weight or other work than before, a weight above what it can honestly have, or
  /// more work than that, or units of Plan::done. Nothing of a sender is reduced before its chunk 0 has said what its
  /// work is, and no unit twice: of two senders that have one, who is counted already goes first, then in round 1 the
  /// larger weight, then the reduction order; the other one is left out.
  Result<> add(Rank from, const wire::Part& part, const Frame& frame, std::span<const std::byte> payload);

  /// Averages of the chunks that are ready: of every previous group a part is here, or all its members are suspected,
  /// silent or left out; and somebody was heard.
  std::vector<Frame> reduce_ready(Ranks suspected);

  /// Of the previous groups without a part, the members that were to send and are not suspected.
  Ranks awaited(Ranks suspected) const;
  /// Who brings nothing, or is left out: of its previous group another one is awaited.
  Ranks silent() const noexcept { return silent_; }
  bool closed() const noexcept { return open_ == 0; }
  Fault fault(Rank from) const { return senders_.at(from).fault; }
  /// The largest that it told.
  std::uint64_t weight(Rank from) const { return senders_.at(from).weight; }
  /// Empty: it named none.
  const Work& work(Rank from) const { return senders_.at(from).work; }
  /// Bytes of parts that came from it.
  std::uint64_t received_bytes(Rank from) const { return senders_.at(from).bytes; }

 private:
  struct Part {
    Frame frame;
    std::span<const std::byte> payload;
    std::uint64_t weight = 0;
    std::vector<wire::UnitWeight> weights;
  };
  struct Chunk {
    std::vector<Part> parts;  // by rank; empty when closed
    Ranks here = 0;
    bool closed = false;
  };
  struct Sender {
    std::uint64_t weight = 0;
    std::uint64_t bytes = 0;
    Work work;
    bool heard = false;
    Fault fault = Fault::none;
  };

  Result<> leave_out(Rank from, Fault fault);
  Ranks here(const Chunk& chunk, Ranks suspected) const;
  bool ready(const Chunk& chunk, Ranks suspected) const;
  bool ready(Ranks here, Ranks suspected) const;
  std::vector<Rank> in_order(Ranks here) const;
  std::optional<Frame> close(std::size_t index, Ranks suspected);
  std::vector<Frame> close_whole(Ranks suspected);
  bool values_of(Rank rank, const Chunk& chunk, Range unit, std::size_t offset, std::span<float> out) const;
  bool decode_whole(const std::vector<Rank>& ranks, std::vector<std::vector<float>>& into);
  std::uint64_t weight_of(Rank rank, const Chunk& chunk, Range range, std::size_t unit) const;
  Result<> take_work(Rank from, const wire::Part& part);
  bool is_done(const Work& work) const;
  bool leave_out_overlapping(const std::vector<Rank>& ranks);
  wire::Average header(std::size_t index, const std::vector<Rank>& ranks) const;
  WorkOfSenders work_of(Ranks senders) const;

  const Shape& shape_;
  const Rule& rule_;
  Plan plan_;
  Contribution own_;
  std::vector<Sender> senders_;  // by rank
  Ranks silent_ = 0;             // weight 0, or left out
  Ranks named_ = 0;              // their chunk 0 has been here: what they computed is known
  Ranks counted_ = 0;            // in some chunk that is reduced
  std::vector<Chunk> chunks_;
  std::size_t open_ = 0;
};

}  // namespace collab::averaging
