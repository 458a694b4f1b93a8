#pragma once
// What the tests of this room share: a folder that goes away, and text to learn from.

#include "base/random.hpp"
#include "data/text.hpp"
#include "support/temp_folder.hpp"

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace collab::data::test {

/// Files of documents.
class Folder : public collab::test::TempFolder {
 public:
  /// Writes `content` to the file `name` below the folder and returns its path.
  std::filesystem::path put(const std::string& name, std::string_view content) const {
    const std::filesystem::path file = path() / name;
    collab::test::write(file, content);
    return file;
  }
};

using collab::test::content;

/// A sentence of made-up Bengali words.
inline std::string sentence(Random& random, std::uint64_t words) {
  static constexpr std::array<std::string_view, 16> syllables = {"কা", "খি", "গু",  "ঘে", "চো", "ছা", "জি", "ঝু",
                                                                 "টে", "ডো", "তা", "দি", "নু",  "বে", "মো", "ক্ষ"};
  std::string text;
  for (std::uint64_t word = 0; word < words; ++word) {
    if (word > 0) text += ' ';
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left) text += syllables[random.below(syllables.size())];
  }
  return text + "।";
}

inline std::vector<std::string> sentences(Random& random, std::uint64_t count, std::uint64_t words_max) {
  std::vector<std::string> all;
  for (std::uint64_t index = 0; index < count; ++index) all.push_back(sentence(random, 1 + random.below(words_max)));
  return all;
}

inline std::vector<Document> documents(Random& random, std::uint64_t count) {
  std::vector<Document> all;
  for (std::uint64_t index = 0; index < count; ++index)
    all.push_back({"document#" + std::to_string(index + 1), sentences(random, 1 + random.below(20), 12)});
  return all;
}

}  // namespace collab::data::test
