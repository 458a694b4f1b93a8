#include "data/text.hpp"

#include "base/error.hpp"
#include "folder.hpp"

#include <zstd.h>

#include "support/doctest.hpp"

namespace collab::data {

namespace {

using Strings = std::vector<std::string>;

std::string pack(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  return packed;
}

/// What the person reads when `folder` is refused; empty when it is not.
std::string refusal(const std::filesystem::path& folder) {
  try {
    read_documents(folder);
  } catch (const Failure& failure) {
    CHECK(failure.code() == ExitCode::data);
    CHECK_FALSE(failure.remedy().empty());
    return failure.cause();
  }
  return {};
}

bool says(const std::string& text, std::string_view words) {
  CAPTURE(text);
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("sentences: Bengali ends at dandas, full stops, question and exclamation marks, and newlines") {
  CHECK(split_sentences("আমি ভাত খাই। তুমি কি খাও? না! শেষ॥পরের লাইন\nশিরোনাম") ==
        Strings{"আমি ভাত খাই।", "তুমি কি খাও?", "না!", "শেষ॥", "পরের লাইন", "শিরোনাম"});
}

TEST_CASE("sentences: numbers, names and ellipses stay whole, closing quotes stay with their sentence") {
  CHECK(split_sentences("পাই ৩.১৪ বা 3.14। file.txt খুলুন...") == Strings{"পাই ৩.১৪ বা 3.14।", "file.txt খুলুন..."});
  CHECK(split_sentences("সে বলল, “চলো।” তারপর (কেন?) গেল।") == Strings{"সে বলল, “চলো।”", "তারপর (কেন?)", "গেল।"});
  CHECK(split_sentences("কী?!\r\n  \r\n\tহ্যাঁ") == Strings{"কী?!", "হ্যাঁ"});
}

TEST_CASE("sentences: nothing but space is no sentence") {
  CHECK(split_sentences("").empty());
  CHECK(split_sentences(" \n\r\n \t").empty());
}

TEST_CASE("documents: blank lines part .txt files, every line of .jsonl is one, packed text is text") {
  const test::Folder folder;
  folder.put("b.txt", "\xef\xbb\xbfএক। দুই।\nতিন\n\n \n\r\nচার\n");
  folder.put("a/deep/c.jsonl", "{\"text\": \"পাঁচ।\\n\\nছয়।\", \"id\": 1}\n\n{\"text\": \"\"}\n{\"text\": \"সাত\"}");
  folder.put("d.txt.zst", pack("আট") + pack("। নয়\n\nদশ"));  // two frames, one text
  folder.put("readme.md", "\xff");
  const std::vector<Document> documents = read_documents(folder.path());
  Strings names;
  for (const Document& document : documents) names.push_back(document.name);
  REQUIRE(names == Strings{"a/deep/c.jsonl#1", "a/deep/c.jsonl#2", "b.txt#1", "b.txt#2", "d.txt.zst#1", "d.txt.zst#2"});
  CHECK(documents[0].sentences == Strings{"পাঁচ।", "ছয়।"});
  CHECK(documents[1].sentences == Strings{"সাত"});
  CHECK(documents[2].sentences == Strings{"এক।", "দুই।", "তিন"});
  CHECK(documents[3].sentences == Strings{"চার"});
  CHECK(documents[4].sentences == Strings{"আট।", "নয়"});
  CHECK(documents[5].sentences == Strings{"দশ"});
}

TEST_CASE("documents: packed text larger than every buffer comes back whole") {
  const test::Folder folder;
  Random random(5);
  std::string text;
  for (const std::string& sentence : test::sentences(random, 20'000, 10)) text += sentence + "\n";
  folder.put("large.txt.zst", pack(text));
  const auto documents = read_documents(folder.path());
  REQUIRE(documents.size() == 1);
  CHECK(documents[0].sentences.size() == 20'000);
}

TEST_CASE("documents: a folder without text says what it looked for") {
  const test::Folder folder;
  CHECK(says(refusal(folder.path() / "missing"), "missing: No such file or directory"));
  CHECK(says(refusal(folder.path()), "0 files end in .txt, .txt.zst or .jsonl"));
  const auto file = folder.put("empty.txt", " \n\n");
  CHECK(says(refusal(folder.path()), "1 files end in .txt, .txt.zst or .jsonl, and none has a sentence"));
  CHECK(says(refusal(file), "empty.txt: Not a directory"));
}

TEST_CASE("documents: bytes that are not UTF-8 are refused with file and place") {
  for (const char* bad : {"\xff", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\xa6", "\x80"}) {
    const test::Folder folder;
    folder.put("good.txt", "ভালো");
    folder.put("news.txt", std::string("ক") + bad);
    CHECK(says(refusal(folder.path()), "news.txt: byte 3 is not UTF-8"));
  }
}

TEST_CASE("documents: damaged packed text and foreign JSON are refused with file and reason") {
  const std::string packed = pack("এক দুই তিন চার পাঁচ ছয় সাত আট নয় দশ");
  const auto refused = [](const std::string& name, std::string_view content) {
    const test::Folder folder;
    folder.put(name, content);
    return refusal(folder.path());
  };
  CHECK(says(refused("a.txt.zst", packed.substr(0, packed.size() - 3)), "it ends in the middle of a zstd frame"));
  CHECK(says(refused("a.txt.zst", "plain text"), "zstd says"));
  CHECK(says(refused("a.txt.zst", ""), "it ends in the middle"));
  CHECK(says(refused("a.jsonl", "{\"text\": \"ক\"}\n{\"text\": 7}"), "line 2 is no JSON object with a string"));
  CHECK(says(refused("a.jsonl", "{\"text\": \"ক\""), "line 1 is no JSON object"));
  CHECK(says(refused("a.jsonl", "[\"text\"]"), "line 1 is no JSON object"));
}

TEST_CASE("documents: what is no file is refused, not waited for") {
  const test::Folder folder;
  std::filesystem::create_symlink("nowhere", folder.path() / "link.txt");
  CHECK(says(refusal(folder.path()), "link.txt: No such file or directory"));
}

}  // namespace collab::data
