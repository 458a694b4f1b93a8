#include "jobs/albert/masking.hpp"

#include "base/random.hpp"

#include <algorithm>
#include <cassert>

namespace collab::jobs {
namespace {

using Tokens = std::span<const std::uint32_t>;

std::uint32_t id_of(data::SpecialPiece piece) {
  return static_cast<std::uint32_t>(piece);
}

/// The end of the sentence nearest the middle; of two equally near the first. The window has two sentences or more.
std::size_t border(const data::Window& window) {
  const auto distance = [&](std::uint32_t end) {
    const std::size_t twice = 2 * std::size_t{end}, size = window.tokens.size();
    return twice > size ? twice - size : size - twice;
  };
  const auto inner = window.sentence_ends.first(window.sentence_ends.size() - 1);
  return *std::min_element(inner.begin(), inner.end(),
                           [&](std::uint32_t a, std::uint32_t b) { return distance(a) < distance(b); });
}

void append_segment(Sample& sample, Tokens segment) {
  sample.tokens.insert(sample.tokens.end(), segment.begin(), segment.end());
  sample.tokens.push_back(id_of(data::SpecialPiece::sep));
}

void append_halves(Sample& sample, const data::Window& window, Random random) {
  const std::size_t cut = border(window);
  Tokens first = window.tokens.first(cut), second = window.tokens.subspan(cut);
  const std::size_t length = std::min(first.size(), second.size());
  const bool keep_front = random.chance(0.5);
  for (Tokens* half : {&first, &second}) *half = keep_front ? half->first(length) : half->last(length);
  sample.swapped = random.chance(0.5);
  if (*sample.swapped) std::swap(first, second);
  append_segment(sample, first);
  sample.first_segment = static_cast<std::uint32_t>(sample.tokens.size());
  append_segment(sample, second);
}

void hide_tokens(Sample& sample, std::uint32_t vocabulary, Random random) {
  std::vector<std::uint32_t> ordinary;
  for (std::uint32_t place = 0; place < sample.tokens.size(); ++place)
    if (sample.tokens[place] >= data::kSpecialPieces) ordinary.push_back(place);
  if (ordinary.empty()) return;
  const std::size_t count = std::max<std::size_t>(1, (15 * ordinary.size() + 50) / 100);
  for (std::size_t i = 0; i < count; ++i)  // the front of a Fisher-Yates shuffle: no place twice
    std::swap(ordinary[i], ordinary[i + random.below(ordinary.size() - i)]);
  ordinary.resize(count);
  std::sort(ordinary.begin(), ordinary.end());
  for (const std::uint32_t place : ordinary) {
    sample.labels.push_back(sample.tokens[place]);
    const std::uint64_t tenth = random.below(10);
    if (tenth < 8)
      sample.tokens[place] = id_of(data::SpecialPiece::mask);
    else if (tenth == 8)
      sample.tokens[place] =
          data::kSpecialPieces + static_cast<std::uint32_t>(random.below(vocabulary - data::kSpecialPieces));
  }
  sample.masked = std::move(ordinary);
}

}  // namespace

Sample make_sample(const data::Window& window, std::uint64_t seed, std::uint32_t vocabulary) {
  assert(!window.tokens.empty() && !window.sentence_ends.empty() && vocabulary > data::kSpecialPieces);
  const Random random(seed);
  Sample sample;
  sample.tokens.reserve(window.tokens.size() + 3);
  sample.tokens.push_back(id_of(data::SpecialPiece::cls));
  if (window.sentence_ends.size() == 1) {
    append_segment(sample, window.tokens);
    sample.first_segment = static_cast<std::uint32_t>(sample.tokens.size());
  } else {
    append_halves(sample, window, random.derive("split"));
  }
  hide_tokens(sample, vocabulary, random.derive("mask"));
  return sample;
}

}  // namespace collab::jobs
