#include "sim/owed.hpp"

#include "averaging/all_reduce.hpp"
#include "averaging/members.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace collab::sim {

void Owed::add(std::size_t peer, std::uint64_t epoch, std::string text) {
  violations_.add({"owed", clock_.now().time_since_epoch(), {peer}, fmt::format("epoch {}: {}", epoch, text)});
}

/// By place in the vector: whether its parts owe.
std::vector<bool> Owed::fed_back() const {
  std::vector<bool> out(codecs_.length());
  std::size_t i = 0;
  for (const CodecRun& run : codecs_.parts().runs())
    for (; i < run.end; ++i) out[i] = owes(run.codec);
  return out;
}

void Owed::sends(const PartsSent& parts) {
  Books& books = books_[parts.peer];
  // a step of which it has told no round: that was fetched
  if (books.sent && books.stepped && *books.stepped >= books.sent->epoch) fetched(parts.peer, parts.history);
  const std::vector<bool> fed = fed_back();
  books.owed.resize(parts.values.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < parts.values.size(); ++i) {
    const float mean = parts.handed_over[i];
    const float expected =
        fed[i] ? std::clamp(mean, -65504.0F, 65504.0F) + books.owed[i] / static_cast<float>(parts.weight) : mean;
    wrong += expected != parts.values[i] && !std::isnan(expected) ? 1U : 0U;
  }
  books.sent = Sent{parts.epoch, parts.group, {parts.values.begin(), parts.values.end()}, parts.weight};
  if (wrong > 0)
    add(parts.peer, parts.epoch,
        fmt::format("{} values of its parts are not what it handed over and what it owed", wrong));
}

void Owed::settle(std::size_t peer, const averaging::CommittedRound& round) {
  Books& books = books_[peer];
  const averaging::Shape& shape = round.shape();
  const auto rank = shape.group.rank_of(ids_[peer]);
  const std::vector<bool> fed = fed_back();
  const EncodeOptions options = averaging::part_options(shape.group, ids_[peer]);
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

void Owed::stepped(std::size_t peer, std::uint64_t epoch, std::span<const float> averaged) {
  if (!codecs_.owes()) return;
  Books& books = books_[peer];
  books.stepped = epoch;
  books.averaged.assign(averaged.begin(), averaged.end());
}

void Owed::committed(std::size_t peer, std::size_t history, const epoch::EpochReport& report,
                     std::span<const float> handed_over) {
  if (!codecs_.owes()) return;
  const std::optional<Sent>& sent = books_[peer].sent;
  if (sent && sent->epoch < report.epoch) fetched(peer, history);
  if (report.proof) {
    settle_committed(peer, report);
    rounds_.at(history).emplace(report.epoch, report.proof);
  } else if (!report.group && !handed_over.empty() && report.own_weight > 0) {
    pay(peer, report, handed_over);
  }
}

void Owed::settle_committed(std::size_t peer, const epoch::EpochReport& report) {
  const averaging::CommittedRound& first = report.pass.empty() ? *report.proof : *report.pass.front();
  Books& books = books_[peer];
  const bool told = books.sent && books.sent->epoch == report.epoch;
  if (told && first.group().round != 1) {
    books.owed.clear();
  } else if (told && report.own_weight > 0) {
    settle(peer, first);
  } else if (report.own_weight > 0) {
    add(peer, report.epoch, "it was counted, and what it owed was not added");
  }
  books.sent.reset();
}

void Owed::fetched(std::size_t peer, std::size_t history) {
  Books& books = books_[peer];
  const auto known = rounds_.at(history).find(books.sent->epoch);
  if (known == rounds_.at(history).end()) {  // nobody has told it
    books.owed.assign(books.owed.size(), std::numeric_limits<float>::quiet_NaN());
  } else {
    const matchmaking::Group& group = known->second->group();
    const bool is_it = to_hex(std::span(group.id).first(8)) == books.sent->group;
    if (group.round == 1 && is_it) {
      settle(peer, *known->second);
    } else if (group.round > 1 || group.rank_of(ids_[peer])) {
      books.owed.clear();
    }
  }
  books.sent.reset();
}

void Owed::pay(std::size_t peer, const epoch::EpochReport& report, std::span<const float> handed_over) {
  Books& books = books_[peer];
  if (books.averaged.size() != handed_over.size())
    return add(peer, report.epoch, "it told of a step that it did not take");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < handed_over.size(); ++i) {
    const float owed = i < books.owed.size() ? books.owed[i] / static_cast<float>(report.own_weight) : 0.0F;
    const float expected = handed_over[i] + owed;
    wrong += expected != books.averaged[i] && !std::isnan(expected) ? 1U : 0U;
  }
  books.owed.clear();
  books.sent.reset();
  if (wrong > 0) add(peer, report.epoch, fmt::format("of a step alone {} values are not what it had and owed", wrong));
}

void Owed::forget_before(std::uint64_t epoch) {
  for (auto& rounds : rounds_) rounds.erase(rounds.begin(), rounds.lower_bound(epoch));
}

}  // namespace collab::sim
