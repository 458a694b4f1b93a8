#pragma once
// The format of a prepared file. All numbers are little-endian; nothing is aligned to more than its own size.
//
//   FileHeader
//   u64 first_token[windows + 1]      where the tokens of each window begin, and the end; windows of `train` come first
//   u64 first_sentence[windows + 1]   likewise, into sentence_ends
//   u32 tokens[tokens]                ordinary ids and `unknown`
//   u32 sentence_ends[sentences]      counted from the first token of the window
//   32 bytes                          Hasher(kFileDomain).add(everything before)

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace collab::data {

inline constexpr std::array<char, 8> kFileMagic = {'c', 'o', 'l', 'l', 'a', 'b', 'P', 'D'};
inline constexpr std::uint32_t kFileVersion = 1;
inline constexpr std::string_view kFileDomain = "collab.prepared.1";

inline constexpr std::uint32_t kSequenceMin = 8;
inline constexpr std::uint32_t kSequenceMax = 65'536;
inline constexpr std::uint32_t kWindowExtra = 3;  ///< [CLS], [SEP], [SEP]

struct FileHeader {
  std::array<char, 8> magic = kFileMagic;
  std::uint32_t version = kFileVersion;
  std::uint32_t vocabulary = 0;
  std::uint32_t sequence = 0;
  std::uint32_t held_out_one_in = 0;
  std::uint64_t tokens = 0;
  std::uint64_t sentences = 0;
  std::uint64_t train_windows = 0;
  std::uint64_t held_out_windows = 0;
};

static_assert(sizeof(FileHeader) == 56 && std::is_trivially_copyable_v<FileHeader>);
static_assert(std::endian::native == std::endian::little, "prepared files are mapped, not parsed");

}  // namespace collab::data
