#include "jobs/albert/masking.hpp"

#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "support/doctest.hpp"

namespace collab::jobs {
namespace {

constexpr std::uint32_t kVocabulary = 1000;
constexpr std::uint32_t kCls = 2, kSep = 3, kMask = 4;

/// A window's memory. Sentence lengths are given; tokens are random ordinary pieces.
struct Text {
  std::vector<std::uint32_t> tokens, ends;

  Text(const std::vector<std::uint32_t>& lengths, Random& random) {
    for (const std::uint32_t length : lengths) {
      for (std::uint32_t i = 0; i < length; ++i)
        tokens.push_back(data::kSpecialPieces +
                         static_cast<std::uint32_t>(random.below(kVocabulary - data::kSpecialPieces)));
      ends.push_back(static_cast<std::uint32_t>(tokens.size()));
    }
  }
  data::Window window() const { return {tokens, ends}; }
};

std::vector<std::uint32_t> random_lengths(Random& random) {
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t left = 61; lengths.size() < 2 || left > 12;) {
    lengths.push_back(1 + static_cast<std::uint32_t>(random.below(std::min<std::uint32_t>(left - 1, 20))));
    left -= std::min(left - 2, lengths.back());
  }
  return lengths;
}

/// The sample before masking.
std::vector<std::uint32_t> unmasked(const Sample& sample) {
  auto tokens = sample.tokens;
  for (std::size_t i = 0; i < sample.masked.size(); ++i) tokens[sample.masked[i]] = sample.labels[i];
  return tokens;
}

}  // namespace

TEST_CASE("masking: over a million tokens, 15 % are blanks; 80 % of them hidden, 10 % random, 10 % as they were") {
  Random random(1);
  double ordinary = 0, blanks = 0, hidden = 0, replaced = 0, kept = 0;
  for (std::uint64_t seed = 0; ordinary < 1e6; ++seed) {
    const Text text({static_cast<std::uint32_t>(20 + random.below(42))}, random);
    const Sample sample = make_sample(text.window(), seed, kVocabulary);
    ordinary += static_cast<double>(text.tokens.size());
    blanks += static_cast<double>(sample.masked.size());
    for (std::size_t i = 0; i < sample.masked.size(); ++i) {
      const std::uint32_t seen = sample.tokens[sample.masked[i]];
      (seen == kMask ? hidden : seen == sample.labels[i] ? kept : replaced) += 1;
    }
  }
  CHECK(std::abs(blanks / ordinary - 0.15) < 0.005);
  CHECK(std::abs(hidden / blanks - 0.8) < 0.005);
  CHECK(std::abs(replaced / blanks - 0.1) < 0.005);
  CHECK(std::abs(kept / blanks - 0.1) < 0.005);
}

TEST_CASE("masking: blanks are distinct, rising, never special pieces, and at least one") {
  Random random(2);
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Text text(random_lengths(random), random);
    const Sample sample = make_sample(text.window(), seed, kVocabulary);
    REQUIRE_FALSE(sample.masked.empty());
    CHECK(std::adjacent_find(sample.masked.begin(), sample.masked.end(), std::greater_equal<>()) ==
          sample.masked.end());
    CHECK(std::all_of(sample.labels.begin(), sample.labels.end(), [](auto id) { return id >= data::kSpecialPieces; }));
  }
  const Text single({1}, random);
  CHECK(make_sample(single.window(), 1, kVocabulary).masked == std::vector<std::uint32_t>{1});
}

TEST_CASE("masking: unknown pieces are not asked for, and a window of nothing else has no blanks") {
  const std::vector<std::uint32_t> tokens = {1, 1, 1}, ends = {3};
  const Sample sample = make_sample({tokens, ends}, 3, kVocabulary);
  CHECK(sample.masked.empty());
  CHECK(sample.tokens == std::vector<std::uint32_t>{kCls, 1, 1, 1, kSep});
}

TEST_CASE("order: one sentence makes one segment and no question") {
  Random random(3);
  const Text text({7}, random);
  const Sample sample = make_sample(text.window(), 1, kVocabulary);
  CHECK_FALSE(sample.swapped.has_value());
  CHECK(sample.tokens.size() == 9);
  CHECK(sample.first_segment == 9);
}

TEST_CASE("order: the split is nearest the middle, the longer half loses one end, and swapping puts b first") {
  Random random(4);
  const Text text({5, 3, 4, 8}, random);  // borders 5, 8, 12; the middle is 10: 8 is first of two equally near
  std::set<std::vector<std::uint32_t>> seen;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    const Sample sample = make_sample(text.window(), seed, kVocabulary);
    const auto tokens = unmasked(sample);
    REQUIRE(tokens.size() == 8 + 8 + 3);
    CHECK(sample.first_segment == 10);
    CHECK(tokens[0] == kCls);
    CHECK(tokens[9] == kSep);
    CHECK(tokens[18] == kSep);
    std::vector<std::uint32_t> first(&tokens[1], &tokens[9]), second(&tokens[10], &tokens[18]);
    if (*sample.swapped) std::swap(first, second);
    CHECK(first == std::vector<std::uint32_t>(text.tokens.begin(), text.tokens.begin() + 8));
    const auto start = second.front() == text.tokens[8] ? 8 : 12;
    CHECK(second == std::vector<std::uint32_t>(text.tokens.begin() + start, text.tokens.begin() + start + 8));
    seen.insert(tokens);
  }
  CHECK(seen.size() == 4);  // two ends, swapped or not
}

TEST_CASE("order: whoever knows only the lengths guesses right in half of ten thousand samples") {
  Random random(5);
  std::map<std::pair<std::uint32_t, std::size_t>, std::array<int, 2>> learned;
  int right = 0, asked = 0, swapped = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    const Text text(random_lengths(random), random);
    const Sample sample = make_sample(text.window(), seed, kVocabulary);
    auto& counts = learned[{sample.first_segment, sample.tokens.size()}];
    if (seed >= 10'000) {
      ++asked;
      swapped += *sample.swapped;
      right += (counts[1] > counts[0]) == *sample.swapped;
    } else {
      ++counts[*sample.swapped];
    }
  }
  CHECK(asked == 10'000);
  CHECK(std::abs(right - 5000) < 200);
  CHECK(std::abs(swapped - 5000) < 200);
}

TEST_CASE("sample: equal window and seed give an equal sample, another seed another one") {
  Random random(6);
  const Text text({20, 20}, random);
  const Sample one = make_sample(text.window(), 1, kVocabulary), two = make_sample(text.window(), 1, kVocabulary);
  CHECK(one.tokens == two.tokens);
  CHECK(one.masked == two.masked);
  CHECK(one.swapped == two.swapped);
  CHECK(make_sample(text.window(), 2, kVocabulary).masked != one.masked);
}

}  // namespace collab::jobs
