#pragma once
// sentencepiece behind our own words; tokenizer.cpp alone includes it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace collab::data {

/// Ids of the pieces that are no text.
enum class SpecialPiece : std::uint32_t { pad = 0, unknown = 1, cls = 2, sep = 3, mask = 4 };
inline constexpr std::uint32_t kSpecialPieces = 5;
inline constexpr std::uint32_t kVocabularyMax = 1U << 20U;

/// A unigram model (sentencepiece, NFKC). Immutable; thread-safe.
class Tokenizer {
 public:
  /// Trains on `sentences`. One thread, so the same sentences give the same bytes. `vocabulary` is an upper bound that
  /// small texts do not reach: then the largest possible is taken. Silent.
  /// Throws `Failure(data)` when the text is too small, has more letters than `vocabulary`, or sentencepiece refuses
  /// it.
  static Tokenizer train(std::span<const std::string> sentences, std::uint32_t vocabulary);
  /// Throw `Failure(data)` when the file is missing or damaged, or its special pieces are others than ours. Bytes from
  /// strangers are compared with the hash in the manifest first: sentencepiece checks little.
  static Tokenizer load(const std::filesystem::path& file);
  static Tokenizer from_bytes(std::string model);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Ids of the pieces of `text`, without [CLS] and [SEP]: those of transformers' AlbertTokenizer on this model with
  /// `keep_accents = true`, `do_lower_case = false`.
  std::vector<std::uint32_t> encode(std::string_view text) const;
  std::uint32_t vocabulary() const;
  /// The model file (`spiece.model`) as sentencepiece writes it.
  const std::string& bytes() const;

 private:
  struct Model;
  explicit Tokenizer(std::unique_ptr<Model>);
  std::unique_ptr<Model> model_;
};

}  // namespace collab::data
