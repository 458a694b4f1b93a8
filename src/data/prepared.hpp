#pragma once
// Tokenized text in one file, mapped into memory: what samples are cut from.

#include "crypto/hash.hpp"
#include "data/text.hpp"
#include "data/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace collab::data {

/// A run of whole sentences of one document: at most `sequence - 3` tokens ([CLS] a [SEP] b [SEP] is added later).
/// A single sentence that is longer is cut. Views into the mapped file.
struct Window {
  std::span<const std::uint32_t> tokens;
  std::span<const std::uint32_t> sentence_ends;  ///< index behind the last token of each sentence, rising
};

enum class Part { train, held_out };

struct PrepareOptions {
  std::uint32_t sequence = 64;         ///< tokens of a sample, specials included
  std::uint32_t held_out_one_in = 10;  ///< documents whose hash modulo this is 0 are held out
};

/// Immutable; thread-safe.
class Prepared {
 public:
  /// Tokenizes, cuts windows and writes `file` (temp file, fsync, rename).
  /// Throws `Failure(data)` when no window comes out of either part, `Failure(machine)` when the disk is full.
  static void write(const std::filesystem::path& file, std::span<const Document> documents, const Tokenizer&,
                    const PrepareOptions&);
  /// Maps `file`. Throws `Failure(data)` when it is missing or damaged.
  static Prepared open(const std::filesystem::path& file);

  ~Prepared();
  Prepared(Prepared&&) noexcept;
  Prepared& operator=(Prepared&&) noexcept;

  std::uint64_t windows(Part) const noexcept;  ///< > 0 for `train`
  Window window(Part, std::uint64_t index) const;
  std::uint32_t sequence() const noexcept;
  std::uint32_t vocabulary() const noexcept;
  /// Occurrences of each id in the part's windows, by id: the unigram baseline needs both parts.
  std::vector<std::uint64_t> counts(Part) const;
  /// Hash of the whole file: what the manifest names, so that all peers train on the same samples.
  const Digest& hash() const noexcept;

 private:
  struct Mapping;
  explicit Prepared(std::unique_ptr<Mapping>);
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace collab::data
