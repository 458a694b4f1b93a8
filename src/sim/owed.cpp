#include "sim/owed.hpp"

#include "averaging/all_reduce.hpp"
#include "averaging/members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace collab::sim {

/// By place in the vector: whether its parts owe.
std::vector<bool> Owed::fed_back() const {
  std::vector<bool> out(codecs_.length());
  std::size_t i = 0;
  for (const CodecRun& run : codecs_.parts().runs())
    for (; i < run.end; ++i) out[i] = owes(run.codec);
  return out;
}

std::optional<std::uint64_t> Owed::open_epoch(std::size_t peer) const {
  const auto found = books_.find(peer);
  if (found == books_.end() || !found->second.sent) return std::nullopt;
  return found->second.sent->epoch;
}

std::string Owed::sends(std::size_t peer, std::uint64_t epoch, const std::string& group,
                        std::span<const float> handed_over, std::span<const float> values, std::uint64_t weight) {
  Books& books = books_[peer];
  const std::vector<bool> fed = fed_back();
  books.owed.resize(values.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float expected =
        fed[i] ? std::clamp(handed_over[i], -65504.0F, 65504.0F) + books.owed[i] / float(weight) : handed_over[i];
    wrong += expected != values[i] && !std::isnan(expected) ? 1U : 0U;
  }
  books.sent = Sent{epoch, group, {values.begin(), values.end()}, weight};
  if (wrong == 0) return {};
  return fmt::format("epoch {}: {} values of its parts are not what it handed over and what it owed", epoch, wrong);
}

void Owed::settle(Books& books, const PeerId& id, const averaging::CommittedRound& round) {
  const averaging::Shape& shape = round.shape();
  const auto rank = shape.group.rank_of(id);
  const std::vector<bool> fed = fed_back();
  const EncodeOptions options = averaging::part_options(shape.group, id);
  for (std::size_t index = 0; rank && index < round.results().size(); ++index) {
    const auto& chunks = round.results()[index].chunks();
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      if (!averaging::contains(chunks[c].senders, static_cast<averaging::Rank>(*rank))) continue;
      const Range range = shape.partition.chunk(shape.members.segments[index], c);
      const auto sent = std::span<const float>(books.sent->values).subspan(range.begin, range.size);
      std::vector<float> arrived(range.size);
      const auto bytes = codecs_.parts().encode(sent, range.begin, options);
      if (!bytes || !codecs_.parts().decode(*bytes, range.begin, arrived)) continue;
      for (std::size_t i = 0; i < range.size; ++i)
        if (fed[range.begin + i])
          books.owed[range.begin + i] = (sent[i] - arrived[i]) * static_cast<float>(books.sent->weight);
    }
  }
}

std::string Owed::committed(std::size_t peer, const PeerId& id, const epoch::EpochReport& report) {
  if (!codecs_.owes() || !report.proof) return {};
  const averaging::CommittedRound& first = report.pass.empty() ? *report.proof : *report.pass.front();
  Books& books = books_[peer];
  const bool told = books.sent && books.sent->epoch == report.epoch;
  std::string wrong;
  if (told && first.group().round != 1) {
    books.owed.clear();
  } else if (told && report.own_weight > 0) {
    settle(books, id, first);
  } else if (report.own_weight > 0) {
    wrong = fmt::format("epoch {}: it was counted, and what it owed was not added", report.epoch);
  }
  books.sent.reset();
  return wrong;
}

void Owed::fetched(std::size_t peer, const PeerId& id, std::uint64_t epoch, const Round& round,
                   const std::string& group) {
  Books& books = books_[peer];
  if (!books.sent || books.sent->epoch != epoch) return;
  if (!round) {
    books.owed.assign(books.owed.size(), std::numeric_limits<float>::quiet_NaN());
  } else if (round->group().round == 1 && group == books.sent->group) {
    settle(books, id, *round);
  } else if (round->group().round > 1 || round->group().rank_of(id)) {
    books.owed.clear();
  }
  books.sent.reset();
}

std::vector<float> Owed::pay(std::size_t peer, std::span<const float> handed_over, std::uint64_t weight) {
  std::vector<float> out(handed_over.begin(), handed_over.end());
  const std::vector<float>& owed = books_[peer].owed;
  for (std::size_t i = 0; i < owed.size(); ++i) out[i] += owed[i] / static_cast<float>(weight);
  forget(peer);
  return out;
}

}  // namespace collab::sim
