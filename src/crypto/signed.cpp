#include "crypto/signed.hpp"

#include "crypto/fields.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

namespace collab {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"collab/record/v1",   "collab/token/v1",   "collab/ban/v1",
                                                    "collab/manifest/v1", "collab/voucher/v1", "collab/hold/v1",
                                                    "collab/post/v1"};
constexpr std::size_t kAround = 256;  // of bytes beside the payload, and more than enough

std::string_view full_name(Domain domain) {
  return kNames.at(static_cast<std::size_t>(domain));
}

SignedView view_of(const Signed& statement) {
  return {statement.domain,     statement.signer,  statement.sequence,
          statement.expires_ms, statement.payload, statement.signature};
}

bool within_bounds(const SignedView& statement, std::string_view run_id) {
  return static_cast<std::size_t>(statement.domain) < kNames.size() && run_id.size() <= kRunIdBytesMax &&
         statement.payload.size() <= kSignedPayloadBytesMax;
}

Bytes signed_bytes(const SignedView& statement, std::string_view run_id) {
  return FieldWriter(kAround + statement.payload.size())
      .add_text(full_name(statement.domain))
      .add_text(run_id)
      .add(statement.sequence)
      .add(static_cast<std::uint64_t>(statement.expires_ms))
      .add_blob(statement.payload)
      .finish();
}

}  // namespace

Signed sign(const Identity& signer, std::string_view run_id, Signed draft) {
  assert(within_bounds(view_of(draft), run_id));
  draft.signer = signer.id();
  draft.signature = signer.sign(signed_bytes(view_of(draft), run_id));
  return draft;
}

Result<> verify(const Signed& statement, std::string_view run_id, const SignatureScheme& scheme) {
  return verify(view_of(statement), run_id, scheme);
}

Result<> verify(const SignedView& statement, std::string_view run_id, const SignatureScheme& scheme) {
  if (!within_bounds(statement, run_id)) return Errc::bad_request;
  if (!scheme.verify(statement.signer, signed_bytes(statement, run_id), statement.signature)) return Errc::denied;
  return {};
}

Bytes encode(const Signed& statement) {
  return FieldWriter(kAround + statement.payload.size())
      .add_text(full_name(statement.domain))
      .add_raw(std::as_bytes(std::span(statement.signer.key)))
      .add(statement.sequence)
      .add(static_cast<std::uint64_t>(statement.expires_ms))
      .add_blob(statement.payload)
      .add_raw(std::as_bytes(std::span(statement.signature)))
      .finish();
}

Result<SignedView> view_signed(std::span<const std::byte> bytes) {
  SignedView statement;
  FieldReader fields(bytes);
  const auto domain = fields.take_text();
  const auto signer = fields.take_raw(statement.signer.key.size());
  statement.sequence = fields.take<std::uint64_t>();
  statement.expires_ms = static_cast<std::int64_t>(fields.take<std::uint64_t>());
  statement.payload = fields.take_blob();
  const auto signature = fields.take_raw(statement.signature.size());
  if (const auto whole = fields.finish(); !whole) return whole.error();
  if (statement.payload.size() > kSignedPayloadBytesMax) return Errc::bad_request;

  const auto known = std::find(kNames.begin(), kNames.end(), domain);
  if (known == kNames.end()) return Errc::bad_request;
  statement.domain = static_cast<Domain>(known - kNames.begin());
  std::memcpy(statement.signer.key.data(), signer.data(), signer.size());
  std::memcpy(statement.signature.data(), signature.data(), signature.size());
  return statement;
}

Result<Signed> decode_signed(std::span<const std::byte> bytes) {
  const auto view = view_signed(bytes);
  if (!view) return view.error();
  Signed statement;
  statement.domain = view->domain;
  statement.signer = view->signer;
  statement.sequence = view->sequence;
  statement.expires_ms = view->expires_ms;
  statement.payload.assign(view->payload.begin(), view->payload.end());
  statement.signature = view->signature;
  return statement;
}

}  // namespace collab
