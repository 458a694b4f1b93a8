// Text from a folder: any file is refused as damaged data, or gives documents of clean sentences. The first byte
// chooses the kind of file.
#include "base/text.hpp"
#include "data/text.hpp"
#include "support.hpp"

#include <array>

namespace collab::fuzz::text_target {

bool is_clean(std::string_view sentence) {
  if (sentence.empty() || sentence.find('\n') != std::string_view::npos) return false;
  for (std::size_t at = 0; at < sentence.size();) {
    const std::size_t bytes = utf8_character_bytes(sentence.substr(at));
    if (bytes == 0) return false;
    at += bytes;
  }
  return sentence.front() != ' ' && sentence.back() != ' ';
}

COLLAB_FUZZ_TARGET(text) {
  constexpr std::array<const char*, 3> names = {"a.txt", "a.txt.zst", "a.jsonl"};
  if (size == 0) return 0;
  static const fuzz::InputFolder folder;
  const char* name = names[data[0] % names.size()];
  folder.put(name, fuzz::bytes_of(data + 1, size - 1));
  try {
    for (const data::Document& document : data::read_documents(folder.path())) {
      require(!document.name.empty() && !document.sentences.empty());
      for (const std::string& sentence : document.sentences) require(is_clean(sentence));
    }
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::data);
  }
  std::filesystem::remove(folder.path() / name);
  return 0;
}

}  // namespace collab::fuzz::text_target
