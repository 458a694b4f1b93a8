#include "averaging/segment_reducer.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace collab::averaging {

SegmentReducer::SegmentReducer(const Shape& shape, const Rule& rule, Plan plan, Contribution own)
    : shape_(shape),
      rule_(rule),
      plan_(std::move(plan)),
      own_(own),
      senders_(shape.members.size),
      chunks_(shape.partition.chunks(plan_.segment)),
      open_(chunks_.size()) {
  for (Chunk& chunk : chunks_) chunk.parts.resize(shape_.members.size);
  if (!contains(shape_.members.voters, plan_.self)) return;
  senders_[plan_.self].heard = true;
  senders_[plan_.self].weight = own_.weights.largest();
  senders_[plan_.self].work = own_.work;
  named_ |= bit(plan_.self);
  if (own_.weights.none()) silent_ |= bit(plan_.self);
  if (is_done(own_.work)) (void)leave_out(plan_.self, Fault::overlap);
}

bool SegmentReducer::is_done(const Work& work) const {
  return shape_.group.round == 1 && plan_.done != nullptr && plan_.done->overlaps(work);
}

Result<> SegmentReducer::leave_out(Rank from, Fault fault) {
  senders_[from].fault = fault;
  silent_ |= bit(from);
  for (Chunk& chunk : chunks_)
    if (!chunk.closed) chunk.parts[from] = {};
  return Errc::bad_request;
}

Result<> SegmentReducer::take_work(Rank from, const wire::Part& part) {
  if (part.chunk > 0) return part.work.empty() ? Result<>() : leave_out(from, Fault::malformed);
  auto work = from_wire(part.work, work_ranges_max(shape_.members));
  if (!work) return leave_out(from, Fault::malformed);
  if (part.weight == 0 && !work->empty()) return leave_out(from, Fault::malformed);
  // later a voice tells what its previous group has proven
  if (shape_.group.round == 1 && !believable(*work, plan_.weight_max[from])) return leave_out(from, Fault::malformed);
  if (contains(named_, from) && *work != senders_[from].work) return leave_out(from, Fault::conflict);
  senders_[from].work = std::move(*work);
  named_ |= bit(from);
  return is_done(senders_[from].work) ? leave_out(from, Fault::overlap) : Result<>();
}

/// True when somebody was left out: who counts has to be found anew. All owners who hear the same senders decide alike.
bool SegmentReducer::leave_out_overlapping(const std::vector<Rank>& ranks) {
  std::vector<Rank> fresh;
  for (const Rank rank : ranks)
    if (!contains(counted_, rank)) fresh.push_back(rank);
  const auto heavier = [this](Rank a, Rank b) { return senders_[a].weight > senders_[b].weight; };
  // later weights differ from chunk to chunk, and all groups of a grid must decide alike
  if (shape_.group.round == 1) std::stable_sort(fresh.begin(), fresh.end(), heavier);
  Ranks accepted = counted_;
  bool any = false;
  for (const Rank rank : fresh) {
    bool overlaps = false;
    for (Ranks rest = accepted & ~shape_.members.previous[rank]; rest != 0 && !overlaps; rest &= rest - 1)
      overlaps = senders_[first(rest)].work.overlaps(senders_[rank].work);
    if (!overlaps) accepted |= bit(rank);
    // who could stand in for it names the same
    for (Ranks rest = overlaps ? shape_.members.previous[rank] : 0; rest != 0; rest &= rest - 1)
      (void)leave_out(first(rest), Fault::overlap);
    any |= overlaps;
  }
  return any;
}

Result<> SegmentReducer::add(Rank from, const wire::Part& part, const Frame& frame,
                             std::span<const std::byte> payload) {
  assert(part.segment == plan_.segment && part.view == plan_.view && from != plan_.self);
  Sender& sender = senders_[from];
  if (sender.fault != Fault::none) return Errc::stale;
  if (part.chunk >= chunks_.size()) return leave_out(from, Fault::malformed);
  const Range range = shape_.partition.chunk(plan_.segment, part.chunk);
  const bool first_round = shape_.group.round == 1;
  if (!fit(part.weight, part.weights, units_in(range))) return leave_out(from, Fault::malformed);
  if (first_round && !part.weights.empty()) return leave_out(from, Fault::malformed);
  std::uint64_t largest = part.weight;
  for (const wire::UnitWeight& run : part.weights) largest = std::max(largest, run.weight);
  if (largest > plan_.weight_max[from]) return leave_out(from, Fault::weight_refused);
  if (first_round && sender.heard && part.weight != sender.weight) return leave_out(from, Fault::conflict);
  sender.heard = true;
  sender.weight = std::max(sender.weight, largest);
  if (const auto taken = take_work(from, part); !taken) return taken;
  if (part.weight == 0) {
    silent_ |= bit(from);
    return payload.empty() && part.chunk == 0 ? Result<>() : leave_out(from, Fault::malformed);
  }
  if (payload.size() != shape_.part_codecs().encoded_bytes(range)) return leave_out(from, Fault::malformed);
  Chunk& chunk = chunks_[part.chunk];
  if (chunk.closed) return Errc::stale;
  Part& slot = chunk.parts[from];
  if (slot.frame) {
    if (std::memcmp(slot.payload.data(), payload.data(), payload.size()) == 0) return Errc::stale;
    return leave_out(from, Fault::conflict);
  }
  slot = {frame, payload, part.weight, part.weights};
  chunk.here |= bit(from);
  sender.bytes += payload.size();
  return {};
}

/// The ranks whose parts count, at most one of each previous group. Our own stands in for a groupmate only when those
/// before us cannot send theirs.
Ranks SegmentReducer::here(const Chunk& chunk, Ranks suspected) const {
  Ranks usable = chunk.here;
  const Ranks before_us = shape_.members.previous[plan_.self] & (bit(plan_.self) - 1);
  if (!own_.weights.none() && (before_us & ~suspected & ~silent_) == 0) usable |= bit(plan_.self);
  usable &= named_ & ~silent_;
  Ranks chosen = 0;
  while (usable != 0) {
    const Rank rank = first(usable);
    chosen |= bit(rank);
    usable &= ~shape_.members.previous[rank];
  }
  return chosen;
}

bool SegmentReducer::ready(Ranks here, Ranks suspected) const {
  for (Ranks rest = shape_.members.voters; rest != 0;) {
    const Ranks together = shape_.members.previous[first(rest)];
    rest &= ~together;
    if ((here & together) == 0 && (together & ~suspected & ~silent_) != 0) return false;
  }
  return here != 0 || (silent_ & ~suspected) != 0;
}

bool SegmentReducer::ready(const Chunk& chunk, Ranks suspected) const {
  return !chunk.closed && ready(here(chunk, suspected), suspected);
}

Ranks SegmentReducer::awaited(Ranks suspected) const {
  Ranks awaited = 0;
  for (const Chunk& chunk : chunks_) {
    if (chunk.closed) continue;
    const Ranks chosen = here(chunk, suspected);
    for (Ranks rest = shape_.members.voters; rest != 0;) {
      const Ranks together = shape_.members.previous[first(rest)];
      rest &= ~together;
      const Ranks able = together & ~suspected & ~silent_;
      if ((chosen & together) == 0 && able != 0) awaited |= bit(first(able));
    }
    break;  // parts of one sender come in order, so the first open chunk tells
  }
  return awaited;
}

std::vector<Frame> SegmentReducer::reduce_ready(Ranks suspected) {
  if (!rule_.streaming()) return close_whole(suspected);
  std::vector<Frame> averages;
  for (std::size_t index = 0; index < chunks_.size(); ++index)
    while (ready(chunks_[index], suspected))  // again when a part turns out to be bad
      if (auto frame = close(index, suspected)) averages.push_back(std::move(*frame));
  return averages;
}

std::vector<Rank> SegmentReducer::in_order(Ranks here) const {
  std::vector<Rank> ranks;
  for (const Rank rank : shape_.members.order)
    if (contains(here, rank)) ranks.push_back(rank);
  return ranks;
}

std::uint64_t SegmentReducer::weight_of(Rank rank, const Chunk& chunk, Range range, std::size_t unit) const {
  if (rank == plan_.self) return own_.weights.at(range.begin + unit * kUnitValues);
  const Part& part = chunk.parts[rank];
  return weight_of_unit(part.weight, part.weights, unit);
}

wire::Average SegmentReducer::header(std::size_t index, const std::vector<Rank>& ranks) const {
  wire::Average average;
  average.group = shape_.group.id;
  average.view = plan_.view;
  average.segment = plan_.segment;
  average.chunk = static_cast<std::uint32_t>(index);
  for (const Rank rank : ranks) average.senders |= bit(rank);
  const Range range = shape_.partition.chunk(plan_.segment, index);
  for (std::size_t unit = 0; unit < units_in(range) && !ranks.empty(); ++unit) {
    std::uint64_t weight = 0;
    for (const Rank rank : ranks) weight += weight_of(rank, chunks_[index], range, unit);
    average.weight = unit == 0 ? weight : std::min(average.weight, weight);
    append(average.weights, 1, weight);
  }
  if (average.weights.size() == 1) average.weights.clear();
  const bool last = open_ == 1;
  if (!last) return average;
  average.work = to_wire(work_of(counted_ | average.senders));
  for (std::size_t rank = 0; rank < senders_.size(); ++rank)
    if (senders_[rank].fault == Fault::overlap && !contains(counted_ | average.senders, rank))
      average.overlapping |= bit(rank);
  return average;
}

WorkOfSenders SegmentReducer::work_of(Ranks senders) const {
  WorkOfSenders work;  // one of each previous group: the others speak for the same
  for (Ranks rest = senders; rest != 0; rest &= ~shape_.members.previous[first(rest)])
    if (const Work& named = senders_[first(rest)].work; !named.empty()) work.emplace(first(rest), named);
  return work;
}

/// Own parts go through the codec too, so that nobody's values are more exact than they look.
bool SegmentReducer::values_of(Rank rank, const Chunk& chunk, Range unit, std::size_t offset,
                               std::span<float> out) const {
  const CodecMap& codecs = shape_.part_codecs();
  const std::size_t bytes = codecs.encoded_bytes(unit);
  if (rank != plan_.self)
    return codecs.decode(chunk.parts[rank].payload.subspan(offset, bytes), unit.begin, out).has_value();
  std::array<std::byte, kUnitValues * sizeof(float) * 2> encoded;
  const std::span into = std::span(encoded).first(bytes);
  const auto own = own_.values.subspan(unit.begin, unit.size);
  return codecs.encode(own, unit.begin, own_.part, into) && codecs.decode(into, unit.begin, out);
}

/// Nothing when a part turned out to be bad: its sender is left out, and the chunk is as it was without it.
std::optional<Frame> SegmentReducer::close(std::size_t index, Ranks suspected) {
  Chunk& chunk = chunks_[index];
  const Range range = shape_.partition.chunk(plan_.segment, index);
  const std::vector<Rank> ranks = in_order(here(chunk, suspected));
  if (leave_out_overlapping(ranks)) return std::nullopt;
  std::optional<Rank> bad;
  std::vector<float> values((ranks.size() + 1) * kUnitValues);
  const auto fill = [&](std::span<std::byte> payload) {
    if (ranks.empty()) return;  // nobody brought anything: an average of weight 0
    std::size_t offset = 0;     // in the parts
    for (std::size_t begin = range.begin; begin < range.end() && !bad; begin += kUnitValues) {
      const Range unit{begin, std::min(kUnitValues, range.end() - begin)};
      std::array<WeightedPart, matchmaking::kGroupSizeMax> parts;
      for (std::size_t i = 0; i < ranks.size() && !bad; ++i) {
        const auto into = std::span(values).subspan(i * kUnitValues, unit.size);
        if (!values_of(ranks[i], chunk, unit, offset, into)) bad = ranks[i];
        parts[i] = {weight_of(ranks[i], chunk, range, (begin - range.begin) / kUnitValues), into};
      }
      if (bad) return;
      const auto mean = std::span(values).subspan(ranks.size() * kUnitValues, unit.size);
      rule_.reduce(std::span(parts).first(ranks.size()), mean);
      const std::size_t bytes = shape_.codecs.encoded_bytes(unit);
      const auto encoded = shape_.codecs.encode(mean, begin, plan_.result, payload.first(bytes));
      if (!encoded) bad = ranks.front();  // the mean of finite values is finite: here nobody has a weight
      payload = payload.subspan(bytes);
      offset += shape_.part_codecs().encoded_bytes(unit);
    }
  };
  const std::size_t bytes = ranks.empty() ? 0 : shape_.codecs.encoded_bytes(range);
  Frame frame = frame::encode_with(wire::Header(header(index, ranks)), bytes, fill);
  if (bad) {
    (void)leave_out(*bad, Fault::not_finite);  // its own error says no more
    return std::nullopt;
  }
  for (const Rank rank : ranks) counted_ |= bit(rank);
  chunk.closed = true;
  chunk.parts = {};
  --open_;
  return frame;
}

bool SegmentReducer::decode_whole(const std::vector<Rank>& ranks, std::vector<std::vector<float>>& into) {
  const Range segment = shape_.partition.segment(plan_.segment);
  for (const Rank rank : ranks) {
    std::vector<float>& values = into.emplace_back(segment.size);
    for (std::size_t index = 0; index < chunks_.size(); ++index) {
      const Range range = shape_.partition.chunk(plan_.segment, index);
      std::size_t offset = 0;
      for (std::size_t begin = range.begin; begin < range.end(); begin += kUnitValues) {
        const Range unit{begin, std::min(kUnitValues, range.end() - begin)};
        const auto out = std::span(values).subspan(begin - segment.begin, unit.size);
        if (!values_of(rank, chunks_[index], unit, offset, out)) {
          (void)leave_out(rank, Fault::not_finite);
          return false;
        }
        offset += shape_.part_codecs().encoded_bytes(unit);
      }
    }
  }
  return true;
}

/// For rules that see whole segments: all chunks at once, from the senders whose every chunk is here.
std::vector<Frame> SegmentReducer::close_whole(Ranks suspected) {
  std::vector<Frame> averages;
  while (open_ > 0) {
    Ranks all_chunks = ~Ranks(0);
    for (const Chunk& chunk : chunks_) all_chunks &= here(chunk, suspected);
    if (!ready(all_chunks, suspected)) break;
    const std::vector<Rank> ranks = in_order(all_chunks);
    if (leave_out_overlapping(ranks)) continue;
    std::vector<std::vector<float>> values;
    if (!decode_whole(ranks, values)) continue;
    std::vector<WeightedPart> parts;
    for (std::size_t i = 0; i < ranks.size(); ++i) parts.push_back({senders_[ranks[i]].weight, values[i]});
    const Range segment = shape_.partition.segment(plan_.segment);
    std::vector<float> reduced(segment.size);
    if (!parts.empty()) rule_.reduce(parts, reduced);
    for (std::size_t index = 0; index < chunks_.size(); ++index) {
      const Range range = shape_.partition.chunk(plan_.segment, index);
      const auto fill = [&](std::span<std::byte> payload) {
        if (payload.empty()) return;
        const auto mean = std::span(std::as_const(reduced)).subspan(range.begin - segment.begin, range.size);
        const auto encoded = shape_.codecs.encode(mean, range.begin, plan_.result, payload);
        assert(encoded);  // a rule turns finite values into finite ones
      };
      const std::size_t bytes = ranks.empty() ? 0 : shape_.codecs.encoded_bytes(range);
      averages.push_back(frame::encode_with(wire::Header(header(index, ranks)), bytes, fill));
      for (const Rank rank : ranks) counted_ |= bit(rank);
      chunks_[index].closed = true;
      chunks_[index].parts = {};
      --open_;
    }
  }
  return averages;
}

}  // namespace collab::averaging
