#pragma once
// From a window of text to a sample with blanks to fill in: pure, so every peer that computes a unit computes the same.

#include "data/prepared.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace collab::jobs {

/// `[CLS] a [SEP] b [SEP]` with some tokens hidden, or `[CLS] a [SEP]` for a window of one sentence.
struct Sample {
  std::vector<std::uint32_t> tokens;  ///< as the model sees them
  std::uint32_t first_segment = 0;    ///< tokens up to and with the first [SEP]: type 0; the others are type 1
  std::vector<std::uint32_t> masked;  ///< places in `tokens` to be guessed, rising; empty when nothing is ordinary
  std::vector<std::uint32_t> labels;  ///< what really stands there
  std::optional<bool> swapped;        ///< sentence order: b stood before a in the text; empty for one sentence
};

/// Two halves: the window is split at the border between sentences that is nearest its middle, and the longer half is
/// cut, at a random end, to the length of the shorter, so that the place of [SEP] says nothing about their order.
/// Swapped with probability 1/2 (arXiv:1909.11942).
///
/// Blanks: max(1, round(0.15 n)) of the n tokens that are no special pieces, without repetition; of these 80 % become
/// [MASK], 10 % a random ordinary piece, 10 % stay (arXiv:1810.04805).
///
/// `window` has at least one token; `vocabulary` is above `kSpecialPieces`.
Sample make_sample(const data::Window& window, std::uint64_t seed, std::uint32_t vocabulary);

}  // namespace collab::jobs
