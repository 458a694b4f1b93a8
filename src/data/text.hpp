#pragma once
// Text from a folder: documents of sentences, in an order that does not depend on the machine.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace collab::data {

struct Document {
  std::string name;  ///< file below the folder and number in it, "news/2024.txt#3"; with the content it decides (by its
                     ///< hash) whether the document is held out
  std::vector<std::string> sentences;  ///< never empty, no newlines, no space at either end
};

/// Largest file, unpacked: the text of a run is held in memory while it is prepared.
inline constexpr std::uintmax_t kTextFileBytesMax = std::uintmax_t(2) << 30U;

/// Reads every `.txt`, `.txt.zst` and `.jsonl` file in `folder` and below, sorted by path; other files are not touched.
///
/// A `.txt` file is one document, or several with blank lines between them. A `.jsonl` file has one document a line:
/// an object with a string `text`, in which blank lines mean nothing. Documents without a sentence are left out.
/// Throws `Failure(data)` naming file and place: `folder` is missing, unreadable, or has no such file or no sentence in
/// them; a file that cannot be read, is too large, is not UTF-8, no whole zstd stream, or no such JSON.
std::vector<Document> read_documents(const std::filesystem::path& folder);

/// Cuts at newlines, behind `।` and `॥`, and behind `.`, `?`, `!` where white space or nothing follows, so that "3.14"
/// stays whole. Closing quotes and brackets stay with their sentence. `text` is UTF-8.
std::vector<std::string> split_sentences(std::string_view text);

}  // namespace collab::data
