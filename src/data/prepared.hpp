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
/// A longer sentence is cut into pieces of that length, each a window without a border inside; its last piece begins
/// the next window. As many windows as possible have two sentences or more. Views into the mapped file: they end with
/// it.
struct Window {
  std::span<const std::uint32_t> tokens;
  std::span<const std::uint32_t> sentence_ends;  ///< index behind the last token of each sentence, rising
};

enum class Part { train, held_out };

struct PrepareOptions {
  std::uint32_t sequence = 64;         ///< tokens of a sample, specials included; 8 to 65,536
  std::uint32_t held_out_one_in = 10;  ///< documents whose hash modulo this is 0 are held out; 0: none
};

/// Immutable; thread-safe.
class Prepared {
 public:
  /// Tokenizes, cuts windows and writes `file` (temp file, fsync, rename). Equal input, equal bytes.
  /// Throws `Failure(usage)` for options out of bounds, `Failure(data)` when no window is left to train on or all
  /// documents would be held out, `Failure(machine)` when the disk is full.
  static void write(const std::filesystem::path& file, std::span<const Document> documents, const Tokenizer&,
                    const PrepareOptions&);
  /// Maps `file`, which must not be changed in place afterwards (`write` replaces it). Reads it once, all of it: the
  /// hash and every bound are checked here, so that a file from a stranger can do no harm later.
  /// Throws `Failure(data)` when it is missing, damaged or of another version.
  static Prepared open(const std::filesystem::path& file);

  ~Prepared();
  Prepared(Prepared&&) noexcept;
  Prepared& operator=(Prepared&&) noexcept;

  std::uint64_t windows(Part) const noexcept;  ///< > 0 for `train`; few documents may leave `held_out` empty
  Window window(Part, std::uint64_t index) const;
  std::uint32_t sequence() const noexcept;
  std::uint32_t vocabulary() const noexcept;
  /// Occurrences of each id in the part's windows, by id: the unigram baseline needs both parts.
  std::vector<std::uint64_t> counts(Part) const;
  /// Of everything the file says: what the manifest names, so that all peers train on the same samples.
  const Digest& hash() const noexcept;

 private:
  struct Mapping;
  explicit Prepared(std::unique_ptr<Mapping>);
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace collab::data
