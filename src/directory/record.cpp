#include "directory/record.hpp"

#include "crypto/fields.hpp"
#include "crypto/signed.hpp"
#include "directory/lease_record.hpp"

#include <cassert>
#include <utility>

namespace collab::directory {
namespace {

constexpr std::size_t kLengthsBytes = 3 + 4;  // of three texts and a blob

bool within_sizes(const SignedRecord& signed_record) {
  const Record& record = signed_record.record;
  return signed_record.run.size() <= kRunIdBytesMax && record.key.size() <= kKeyBytesMax &&
         record.subkey.size() <= kSubkeyBytesMax && record.value.size() <= kValueBytesMax;
}

bool only_the_authority_writes(std::string_view key) {
  return key == kBanKey || key == kManifestKey;
}

/// What the signature covers. The run is in the payload too, so that a foreign one can be told from a forgery.
Signed statement_of(const SignedRecord& signed_record) {
  const Record& record = signed_record.record;
  Signed statement;
  statement.domain = Domain::record;
  statement.signer = record.owner;
  statement.sequence = record.sequence;
  statement.expires_ms = record.expires_ms;
  FieldWriter fields(kLengthsBytes + signed_record.run.size() + record.key.size() + record.subkey.size() +
                     record.value.size());
  fields.add_text(signed_record.run).add_text(record.key).add_text(record.subkey).add_blob(record.value);
  statement.payload = fields.finish();
  statement.signature = signed_record.signature;
  return statement;
}

}  // namespace

SignedRecord sign_record(const Identity& owner, std::string run, Record draft) {
  SignedRecord signed_record;
  signed_record.record = std::move(draft);
  signed_record.record.owner = owner.id();
  signed_record.run = std::move(run);
  assert(within_sizes(signed_record));
  signed_record.signature = sign(owner, signed_record.run, statement_of(signed_record)).signature;
  return signed_record;
}

Bytes encode(const SignedRecord& signed_record) {
  return collab::encode(statement_of(signed_record));
}

Result<RecordName> name_of(std::span<const std::byte> encoded) {
  const auto statement = view_signed(encoded);
  if (!statement) return statement.error();
  FieldReader fields(statement->payload);
  (void)fields.take_text();  // the run
  RecordName name;
  name.key = fields.take_text();
  name.owner = statement->signer;
  name.subkey = fields.take_text();
  (void)fields.take_blob();
  if (const auto whole = fields.finish(); !whole) return whole.error();
  return name;
}

Result<SignedRecord> decode_record(std::span<const std::byte> bytes) {
  if (bytes.size() > kRecordBytesMax) return Errc::bad_request;
  const auto statement = view_signed(bytes);
  if (!statement) return statement.error();
  if (statement->domain != Domain::record) return Errc::bad_request;

  SignedRecord signed_record;
  FieldReader fields(statement->payload);
  signed_record.run = fields.take_text();
  signed_record.record.key = fields.take_text();
  signed_record.record.subkey = fields.take_text();
  const auto value = fields.take_blob();
  if (const auto whole = fields.finish(); !whole) return whole.error();
  signed_record.record.value.assign(value.begin(), value.end());
  signed_record.record.owner = statement->signer;
  signed_record.record.sequence = statement->sequence;
  signed_record.record.expires_ms = statement->expires_ms;
  signed_record.signature = statement->signature;
  if (!within_sizes(signed_record)) return Errc::bad_request;
  return signed_record;
}

Verdict check_bounds(const SignedRecord& signed_record, const RecordRules& rules, std::int64_t now_ms) {
  const Record& record = signed_record.record;
  if (!within_sizes(signed_record)) return Refusal(Errc::bad_request, "too large");
  if (signed_record.run != rules.run) return Refusal(Errc::denied, "of another run");
  // compared without adding to what strangers sent: that could overflow
  if (record.expires_ms < now_ms - kExpiryBehindMsMax) return Refusal(Errc::stale, "expired");
  if (record.expires_ms > now_ms + kExpiryAheadMsMax && !only_the_authority_writes(record.key)) {
    return Refusal(Errc::bad_request, "expires too far in the future; is the clock right?");
  }
  return {};
}

Verdict check_authorship(const SignedRecord& signed_record, std::span<const std::byte> encoded,
                         const RecordRules& rules) {
  const bool genuine = rules.verified != nullptr ? rules.verified->verify(encoded, rules.run).has_value()
                                                 : verify(statement_of(signed_record), rules.run).has_value();
  if (!genuine) return Refusal(Errc::denied, "the signature does not fit");
  return check_policy(signed_record, rules);
}

Verdict check_policy(const SignedRecord& signed_record, const RecordRules& rules) {
  const Record& record = signed_record.record;
  if (only_the_authority_writes(record.key) && record.owner != rules.authority) {
    return Refusal(Errc::denied, "only the run's authority writes this key");
  }
  if (is_lease_key(record.key) && !record.value.empty() && !decode_lease(record.value)) {
    return Refusal(Errc::bad_request, "no lease");
  }
  return {};
}

}  // namespace collab::directory
