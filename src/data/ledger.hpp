#pragma once
// Which units of work the run has committed: part of the state, equal on all peers of one epoch.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/work.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace collab::data {

/// The section of a state snapshot that holds it.
inline constexpr std::string_view kLedgerSection = "ledger";
inline constexpr std::size_t kLedgerBytesMax = std::size_t(64) << 10U;
inline constexpr std::size_t kLedgerRangesMax = (kLedgerBytesMax - 20) / 16;

/// Grows by whole rounds, and by nothing else: equal rounds in equal order give equal bytes. Passes that are finished
/// melt into one range, so its size follows from the gaps alone, about one for each lease that is out.
class Ledger {
 public:
  struct Added {
    std::uint64_t units = 0;       ///< committed now
    std::uint64_t duplicates = 0;  ///< had been committed before: their samples were counted twice
    std::uint64_t skipped = 0;     ///< gaps that were closed to stay within `kLedgerRangesMax`, the smallest first
  };
  /// What a committed round was made of.
  Added add(const Work& work);

  const Work& committed() const noexcept { return committed_; }
  /// The lowest unit that is not committed: all before it are.
  std::uint64_t first_free() const noexcept;
  /// Of all rounds so far.
  std::uint64_t duplicates() const noexcept { return duplicates_; }
  std::uint64_t skipped() const noexcept { return skipped_; }

  /// One value has one encoding, of at most `kLedgerBytesMax`.
  Bytes canonical() const;
  /// From anybody's hands. Errors: `bad_request`.
  static Result<Ledger> decode(std::span<const std::byte> bytes);

  bool operator==(const Ledger&) const = default;

 private:
  Work committed_;
  std::uint64_t duplicates_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace collab::data
