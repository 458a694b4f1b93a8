#include "epoch/feedback.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <utility>

namespace collab::epoch {
namespace {

constexpr float kFloat16Max = 65504;

}  // namespace

/// Calls visit(begin, end) for the pieces of `range` whose codec owes.
template <class Visit>
void Feedback::for_each_owing(Range range, Visit visit) const {
  std::size_t begin = 0;
  for (const CodecRun& run : codecs_.parts().runs()) {
    const std::size_t from = std::max(begin, range.begin);
    const std::size_t to = std::min<std::size_t>(run.end, range.end());
    if (owes(run.codec) && from < to) visit(from, to);
    begin = run.end;
  }
}

float Feedback::with_owed(std::size_t i) const {
  return std::clamp(sent_->mean[i], -kFloat16Max, kFloat16Max) + owed_[i] / static_cast<float>(sent_->weight);
}

void Feedback::add_to(std::span<float> mean, std::uint64_t weight, const matchmaking::Group& group,
                      EncodeOptions options) {
  assert(in_use() && weight > 0 && mean.size() == codecs_.length());
  owed_.resize(mean.size());
  sent_ = Sent{{mean.begin(), mean.end()}, weight, group.epoch, group.id, options};
  for_each_owing({0, mean.size()}, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) mean[i] = with_owed(i);
  });
}

void Feedback::restore(std::span<float> mean) const {
  if (sent_) std::copy(sent_->mean.begin(), sent_->mean.end(), mean.begin());
}

/// Encodes anew what was sent: the round has put the average in its place.
void Feedback::settle_unit(Range unit) {
  std::array<float, kUnitValues> sent;
  std::array<float, kUnitValues> arrived;
  std::array<std::byte, kUnitValues * sizeof(float) * 2> bytes;
  std::copy_n(sent_->mean.begin() + static_cast<std::ptrdiff_t>(unit.begin), unit.size, sent.begin());
  for_each_owing(unit, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) sent[i - unit.begin] = with_owed(i);
  });
  const CodecMap& parts = codecs_.parts();
  const auto into = std::span(bytes).first(parts.encoded_bytes(unit));
  const auto values = std::span(arrived).first(unit.size);
  const auto encoded = parts.encode(std::span(sent).first(unit.size), unit.begin, sent_->options, into);
  const bool known = encoded && parts.decode(into, unit.begin, values);
  assert(known);  // it was sent
  for_each_owing(unit, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t k = i - unit.begin;
      const float rest = (sent[k] - arrived[k]) * static_cast<float>(sent_->weight);
      owed_[i] = std::isfinite(rest) ? rest : 0.0F;
    }
  });
}

void Feedback::settle(const averaging::CommittedRound& round, const PeerId& self) {
  if (!sent_) return;
  if (round.group().epoch != sent_->epoch) return left_out();
  if (round.group().round != 1) return forget();
  const averaging::Shape& shape = round.shape();
  const auto rank = shape.group.rank_of(self);
  for (std::size_t index = 0; rank && index < round.results().size(); ++index) {
    const averaging::Rank segment = shape.members.segments[index];
    const auto& chunks = round.results()[index].chunks();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Range chunk = shape.partition.chunk(segment, i);
      if (!averaging::contains(chunks[i].senders, static_cast<averaging::Rank>(*rank))) continue;
      for (std::size_t begin = chunk.begin; begin < chunk.end(); begin += kUnitValues)
        settle_unit({begin, std::min(kUnitValues, chunk.end() - begin)});
    }
  }
  sent_.reset();
}

void Feedback::missed(const averaging::CommittedRound& round, const PeerId& self) {
  if (!sent_ || round.group().epoch < sent_->epoch) return;
  // an earlier try with this peer carried other values than those that are kept
  const bool other_try = round.group().id != sent_->group && round.group().rank_of(self);
  const bool same_epoch = round.group().epoch == sent_->epoch;
  if (same_epoch && other_try) return forget();
  if (same_epoch && round.group().round == 1 && round.group().id != sent_->group) return left_out();
  settle(round, self);
}

void Feedback::pay(std::span<float> mean, std::uint64_t weight) {
  for (std::size_t i = 0; i < owed_.size(); ++i) {
    const float sum = mean[i] + owed_[i] / static_cast<float>(weight);
    if (std::isfinite(sum)) mean[i] = sum;
  }
  forget();
}

void Feedback::forget() {
  owed_ = {};
  sent_.reset();
}

}  // namespace collab::epoch
