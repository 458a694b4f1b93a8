#pragma once
// A signed, expiring fact under (run, key, owner, subkey).

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "crypto/identity.hpp"
#include "crypto/peer_id.hpp"
#include "crypto/verified.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace collab::directory {

inline constexpr std::size_t kKeyBytesMax = 128;
inline constexpr std::size_t kSubkeyBytesMax = 64;
inline constexpr std::size_t kValueBytesMax = 1024;
inline constexpr std::size_t kRecordBytesMax = 1500;          ///< a whole record with its signature, encoded
inline constexpr std::int64_t kExpiryBehindMsMax = 5'000;     ///< clocks differ: so long after its expiry it is taken
inline constexpr std::int64_t kExpiryAheadMsMax = 120'000;    ///< so that nothing outlives its owner for long
inline constexpr std::string_view kBanKey = "ban";            ///< written by the run's authority alone,
inline constexpr std::string_view kManifestKey = "manifest";  ///< as this one; both may hold for longer

/// As a reader sees it: the signature is checked, the policy of the key is kept, it has not expired.
struct Record {
  std::string key;
  PeerId owner;  ///< who signed it
  std::string subkey;
  std::uint64_t sequence = 0;   ///< of equal (key, owner, subkey) the greatest wins
  std::int64_t expires_ms = 0;  ///< Unix milliseconds
  Bytes value;                  ///< empty: its owner has withdrawn it, and readers do not see it
};

/// As it travels and is kept. Nothing in it is true before `check_authorship`.
struct SignedRecord {
  Record record;
  std::string run;
  Signature signature{};
};

/// What makes a record acceptable in one run.
struct RecordRules {
  std::string run;
  std::optional<PeerId> authority;         ///< may write `kBanKey` and `kManifestKey`; without one nobody may
  VerifiedStatements* verified = nullptr;  ///< of all nodes in this process; null: every signature is verified here
};

/// Nothing, or why not, with a text for the owner's user.
using Verdict = boost::system::result<void, Refusal>;

/// `draft`, signed: its owner becomes the signer. The sizes of `draft` and `run` are within the bounds above.
SignedRecord sign_record(const Identity& owner, std::string run, Record draft);

/// What a record is kept under, as views into the bytes or the record that it was read from.
struct RecordName {
  std::string_view key;
  PeerId owner;
  std::string_view subkey;
};
inline RecordName name_of(const Record& record) {
  return {record.key, record.owner, record.subkey};
}
/// Of an encoded record, by far cheaper than decoding it; nothing else in it is looked at. Errors: `bad_request`.
Result<RecordName> name_of(std::span<const std::byte> encoded);

/// One record has exactly one encoding.
Bytes encode(const SignedRecord&);
/// The inverse, from any bytes. Verifies sizes, nothing else. Errors: `bad_request`.
Result<SignedRecord> decode_record(std::span<const std::byte> bytes);

/// The first rules, cheap and in the specification's order: sizes, run, expiry against `now_ms` (Unix milliseconds).
/// Errors: `bad_request` (too large, or from the future), `denied` (another run), `stale` (expired).
Verdict check_bounds(const SignedRecord&, const RecordRules&, std::int64_t now_ms);
/// The last and dear ones: signature, then the key's policy. `encoded`: the same record. Errors: `denied`;
/// `bad_request` for a value that the key does not have.
Verdict check_authorship(const SignedRecord&, std::span<const std::byte> encoded, const RecordRules&);
/// The last of them alone, for what this node has signed itself.
Verdict check_policy(const SignedRecord&, const RecordRules&);

}  // namespace collab::directory
