#include "data/prepared.hpp"

#include "base/error.hpp"
#include "data/prepared_file.hpp"
#include "folder.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "support/doctest.hpp"

namespace collab::data {

namespace {

struct Sample {
  Sample() : tokenizer(Tokenizer::train(text(), 300)) { Prepared::write(file, documents, tokenizer, options); }

  static std::vector<std::string> text() {
    Random random(1);
    return test::sentences(random, 1000, 10);
  }

  static std::vector<Document> make_documents() {
    Random random(2);
    return test::documents(random, 60);
  }

  test::Folder folder;
  std::filesystem::path file = folder.path() / "prepared";
  std::vector<Document> documents = make_documents();
  Tokenizer tokenizer;
  PrepareOptions options;
};

/// Gives `bytes` the hash that belongs to them, as an attacker can.
std::string sealed(std::string bytes) {
  const std::size_t body = bytes.size() - sizeof(Digest);
  const Digest digest =
      Hasher(kFileDomain).add(std::span(reinterpret_cast<const unsigned char*>(bytes.data()), body)).finish();
  std::memcpy(bytes.data() + body, digest.data(), digest.size());
  return bytes;
}

/// Opens a file of these bytes; reads all of it where it is accepted. The refusal, or nothing.
std::string refusal(const test::Folder& folder, std::string_view bytes) {
  try {
    const Prepared prepared = Prepared::open(folder.put("other", bytes));
    std::uint64_t sum = 0;
    for (const Part part : {Part::train, Part::held_out}) {
      for (std::uint64_t index = 0; index < prepared.windows(part); ++index) {
        const Window window = prepared.window(part, index);
        sum = std::accumulate(window.tokens.begin(), window.tokens.end(), sum);
        REQUIRE(window.sentence_ends.back() == window.tokens.size());
      }
      const auto counts = prepared.counts(part);
      sum += std::accumulate(counts.begin(), counts.end(), std::uint64_t(0));
    }
    CHECK(sum > 0);
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::data);
    return failure.cause();
  }
  return {};
}

template <class T>
std::string with(std::string bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

}  // namespace

TEST_CASE("prepared: every sentence is in exactly one part, in whole windows of one document") {
  const Sample sample;
  const Prepared prepared = Prepared::open(sample.file);
  CHECK(prepared.sequence() == 64);
  CHECK(prepared.vocabulary() == sample.tokenizer.vocabulary());
  CHECK(prepared.windows(Part::held_out) > 0);
  CHECK(prepared.windows(Part::held_out) < prepared.windows(Part::train));

  std::vector<std::vector<std::uint32_t>> found;
  std::vector<std::vector<std::uint32_t>> wanted;
  for (const Document& document : sample.documents)
    for (const std::string& sentence : document.sentences) wanted.push_back(sample.tokenizer.encode(sentence));
  for (const Part part : {Part::train, Part::held_out}) {
    std::vector<std::uint64_t> counts(prepared.vocabulary(), 0);
    for (std::uint64_t index = 0; index < prepared.windows(part); ++index) {
      const Window window = prepared.window(part, index);
      CHECK(window.tokens.size() <= 61);
      std::uint32_t begin = 0;
      for (const std::uint32_t end : window.sentence_ends) {
        found.emplace_back(window.tokens.begin() + begin, window.tokens.begin() + end);
        begin = end;
      }
      for (const std::uint32_t id : window.tokens) ++counts[id];
    }
    CHECK(prepared.counts(part) == counts);
  }
  std::sort(found.begin(), found.end());
  std::sort(wanted.begin(), wanted.end());
  CHECK(found == wanted);
}

TEST_CASE("prepared: equal text gives equal bytes and hash; other text, another hash") {
  Sample sample;
  const std::string before = test::content(sample.file);
  const Digest hash = Prepared::open(sample.file).hash();
  Prepared::write(sample.file, sample.documents, sample.tokenizer, sample.options);
  CHECK(test::content(sample.file) == before);
  sample.documents.pop_back();
  Prepared::write(sample.file, sample.documents, sample.tokenizer, sample.options);
  CHECK(Prepared::open(sample.file).hash() != hash);
  CHECK(std::distance(std::filesystem::directory_iterator(sample.folder.path()), {}) == 1);  // no temporary file
}

TEST_CASE("prepared: a document stays in its part when others come and go") {
  Sample sample;
  const auto held_out_tokens = [&](std::span<const Document> documents) {
    Prepared::write(sample.file, documents, sample.tokenizer, sample.options);
    const auto counts = Prepared::open(sample.file).counts(Part::held_out);
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t(0));
  };
  const std::span<const Document> all = sample.documents;
  CHECK(held_out_tokens(all.first(30)) + held_out_tokens(all.subspan(30)) == held_out_tokens(all));
  sample.options.held_out_one_in = 0;
  CHECK(held_out_tokens(all) == 0);
}

TEST_CASE(
    "prepared: text that leaves nothing to train on, and absurd sequences, are refused before anything is written") {
  Sample sample;
  const auto write = [&] {
    Prepared::write(sample.folder.path() / "new", sample.documents, sample.tokenizer, sample.options);
  };
  sample.options.sequence = 7;
  CHECK_THROWS_AS(write(), Failure);
  sample.options.sequence = 64;
  sample.options.held_out_one_in = 1;
  CHECK_THROWS_WITH_AS(write(), doctest::Contains("no text is left to train on: 60 documents, 1 in 1 held out"),
                       Failure);
  sample.documents.clear();
  CHECK_THROWS_AS(write(), Failure);
  CHECK_FALSE(std::filesystem::exists(sample.folder.path() / "new"));
}

TEST_CASE("prepared: a disk that cannot be written is the machine's fault and leaves nothing behind") {
  const Sample sample;
  const auto in_the_way = sample.folder.path() / "a_file";
  std::ofstream(in_the_way) << "x";
  const auto file = in_the_way / "prepared";
  try {
    Prepared::write(file, sample.documents, sample.tokenizer, sample.options);
    FAIL("written into a folder that is a file");
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::machine);
  }
  CHECK(std::filesystem::is_regular_file(in_the_way));
}

TEST_CASE("prepared: missing and foreign files are refused with the reason") {
  const Sample sample;
  CHECK_THROWS_AS(Prepared::open(sample.folder.path() / "missing"), Failure);
  CHECK_THROWS_AS(Prepared::open(sample.folder.path()), Failure);
  CHECK(refusal(sample.folder, "").find("it is too short") != std::string::npos);
  CHECK(refusal(sample.folder, std::string(200, 'x')).find("it is no prepared text") != std::string::npos);
  const std::string bytes = test::content(sample.file);
  CHECK(refusal(sample.folder, bytes).empty());
  CHECK(refusal(sample.folder, sealed(with(bytes, 8, 2U))).find("it has another version") != std::string::npos);
}

TEST_CASE("prepared: any flipped bit and any lost or added byte is noticed") {
  const Sample sample;
  const std::string bytes = test::content(sample.file);
  Random random(3);
  for (int attempt = 0; attempt < 2000; ++attempt) {
    CAPTURE(attempt);
    std::string damaged = bytes;
    if (attempt % 4 == 0)
      damaged.resize(random.below(bytes.size()));
    else if (attempt % 4 == 1)
      damaged.append(1 + random.below(100), '\0');
    else
      damaged[random.below(bytes.size())] ^= char(1U << random.below(8));
    CHECK_FALSE(refusal(sample.folder, damaged).empty());
  }
}

TEST_CASE("prepared: a file that lies under a right hash is refused or harmless, never read out of bounds") {
  const Sample sample;
  const std::string bytes = test::content(sample.file);
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t borders = header.train_windows + header.held_out_windows + 1;
  const std::size_t sentence_borders = sizeof header + 8 * borders;
  const std::size_t tokens = sentence_borders + 8 * borders;
  const std::size_t ends = tokens + 4 * header.tokens;
  const auto why = [&](const std::string& lie) { return refusal(sample.folder, sealed(lie)); };
  const std::uint64_t huge = ~std::uint64_t(0) / 16 + 2;
  for (const std::size_t count : {24U, 32U, 40U, 48U}) {
    CHECK(why(with(bytes, count, huge)).find("counts") != std::string::npos);
    CHECK(why(with(bytes, count, std::uint64_t(1))).find("counts") != std::string::npos);
  }
  CHECK(why(with(bytes, 40, std::uint64_t(0))).find("no window") != std::string::npos);
  CHECK(why(with(bytes, 12, ~0U)).find("vocabulary") != std::string::npos);
  CHECK(why(with(bytes, 16, 0U)).find("sequence") != std::string::npos);
  CHECK(why(with(bytes, 16, 32U)).find("too long") != std::string::npos);
  CHECK(why(with(bytes, sizeof header, std::uint64_t(1))).find("windows do not follow") != std::string::npos);
  CHECK(why(with(bytes, sizeof header + 8, huge)).find("windows do not follow") != std::string::npos);
  CHECK(why(with(bytes, sentence_borders + 8, std::uint64_t(0))).find("windows do not follow") != std::string::npos);
  CHECK(why(with(bytes, tokens, header.vocabulary)).find("vocabulary") != std::string::npos);
  CHECK(why(with(bytes, tokens, 4U)).find("vocabulary") != std::string::npos);
  CHECK(why(with(bytes, ends, 0U)).find("sentences do not follow") != std::string::npos);
  CHECK(why(with(bytes, ends, ~0U)).find("sentences do not follow") != std::string::npos);
  Random random(4);
  for (int attempt = 0; attempt < 1000; ++attempt)
    why(with(bytes, random.below(bytes.size() - 40), random.chance(0.5) ? random.next() : random.below(100)));
}

}  // namespace collab::data
