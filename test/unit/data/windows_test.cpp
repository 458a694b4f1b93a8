#include "data/windows.hpp"

#include "base/random.hpp"

#include <numeric>

#include "support/doctest.hpp"

namespace collab::data {

namespace {

using Sentences = std::vector<std::vector<std::uint32_t>>;

/// Sentences of the given lengths, tokens numbered through.
Sentences lengths(const std::vector<std::size_t>& sizes) {
  Sentences sentences;
  std::uint32_t next = 0;
  for (const std::size_t size : sizes) {
    sentences.emplace_back(size);
    std::iota(sentences.back().begin(), sentences.back().end(), next);
    next += std::uint32_t(size);
  }
  return sentences;
}

/// Sentences in each window.
std::vector<std::uint64_t> shape(const std::vector<std::size_t>& sizes, std::size_t tokens_max) {
  WindowTable table;
  append_windows(table, lengths(sizes), tokens_max);
  std::vector<std::uint64_t> counts;
  for (std::size_t index = 1; index < table.first_sentence.size(); ++index)
    counts.push_back(table.first_sentence[index] - table.first_sentence[index - 1]);
  return counts;
}

using Counts = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("windows: as many whole sentences as fit") {
  CHECK(shape({4, 3, 3, 5, 5}, 10) == Counts{3, 2});
  CHECK(shape({}, 10).empty());
  CHECK(shape({0, 0}, 10).empty());
  CHECK(shape({0, 4, 0}, 10) == Counts{1});
}

TEST_CASE("windows: a lone sentence takes one from a window of three, and only if it fits") {
  CHECK(shape({4, 3, 3, 5}, 10) == Counts{2, 2});
  CHECK(shape({4, 3, 3, 8}, 10) == Counts{3, 1});
  CHECK(shape({5, 5, 5}, 10) == Counts{2, 1});
}

TEST_CASE("windows: a sentence that is too long is cut, nothing is lost") {
  CHECK(shape({25}, 10) == Counts{1, 1, 1});
  CHECK(shape({25, 5}, 10) == Counts{1, 1, 2});
  CHECK(shape({2, 25}, 10) == Counts{1, 1, 1, 1});
}

TEST_CASE("windows: whatever the sentences, all tokens come once and in order, and no window is too long") {
  for (const std::uint64_t seed : test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::size_t tokens_max = 1 + random.below(40);
    std::vector<std::size_t> sizes(random.below(60));
    for (std::size_t& size : sizes) size = random.below(random.chance(0.1) ? 120 : 15);
    WindowTable table;
    append_windows(table, lengths(sizes), tokens_max);
    std::vector<std::uint32_t> all(std::accumulate(sizes.begin(), sizes.end(), std::size_t(0)));
    std::iota(all.begin(), all.end(), 0U);
    CHECK(table.tokens == all);
    REQUIRE(table.first_token.size() == table.first_sentence.size());
    CHECK(table.first_token.back() == table.tokens.size());
    CHECK(table.first_sentence.back() == table.sentence_ends.size());
    for (std::size_t index = 1; index < table.first_token.size(); ++index) {
      const std::uint64_t size = table.first_token[index] - table.first_token[index - 1];
      CHECK(size > 0);
      CHECK(size <= tokens_max);
      REQUIRE(table.first_sentence[index] > table.first_sentence[index - 1]);
      CHECK(table.sentence_ends[table.first_sentence[index] - 1] == size);
    }
  }
}

}  // namespace collab::data
