#include "data/tokenizer.hpp"

#include "base/error.hpp"
#include "folder.hpp"

#include <algorithm>

#include "support/doctest.hpp"

namespace collab::data {

namespace {

std::vector<std::string> corpus() {
  Random random(1);
  return test::sentences(random, 2000, 10);
}

}  // namespace

TEST_CASE("tokenizer: the same text gives the same bytes") {
  const auto sentences = corpus();
  const Tokenizer first = Tokenizer::train(sentences, 300);
  CHECK(first.vocabulary() == 300);
  CHECK(first.bytes() == Tokenizer::train(sentences, 300).bytes());
}

TEST_CASE("tokenizer: text never becomes a special piece, and what it never saw is unknown") {
  const Tokenizer tokenizer = Tokenizer::train(corpus(), 300);
  for (const char* text : {"কাখি গুঘে।", "[CLS] [MASK] <pad> <unk> [SEP]", "", "\xff\xfe", "\n\t ``''"})
    for (const std::uint32_t id : tokenizer.encode(text))
      CHECK((id == std::uint32_t(SpecialPiece::unknown) || (id >= kSpecialPieces && id < tokenizer.vocabulary())));
  const auto foreign = tokenizer.encode("漢");
  CHECK(std::count(foreign.begin(), foreign.end(), std::uint32_t(SpecialPiece::unknown)) == 1);
}

TEST_CASE("tokenizer: the two ways to write a Bengali letter are one") {
  Random random(1);
  auto sentences = test::sentences(random, 500, 10);
  for (int copy = 0; copy < 50; ++copy) sentences.push_back("কো ড় ড়া কোক");
  const Tokenizer tokenizer = Tokenizer::train(sentences, 200);
  CHECK(tokenizer.encode("\u0995\u09cb \u09dc") == tokenizer.encode("\u0995\u09c7\u09be \u09a1\u09bc"));
}

TEST_CASE("tokenizer: a zero-width non-joiner inside a word does not cut it, a tab between words does") {
  Random random(1);
  auto sentences = test::sentences(random, 500, 10);
  for (int copy = 0; copy < 200; ++copy) sentences.push_back("\u0989\u09ce\u200c\u09b8 \u09b8");
  const Tokenizer tokenizer = Tokenizer::train(sentences, 200);
  CHECK(tokenizer.encode("\u0989\u09ce\u200c\u09b8") != tokenizer.encode("\u0989\u09ce \u09b8"));
  CHECK(tokenizer.encode("\u0989\u09ce\t\u09b8") == tokenizer.encode("\u0989\u09ce \u09b8"));
}

TEST_CASE("tokenizer: a small text gives the vocabulary it has") {
  const Tokenizer small = Tokenizer::train(corpus(), 100'000);
  CHECK(small.vocabulary() > 300);
  CHECK(small.vocabulary() < 100'000);
  const std::vector<std::string> tiny = {"আমি ভাত খাই।"};
  CHECK(Tokenizer::train(tiny, 4000).vocabulary() < 30);
}

TEST_CASE("tokenizer: no text, or a vocabulary below the letters of the text, is refused with the reason") {
  const std::vector<std::string> nothing = {"", ""};
  CHECK_THROWS_WITH_AS(Tokenizer::train(nothing, 300),
                       doctest::Contains("cannot train a tokenizer: no letter in 2 sentences"), Failure);
  for (const char* empty : {" \t", "\u2581", "\u200b"}) {
    CAPTURE(empty);
    CHECK_THROWS_AS(Tokenizer::train(std::vector<std::string>(3, empty), 300), Failure);
  }
  CHECK_THROWS_AS(Tokenizer::train(corpus(), 10), Failure);
  CHECK_THROWS_AS(Tokenizer::train(corpus(), 5), Failure);
}

TEST_CASE("tokenizer: a file round trip keeps every id; missing, damaged and foreign files are refused") {
  const test::Folder folder;
  const Tokenizer tokenizer = Tokenizer::train(corpus(), 300);
  const Tokenizer loaded = Tokenizer::load(folder.put("spiece.model", tokenizer.bytes()));
  for (const std::string& sentence : corpus()) REQUIRE(loaded.encode(sentence) == tokenizer.encode(sentence));
  CHECK_THROWS_AS(Tokenizer::load(folder.path() / "missing"), Failure);
  CHECK_THROWS_AS(Tokenizer::load(folder.path()), Failure);
  CHECK_THROWS_AS(Tokenizer::from_bytes("no model"), Failure);
  CHECK_THROWS_AS(Tokenizer::from_bytes(""), Failure);
  std::string other = tokenizer.bytes();
  other.replace(other.find("[CLS]"), 5, "[CLX]");
  CHECK_THROWS_AS(Tokenizer::from_bytes(other), Failure);
}

}  // namespace collab::data
