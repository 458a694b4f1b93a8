#pragma once
// Statements that travel through strangers: who said what, in which run, how recently, and until when it holds.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "crypto/identity.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace collab {

/// What a signature is for: one given for one purpose never passes for another. Part of the signed bytes as
/// "collab/<name>/v1".
enum class Domain : std::uint8_t { record, token, ban, manifest, voucher, hold, post };

inline constexpr std::size_t kSignedPayloadBytesMax = std::size_t(64) << 10U;  ///< a manifest
inline constexpr std::size_t kRunIdBytesMax = 64;

/// The signature covers every field, and the run it was made for.
struct Signed {
  Domain domain = Domain::record;
  PeerId signer{};
  std::uint64_t sequence = 0;   ///< of two statements about one thing the greater is the newer
  std::int64_t expires_ms = 0;  ///< milliseconds since 1970, in swarm time
  Bytes payload;                ///< fields in fixed order (crypto/fields.hpp), never msgpack
  Signature signature{};
  bool operator==(const Signed&) const = default;
};

/// The draft with `signer` and `signature` filled in. Its payload: at most `kSignedPayloadBytesMax`; `run_id`: at most
/// `kRunIdBytesMax`.
Signed sign(const Identity& signer, std::string_view run_id, Signed draft);

/// Whether the signer made this statement, for this run. Says nothing about its age: compare `expires_ms` with swarm
/// time. Errors: `bad_request` for sizes out of bounds, `denied` for a signature that does not fit.
Result<> verify(const Signed& statement, std::string_view run_id, const SignatureScheme& scheme = ed25519());

/// A statement in the bytes that it was read from.
struct SignedView {
  Domain domain = Domain::record;
  PeerId signer{};
  std::uint64_t sequence = 0;
  std::int64_t expires_ms = 0;
  std::span<const std::byte> payload;
  Signature signature{};
};
Result<> verify(const SignedView& statement, std::string_view run_id, const SignatureScheme& scheme = ed25519());

/// For a file or another peer's hands: u8 n | domain | signer | u64 sequence | u64 expires_ms | u32 k | payload |
/// signature. One statement has exactly one encoding.
Bytes encode(const Signed& statement);
/// The inverse; verifies no signature. Errors: `bad_request`.
Result<Signed> decode_signed(std::span<const std::byte> bytes);

/// The same without a copy of the payload.
Result<SignedView> view_signed(std::span<const std::byte> bytes);

}  // namespace collab
