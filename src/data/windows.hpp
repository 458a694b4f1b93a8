#pragma once
// Cuts the sentences of a document into windows.

#include <cstdint>
#include <span>
#include <vector>

namespace collab::data {

/// Windows being collected: all tokens in a row, and where windows and sentences begin.
struct WindowTable {
  std::vector<std::uint32_t> tokens;
  std::vector<std::uint32_t> sentence_ends;         ///< counted from the first token of the window
  std::vector<std::uint64_t> first_token = {0};     ///< of each window, and the end
  std::vector<std::uint64_t> first_sentence = {0};  ///< into `sentence_ends`, and the end
};

/// Appends the windows of one document. `sentences`: ids of each; empty ones are skipped. Runs of whole sentences, as
/// long as fit into `tokens_max` > 0; a longer sentence is cut into pieces. A window with one sentence has no border to
/// split at, so it takes the last sentence of the window before where that one keeps two.
void append_windows(WindowTable& table, std::span<const std::vector<std::uint32_t>> sentences, std::size_t tokens_max);

}  // namespace collab::data
