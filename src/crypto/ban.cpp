#include "crypto/ban.hpp"

#include "base/text.hpp"
#include "crypto/fields.hpp"
#include "crypto/signed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab {
namespace {

constexpr std::uint8_t kPeer = 0;
constexpr std::uint8_t kToken = 1;

Bytes encode_fields(const Ban& ban) {
  FieldWriter fields;
  if (const auto* peer = std::get_if<PeerId>(&ban.target)) {
    fields.add(kPeer).add_raw(std::as_bytes(std::span(peer->key)));
  } else {
    fields.add(kToken).add(std::get<TokenSerial>(ban.target));
  }
  fields.add_text(ban.reason).add(static_cast<std::uint64_t>(ban.from_ms));
  return fields.finish();
}

}  // namespace

std::string target_name(const Ban& ban) {
  if (const auto* peer = std::get_if<PeerId>(&ban.target)) return "p" + to_hex(std::span(peer->key).first<16>());
  return fmt::format("t{:016x}", std::get<TokenSerial>(ban.target));
}

Bytes sign_ban(const Identity& authority, std::string_view run_id, const Ban& ban) {
  assert(ban.reason.size() <= kBanReasonBytesMax);
  Signed draft;
  draft.domain = Domain::ban;
  draft.sequence = ban.sequence;
  draft.expires_ms = ban.until_ms;
  draft.payload = encode_fields(ban);
  return encode(sign(authority, run_id, std::move(draft)));
}

Result<Ban> read_ban(std::span<const std::byte> bytes, std::string_view run_id, const PeerId& authority,
                     std::int64_t now_ms) {
  const auto statement = decode_signed(bytes);
  if (!statement || statement->domain != Domain::ban) return Errc::bad_request;
  Ban ban;
  FieldReader fields(statement->payload);
  const auto kind = fields.take<std::uint8_t>();
  if (kind == kPeer) {
    PeerId peer;
    const auto key = fields.take_raw(peer.key.size());
    std::transform(key.begin(), key.end(), peer.key.begin(),
                   [](std::byte b) { return std::to_integer<unsigned char>(b); });
    ban.target = peer;
  } else {
    ban.target = fields.take<TokenSerial>();
  }
  ban.reason = printable(fields.take_text());
  ban.from_ms = static_cast<std::int64_t>(fields.take<std::uint64_t>());
  ban.until_ms = statement->expires_ms;
  ban.sequence = statement->sequence;
  if (!fields.finish() || kind > kToken || ban.reason.size() > kBanReasonBytesMax) return Errc::bad_request;
  if (ban.until_ms <= ban.from_ms) return Errc::bad_request;
  if (statement->signer != authority || !verify(*statement, run_id)) return Errc::denied;
  if (ban.until_ms <= now_ms) return Errc::stale;
  return ban;
}

}  // namespace collab
