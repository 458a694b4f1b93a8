#include "averaging/round.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::averaging {

Round::Round(const Shape& shape, const Rule& rule, Guard& guard, Setup setup, Contribution own)
    : shape_(shape),
      rule_(rule),
      setup_(std::move(setup)),
      own_(own),
      part_digests_(shape, guard),
      reducers_(shape.members.segments.size()),
      unsent_(shape.members.size) {}

void Round::enter(std::uint32_t view, std::vector<wire::Assignment> plan, std::vector<Rank> sources,
                  const wire::Manifest* accepted) {
  assert(!entered_ || view > view_);
  if (!std::exchange(entered_, true)) part_digests_.scatter(own_);
  part_digests_.restart();
  acting_ = true;
  view_ = view;
  plan_ = std::move(plan);
  for (auto& queue : unsent_) queue.clear();
  for (auto& reducer : reducers_) reducer.reset();
  wants_.clear();
  waiting_.clear();
  stand_ins_asked_.clear();
  forget(accepted);
  for (std::size_t index = 0; index < plan_.size(); ++index) {
    const auto& [owner, adopted] = plan_[index];
    if (adopted) {
      if (find(index, *adopted) != nullptr || (!receives() && owner != setup_.self)) continue;
      wants_[index] = {*adopted, bit(sources[index]) & ~bit(setup_.self), std::nullopt, std::nullopt, false};
      fetch(index);
    } else if (owner == setup_.self) {
      start_reducing(index);
    }
  }
  // chunks of the owners in turn, from our own rank on, so that not all senders start with the same owner
  const Ranks together = shape_.members.previous[setup_.self];
  if (!receives() || first(together) != setup_.self) return;
  for (std::size_t index = 0; index < plan_.size(); ++index)
    if (!plan_[index].adopted && plan_[index].owner != setup_.self) queue_parts(index, plan_[index].owner);
}

void Round::start_reducing(std::size_t index) {
  SegmentReducer::Plan plan;
  plan.self = setup_.self;
  plan.segment = shape_.members.segments[index];
  plan.view = view_;
  plan.result = setup_.result;
  plan.weight_max = setup_.weight_max;
  plan.done = setup_.done;
  reducers_[index] = std::make_unique<SegmentReducer>(shape_, rule_, std::move(plan), own_);
  reduce(index);
  ask_stand_ins(index);
}

void Round::queue_parts(std::size_t index, Rank owner) {
  const std::size_t chunks = own_.weights.none() ? 1 : shape_.partition.chunks(shape_.members.segments[index]);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) unsent_[owner].push_back({index, chunk});
}

Frame Round::next_part(Rank to) {
  auto& queue = unsent_.at(to);
  if (queue.empty()) return nullptr;
  const auto [index, chunk] = queue.front();
  queue.pop_front();
  wire::Part part;
  part.group = shape_.group.id;
  part.view = view_;
  part.segment = shape_.members.segments[index];
  part.chunk = chunk;
  if (own_.weights.none()) return frame::encode(wire::Header(part));
  if (chunk == 0) part.work = to_wire(own_.work);
  const Range range = shape_.partition.chunk(part.segment, chunk);
  part.weight = own_.weights.at(range.begin);
  part.weights = own_.weights.of_units(range);
  for (const wire::UnitWeight& run : part.weights) part.weight = std::min(part.weight, run.weight);
  const auto fill = [&](std::span<std::byte> payload) {
    const auto values = own_.values.subspan(range.begin, range.size);
    const auto encoded = shape_.part_codecs().encode(values, range.begin, own_.part, payload);
    assert(encoded);  // own values were finite
  };
  return frame::encode_with(wire::Header(part), shape_.part_codecs().encoded_bytes(range), fill);
}

/// Bounds the memory of many views: the newest whole results, and what was accepted.
void Round::forget(const wire::Manifest* accepted) {
  std::map<std::size_t, std::size_t> kept;
  for (auto at = results_.end(); at != results_.begin();) {
    --at;
    const std::size_t index = at->first.first;
    const Held& held = at->second;
    const bool promised = accepted != nullptr && held.result.complete() && (*accepted)[index] == held.digest;
    const bool adopted = held.result.complete() && plan_[index].adopted == held.digest;
    const bool is_new = held.result.complete() && ++kept[index] <= kResultsKept;
    if (!promised && !adopted && !is_new && at->first.second < view_) at = results_.erase(at);
  }
}

void Round::suspect(Ranks suspected) {
  if (suspected == suspected_) return;
  suspected_ = suspected;
  for (std::size_t index = 0; index < reducers_.size(); ++index) {
    reduce(index);
    ask_stand_ins(index);
  }
  for (auto& [index, want] : wants_) {
    if (want.server && !contains(suspected_, *want.server)) continue;
    if (committed_) want.candidates |= shape_.members.linked(setup_.self) & ~suspected_;
    want.server.reset();
    fetch(index);
  }
}

void Round::repeat(Rank to) {
  if (!acting_ || !contains(shape_.members.linked(setup_.self), to) || ++repeated_[to] > kServedMax) return;
  const bool speaks = receives() && first(shape_.members.previous[setup_.self]) == setup_.self;
  for (std::size_t index = 0; index < plan_.size(); ++index) {
    const auto at = results_.find({index, view_});
    const bool is_here = at != results_.end() && at->second.result.complete();
    if (speaks && !is_here && !plan_[index].adopted && plan_[index].owner == to) {
      std::erase_if(unsent_[to], [index](const Unsent& one) { return one.index == index; });
      queue_parts(index, to);
    }
    if (!reducers_[index] || at == results_.end() || !contains(shape_.members.voters, to)) continue;
    for (const SegmentResult::Chunk& chunk : at->second.result.chunks())
      if (chunk.frame) bulk_.push_back({bit(to), chunk.frame});
  }
}

void Round::want(const wire::Manifest& manifest, Ranks holders) {
  committed_ = true;
  acting_ = false;
  for (auto& queue : unsent_) queue.clear();
  wants_.clear();
  if (!receives()) return;
  for (std::size_t index = 0; index < manifest.size(); ++index) {
    if (find(index, manifest[index]) != nullptr) continue;
    wants_[index] = {manifest[index], (holders & shape_.members.linked(setup_.self)), std::nullopt, std::nullopt,
                     false};
    // an owner that still streams this very result needs no asking, but who knows: asking costs one segment at most
    fetch(index);
  }
}

void Round::release_values() {
  own_.values = {};
  own_.weights = 0;
  for (auto& queue : unsent_) queue.clear();
  for (auto& reducer : reducers_) reducer.reset();
}

Result<> Round::on(Rank from, const wire::Part& part, const Frame& frame, std::span<const std::byte> payload) {
  if (committed_ || !entered_ || part.view < view_) return Errc::stale;
  if (part.view > view_) return Errc::late;
  const std::size_t index = shape_.members.index_of(part.segment);
  if (index >= plan_.size() || !contains(shape_.members.voters, from)) return Errc::denied;
  if (!reducers_[index]) return Errc::denied;
  const Ranks silent = reducers_[index]->silent();
  const auto added = reducers_[index]->add(from, part, frame, payload);
  if (added) part_digests_.received(from, part, payload);
  reduce(index);  // also after a fault: without that sender the chunk may be ready
  if (reducers_[index]->silent() != silent) ask_stand_ins(index);
  return added;
}

Result<> Round::on(Rank from, const wire::Average& average, const Frame& frame, std::span<const std::byte> payload) {
  const std::size_t index = shape_.members.index_of(average.segment);
  if (index >= reducers_.size() || from == setup_.self) return Errc::denied;
  const auto want = wants_.find(index);
  const bool fetched = want != wants_.end() && want->second.server == from;
  if (!fetched) {
    if (!entered_ || (average.view > view_ && !committed_)) return Errc::late;
    if (average.view != view_) return Errc::stale;
    if (plan_[index].owner != from || plan_[index].adopted) return Errc::denied;
  } else if ((average.view > view_ && !committed_) || want->second.view.value_or(average.view) != average.view) {
    fetch_elsewhere(index);
    return Errc::bad_request;
  } else if (!want->second.view) {
    // what is here of that view is not what was asked for, or not whole: of two sources one may lie, and which is not
    // known before the end, so nothing of them is mixed
    const auto before = results_.find({index, average.view});
    want->second.two_faced = before != results_.end() && before->second.result.complete() && average.view == 0;
    if (before != results_.end()) results_.erase(before);
    want->second.view = average.view;
  }
  const auto stored = slot(index, average.view).add(average, frame, payload);
  if (stored) completed(index, average.view, from);
  if (stored || stored.error() != Errc::bad_request) return stored;
  liars_ |= bit(from);
  if (fetched) {
    (void)results_.erase({index, average.view});  // mixed from two sources, one of which lies: begin anew elsewhere
    fetch_elsewhere(index);
  }
  return stored;
}

SegmentResult& Round::slot(std::size_t index, std::uint32_t view) {
  const Key key{index, view};
  return results_.try_emplace(key, Held{SegmentResult(shape_, shape_.members.segments[index]), {}})
      .first->second.result;
}

/// The server of this result has it not, or lies.
void Round::fetch_elsewhere(std::size_t index) {
  Want& want = wants_.at(index);
  want.candidates &= ~bit(*want.server);
  if (want.candidates == 0 && !committed_) liars_ |= bit(*want.server);  // the plan named it, and nobody else
  want.server.reset();
  fetch(index);
}

void Round::completed(std::size_t index, std::uint32_t view, Rank from) {
  Held& held = results_.at({index, view});
  if (!held.result.complete()) return;
  held.digest = held.result.digest();
  complete_.push_back({index, view, held.digest, held.result.weight()});
  const auto want = wants_.find(index);
  if (want != wants_.end()) {
    if (want->second.digest == held.digest) {
      if (want->second.two_faced) liars_ |= bit(shape_.members.segments[index]);
      wants_.erase(want);
    } else if (want->second.server == from) {  // not what was asked for
      fetch_elsewhere(index);
    }
  }
  const auto served = [&](const auto& entry) {
    const auto& [asker, fetch] = entry;
    if (shape_.members.index_of(fetch.segment) != index || fetch.digest != held.digest) return false;
    serve(asker, index, held.result);
    return true;
  };
  std::erase_if(waiting_, served);
}

void Round::reduce(std::size_t index) {
  if (!acting_ || !reducers_[index] || reducers_[index]->closed()) return;
  for (Frame& frame : reducers_[index]->reduce_ready(suspected_)) {
    const auto message = frame::decode<wire::Header>(*frame);
    slot(index, view_).add_own(std::get<wire::Average>(message->header), frame, message->payload);
    bulk_.push_back({shape_.members.linked(setup_.self) & shape_.members.voters, std::move(frame)});
  }
  if (reducers_[index]->closed()) completed(index, view_, setup_.self);
}

/// One voice per previous group: when it is suspected or left out, the next member sends the same bytes.
void Round::ask_stand_ins(std::size_t index) {
  if (!acting_ || !reducers_[index] || reducers_[index]->closed()) return;
  Ranks& asked = stand_ins_asked_[index];
  for (Ranks rest = reducers_[index]->awaited(suspected_) & ~bit(setup_.self) & ~asked; rest != 0; rest &= rest - 1) {
    const Rank rank = first(rest);
    if (first(shape_.members.previous[rank]) == rank) continue;  // sends unasked
    asked |= bit(rank);
    wire::Fetch fetch;
    fetch.group = shape_.group.id;
    fetch.view = view_;
    fetch.segment = shape_.members.segments[index];
    send_control(bit(rank), fetch);
  }
}

void Round::fetch(std::size_t index) {
  Want& want = wants_.at(index);
  const Ranks able = want.candidates & ~suspected_;
  if (able == 0) return;
  // not everyone asks the same holder: the first at or after our own rank
  const Ranks after = able & ~(bit(setup_.self) - 1);
  want.server = first(after != 0 ? after : able);
  want.view.reset();
  wire::Fetch fetch;
  fetch.group = shape_.group.id;
  fetch.view = view_;
  fetch.segment = shape_.members.segments[index];
  fetch.digest = want.digest;
  send_control(bit(*want.server), fetch);
}

Result<> Round::on(Rank from, const wire::Fetch& fetch) {
  const std::size_t index = shape_.members.index_of(fetch.segment);
  if (index >= shape_.members.segments.size()) return Errc::bad_request;
  if (!fetch.digest) {
    if (!entered_ || (fetch.view > view_ && !committed_)) return Errc::late;
    if (!receives() || committed_ || fetch.view != view_) return Errc::stale;
    if (plan_[index].owner != from || plan_[index].adopted) return Errc::denied;
    if (++served_[{from, index}] > kServedMax) return Errc::busy;
    queue_parts(index, from);
    return {};
  }
  if (const SegmentResult* result = find(index, *fetch.digest)) {
    serve(from, index, *result);
    return {};
  }
  if (!entered_ || (fetch.view > view_ && !committed_)) return Errc::late;  // its plan may tell us to fetch it, too
  const auto want = wants_.find(index);
  if (want != wants_.end() && want->second.digest == *fetch.digest && plan_[index].owner == setup_.self) {
    const auto same = [&](const auto& entry) { return entry.first == from && entry.second.segment == fetch.segment; };
    if (std::none_of(waiting_.begin(), waiting_.end(), same)) waiting_.emplace_back(from, fetch);
    return {};
  }
  wire::NotHeld not_held;
  not_held.group = shape_.group.id;
  not_held.segment = fetch.segment;
  not_held.digest = *fetch.digest;
  send_control(bit(from), not_held);
  return {};
}

Result<> Round::on(Rank from, const wire::NotHeld& not_held) {
  const std::size_t index = shape_.members.index_of(not_held.segment);
  const auto want = wants_.find(index);
  if (want == wants_.end() || want->second.digest != not_held.digest || want->second.server != from) return Errc::stale;
  fetch_elsewhere(index);
  return {};
}

void Round::serve(Rank to, std::size_t index, const SegmentResult& result) {
  if (++served_[{to, index}] > kServedMax) return;
  for (const auto& chunk : result.chunks()) bulk_.push_back({bit(to), chunk.frame});
}

void Round::send_control(Ranks to, const wire::Header& header) {
  control_.push_back({to, frame::encode(header)});
}

const SegmentResult* Round::find(std::size_t index, const Digest& digest) const {
  for (auto at = results_.lower_bound({index, 0}); at != results_.end() && at->first.first == index; ++at)
    if (at->second.result.complete() && at->second.digest == digest) return &at->second.result;
  return nullptr;
}

bool Round::holds(const wire::Manifest& manifest) const {
  for (std::size_t index = 0; index < manifest.size(); ++index)
    if (find(index, manifest[index]) == nullptr) return false;
  return true;
}

Ranks Round::awaited_senders() const {
  if (!acting_) return 0;
  Ranks awaited = 0;
  for (const auto& reducer : reducers_)
    if (reducer && !reducer->closed()) awaited |= reducer->awaited(suspected_);
  return awaited & ~bit(setup_.self);
}

Ranks Round::awaited_owners() const {
  Ranks awaited = 0;
  for (const auto& [index, want] : wants_)
    if (want.server) awaited |= bit(*want.server);
  if (!acting_ || !receives()) return awaited;
  for (std::size_t index = 0; index < plan_.size(); ++index) {
    if (plan_[index].adopted || plan_[index].owner == setup_.self) continue;
    const auto at = results_.find({index, view_});
    if (at == results_.end() || !at->second.result.complete()) awaited |= bit(plan_[index].owner);
  }
  return awaited;
}

}  // namespace collab::averaging
