#include "crypto/token.hpp"

#include "base/text.hpp"
#include "crypto/fields.hpp"
#include "crypto/signed.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab {
namespace {

constexpr std::string_view kTextVersion = "collab-token-v1 ";
constexpr std::string_view kSpace = " \t\r\n";

class TokenCategory final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "token"; }

  std::string message(int value) const override {
    switch (static_cast<TokenErrc>(value)) {
      case TokenErrc::malformed: return "the token is malformed";
      case TokenErrc::lifetime: return "the token holds for longer than 7 days";
      case TokenErrc::other_run: return "the token is of another run";
      case TokenErrc::other_authority: return "the token is not of this run's authority";
      case TokenErrc::signature: return "the token's signature does not fit";
      case TokenErrc::other_peer: return "the token is for another peer";
      case TokenErrc::not_yet: return "the token does not hold yet";
      case TokenErrc::expired: return "the token has expired";
      case TokenErrc::revoked: return "the token was revoked";
    }
    return "the token does not help";
  }
};

/// Compared without adding to what strangers sent: that could overflow.
bool is_lifetime(std::int64_t from_ms, std::int64_t until_ms) {
  return from_ms >= 0 && until_ms > from_ms && until_ms - from_ms <= kTokenLifetimeMaxMs + kTokenSkewMs;
}

/// The run is in the payload too, so that a token of another one can be told from a forgery.
Signed statement_of(const Token& token) {
  Signed statement;
  statement.domain = Domain::token;
  statement.sequence = token.serial;
  statement.expires_ms = token.expires_ms;
  statement.payload = FieldWriter()
                          .add_text(token.run_id)
                          .add_raw(std::as_bytes(std::span(token.peer.key)))
                          .add(token.claims.bits())
                          .add(static_cast<std::uint64_t>(token.not_before_ms))
                          .finish();
  return statement;
}

}  // namespace

boost::system::error_code make_error_code(TokenErrc errc) noexcept {
  static const TokenCategory category;
  return {static_cast<int>(errc), category};
}

Bytes sign_token(const Identity& authority, const Token& token) {
  assert(!token.run_id.empty() && token.run_id.size() <= kRunIdBytesMax);
  assert(is_lifetime(token.not_before_ms, token.expires_ms));
  Bytes bytes = encode(sign(authority, token.run_id, statement_of(token)));
  assert(bytes.size() <= kTokenBytesMax);
  return bytes;
}

Result<Token> read_token(std::span<const std::byte> bytes, std::string_view run_id, const PeerId& authority) {
  if (bytes.size() > kTokenBytesMax) return TokenErrc::malformed;
  const auto statement = decode_signed(bytes);
  if (!statement || statement->domain != Domain::token) return TokenErrc::malformed;
  Token token;
  FieldReader fields(statement->payload);
  token.run_id = fields.take_text();
  const auto key = fields.take_raw(token.peer.key.size());
  const auto claims = Claims::of_bits(fields.take<std::uint8_t>());
  token.not_before_ms = static_cast<std::int64_t>(fields.take<std::uint64_t>());
  if (!fields.finish() || !claims) return TokenErrc::malformed;
  std::transform(key.begin(), key.end(), token.peer.key.begin(),
                 [](std::byte b) { return std::to_integer<unsigned char>(b); });
  token.claims = *claims;
  token.serial = statement->sequence;
  token.expires_ms = statement->expires_ms;
  if (!is_lifetime(token.not_before_ms, token.expires_ms)) return TokenErrc::lifetime;
  if (token.run_id != run_id) return TokenErrc::other_run;
  if (statement->signer != authority) return TokenErrc::other_authority;
  if (!verify(*statement, run_id)) return TokenErrc::signature;
  return token;
}

Result<> check_token(const Token& token, const PeerId& shown_by, std::int64_t now_ms) {
  if (token.peer != shown_by) return TokenErrc::other_peer;
  if (now_ms < token.not_before_ms) return TokenErrc::not_yet;
  if (now_ms >= token.expires_ms) return TokenErrc::expired;
  return {};
}

std::string token_text(std::span<const std::byte> token) {
  const std::span letters(reinterpret_cast<const unsigned char*>(token.data()), token.size());
  return std::string(kTextVersion) + to_base32(letters) + "\n";
}

Result<Bytes> parse_token_text(std::string_view text) {
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return TokenErrc::malformed;
  text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  if (!text.starts_with(kTextVersion)) return TokenErrc::malformed;
  const auto letters = from_base32(text.substr(kTextVersion.size()));
  if (!letters || letters->empty() || letters->size() > kTokenBytesMax) return TokenErrc::malformed;
  const auto bytes = std::as_bytes(std::span(*letters));
  return Bytes(bytes.begin(), bytes.end());
}

std::string to_string(Claims claims) {
  std::string text;
  for (const Claim claim : kEveryClaim)
    if (claims.has(claim)) text.append(text.empty() ? "" : " ").append(name(claim));
  return text;
}

}  // namespace collab
