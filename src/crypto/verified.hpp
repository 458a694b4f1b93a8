#pragma once
// A verification costs 0.1 ms, and many nodes of one process read the same statements.

#include "crypto/hash.hpp"
#include "crypto/signed.hpp"

#include <cstddef>
#include <cstring>
#include <string_view>
#include <unordered_set>

namespace collab {

/// Remembers which statements were genuine, by a hash of all that a signature covers and of the signature itself, so it
/// answers what `verify` answers. What is not genuine is looked at each time. Thread safety: none; for the nodes of one
/// loop.
class VerifiedStatements {
 public:
  /// Remembers at least the last `count` of them, and at most twice as many. 0: none, for a scheme that verifies as
  /// fast as anything is found again. `scheme` outlives it.
  explicit VerifiedStatements(std::size_t count = 50'000, const SignatureScheme& scheme = ed25519())
      : count_(count), scheme_(scheme) {}

  /// `statement`: encoded, as signed.hpp says. Errors: those of `decode_signed` and of `verify`.
  Result<> verify(std::span<const std::byte> statement, std::string_view run_id);

 private:
  Result<> look_at(std::span<const std::byte> statement, std::string_view run_id) const;
  Result<> recall(std::span<const std::byte> statement, std::string_view run_id);

  std::size_t count_;
  const SignatureScheme& scheme_;
  struct Start {  ///< of a digest: as good as a hash of it
    std::size_t operator()(const Digest& digest) const noexcept {
      std::size_t start = 0;
      std::memcpy(&start, digest.data(), sizeof start);
      return start;
    }
  };
  using Digests = std::unordered_set<Digest, Start>;
  Digests recent_;
  Digests older_;
};

}  // namespace collab
