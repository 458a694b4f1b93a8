#include "epoch/feedback.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <utility>

namespace collab::epoch {
namespace {

constexpr float kFloat16Max = 65504;

/// Calls visit(begin, end) for the pieces of `range` whose codec owes.
template <class Visit>
void for_each_owing(const CodecMap& codecs, Range range, Visit visit) {
  std::size_t begin = 0;
  for (const CodecRun& run : codecs.parts().runs()) {
    const std::size_t from = std::max(begin, range.begin);
    const std::size_t to = std::min<std::size_t>(run.end, range.end());
    if (owes(run.codec) && from < to) visit(from, to);
    begin = run.end;
  }
}

float with_owed(float mean, float owed, std::uint64_t weight) {
  return std::clamp(mean, -kFloat16Max, kFloat16Max) + owed / static_cast<float>(weight);
}

}  // namespace

void Settling::run() {
  const averaging::Shape& shape = round_->shape();
  for (std::size_t index = 0; index < round_->results().size(); ++index) {
    const averaging::Rank segment = shape.members.segments[index];
    const auto& chunks = round_->results()[index].chunks();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Range chunk = shape.partition.chunk(segment, i);
      if (!averaging::contains(chunks[i].senders, rank_)) continue;
      for (std::size_t begin = chunk.begin; begin < chunk.end(); begin += kUnitValues)
        settle_unit({begin, std::min(kUnitValues, chunk.end() - begin)});
    }
  }
}

void Settling::settle_unit(Range unit) {
  std::array<float, kUnitValues> sent;
  std::array<float, kUnitValues> arrived;
  std::array<std::byte, kUnitValues * sizeof(float) * 2> bytes;
  std::copy_n(sent_.mean.begin() + static_cast<std::ptrdiff_t>(unit.begin), unit.size, sent.begin());
  for_each_owing(*codecs_, unit, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) sent[i - unit.begin] = with_owed(sent_.mean[i], owed_[i], sent_.weight);
  });
  const CodecMap& parts = codecs_->parts();
  const auto into = std::span(bytes).first(parts.encoded_bytes(unit));
  const auto values = std::span(arrived).first(unit.size);
  const auto encoded = parts.encode(std::span(sent).first(unit.size), unit.begin, sent_.options, into);
  const bool known = encoded && parts.decode(into, unit.begin, values);
  assert(known);  // it was sent
  for_each_owing(*codecs_, unit, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t k = i - unit.begin;
      const float rest = (sent[k] - arrived[k]) * static_cast<float>(sent_.weight);
      owed_[i] = std::isfinite(rest) ? rest : 0.0F;
    }
  });
}

void Feedback::add_to(std::span<float> mean, std::uint64_t weight, const matchmaking::Group& group,
                      EncodeOptions options) {
  assert(in_use() && !settling_ && weight > 0 && mean.size() == codecs_.length());
  owed_.resize(mean.size());
  sent_.reset();  // of a try that failed: not three vectors at once
  sent_ = SentParts{{mean.begin(), mean.end()}, weight, group.epoch, group.id, options};
  for_each_owing(codecs_, {0, mean.size()}, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) mean[i] = with_owed(mean[i], owed_[i], weight);
  });
}

void Feedback::restore(std::span<float> mean) const {
  if (sent_) std::copy(sent_->mean.begin(), sent_->mean.end(), mean.begin());
}

std::optional<Settling> Feedback::settle(std::shared_ptr<const averaging::CommittedRound> round, const PeerId& self) {
  if (!sent_) return std::nullopt;
  const auto rank = round->group().rank_of(self);
  if (round->group().epoch != sent_->epoch || (round->group().round == 1 && !rank)) {
    left_out();
    return std::nullopt;
  }
  if (round->group().round != 1) {
    forget();
    return std::nullopt;
  }
  Settling settling;
  settling.codecs_ = &codecs_;
  settling.owed_ = std::move(owed_);
  settling.sent_ = *std::exchange(sent_, std::nullopt);
  settling.round_ = std::move(round);
  settling.rank_ = static_cast<averaging::Rank>(*rank);
  settling_ = true;
  return settling;
}

void Feedback::settled(Settling settling) {
  if (std::exchange(settling_, false)) owed_ = std::move(settling.owed_);
}

std::optional<Settling> Feedback::missed(std::shared_ptr<const averaging::CommittedRound> round, const PeerId& self) {
  const matchmaking::Group& group = round->group();
  if (!sent_ || group.epoch < sent_->epoch) return std::nullopt;
  const bool same_epoch = group.epoch == sent_->epoch;
  const bool other_try = same_epoch && group.id != sent_->group;
  // an earlier try with this peer carried other values than those that are kept
  if (other_try && group.rank_of(self)) {
    forget();
  } else if (other_try && group.round == 1) {
    left_out();
  } else {
    return settle(std::move(round), self);
  }
  return std::nullopt;
}

void Feedback::pay(std::span<float> mean, std::uint64_t weight) {
  assert(!settling_);
  for (std::size_t i = 0; i < owed_.size(); ++i) {
    const float sum = mean[i] + owed_[i] / static_cast<float>(weight);
    if (std::isfinite(sum)) mean[i] = sum;
  }
  forget();
}

void Feedback::forget() {
  owed_ = {};
  sent_.reset();
  settling_ = false;
}

}  // namespace collab::epoch
