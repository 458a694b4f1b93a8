#include "crypto/token.hpp"

#include "base/text.hpp"
#include "crypto/ban.hpp"
#include "crypto/signed.hpp"
#include "unit/crypto/peers.hpp"

#include <limits>

#include "support/doctest.hpp"

namespace collab {
namespace {

const Identity& authority() {
  static const Identity identity = Identity::generate({9});
  return identity;
}

Token sample() {
  Token token;
  token.run_id = "run";
  token.peer = peer(3);
  token.claims = {Claim::join, Claim::contribute};
  token.serial = 77;
  token.not_before_ms = kNow;
  token.expires_ms = kNow + kTokenLifetimeMs;
  return token;
}

Ban sample_ban() {
  Ban ban;
  ban.target = peer(3);
  ban.reason = "sends nonsense";
  ban.from_ms = kNow;
  ban.until_ms = kNow + 1000;
  ban.sequence = 5;
  return ban;
}

}  // namespace

TEST_CASE("token: what was signed is read again, in the longest run too") {
  Token token = sample();
  CHECK(read_token(sign_token(authority(), token), "run", authority().id()) == token);
  token.run_id = std::string(kRunIdBytesMax, 'x');
  const Bytes bytes = sign_token(authority(), token);
  CHECK(bytes.size() <= kTokenBytesMax);
  CHECK(read_token(bytes, token.run_id, authority().id()) == token);
}

TEST_CASE("token: another run, another authority and a changed byte are refused, each by its name") {
  const Bytes bytes = sign_token(authority(), sample());
  CHECK(read_token(bytes, "other", authority().id()).error() == TokenErrc::other_run);
  CHECK(read_token(bytes, "run", peer(3)).error() == TokenErrc::other_authority);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes changed = bytes;
    changed[at] ^= std::byte(1);
    CAPTURE(at);
    CHECK_FALSE(read_token(changed, "run", authority().id()));
  }
  Bytes forged = bytes;
  forged.back() ^= std::byte(1);
  CHECK(read_token(forged, "run", authority().id()).error() == TokenErrc::signature);
  CHECK(read_token(sign_token(Identity::generate({3}), sample()), "run", authority().id()).error() ==
        TokenErrc::other_authority);
}

TEST_CASE("token: torn, longer or other statements are malformed") {
  const Bytes bytes = sign_token(authority(), sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto torn = read_token(std::span(bytes).first(size), "run", authority().id());
    CHECK(torn.error() == TokenErrc::malformed);
  }
  Bytes more = bytes;
  more.push_back(std::byte(0));
  CHECK(read_token(more, "run", authority().id()).error() == TokenErrc::malformed);
  CHECK(read_token(Bytes(kTokenBytesMax + 1), "run", authority().id()).error() == TokenErrc::malformed);
  CHECK(read_token(sign_ban(authority(), "run", sample_ban()), "run", authority().id()).error() ==
        TokenErrc::malformed);
}

TEST_CASE("token: none holds for longer than a week, whoever signed it") {
  const Token honest = sample();
  auto statement = decode_signed(sign_token(authority(), honest)).value();
  for (const std::int64_t expires :
       {kNow + kTokenLifetimeMaxMs + kTokenSkewMs + 1, std::numeric_limits<std::int64_t>::max(), kNow, std::int64_t(-1),
        std::numeric_limits<std::int64_t>::min()}) {
    statement.expires_ms = expires;
    const Bytes bytes = encode(sign(authority(), "run", statement));
    CHECK(read_token(bytes, "run", authority().id()).error() == TokenErrc::lifetime);
  }
  statement.expires_ms = kNow + kTokenLifetimeMaxMs + kTokenSkewMs;
  CHECK(read_token(encode(sign(authority(), "run", statement)), "run", authority().id()));
}

TEST_CASE("token: it helps its peer alone, from its first to its last millisecond") {
  const Token token = sample();
  CHECK(check_token(token, peer(3), kNow));
  CHECK(check_token(token, peer(3), token.expires_ms - 1));
  CHECK(check_token(token, peer(4), kNow).error() == TokenErrc::other_peer);
  CHECK(check_token(token, peer(3), kNow - 1).error() == TokenErrc::not_yet);
  CHECK(check_token(token, peer(3), token.expires_ms).error() == TokenErrc::expired);
}

TEST_CASE("token: one line of text is one token, and everything else none") {
  const Bytes bytes = sign_token(authority(), sample());
  const std::string text = token_text(bytes);
  CHECK(text.starts_with("collab-token-v1 "));
  CHECK(parse_token_text(text) == bytes);
  CHECK(parse_token_text("  \n" + text + "\r\n") == bytes);
  for (const std::string& bad : {std::string(), std::string(" \n"), std::string("collab-token-v1 "), "x" + text,
                                 text + text, text.substr(0, text.size() - 4) + "!!!!",
                                 std::string("collab-token-v2 aa"), "collab-token-v1 " + std::string(4000, 'a')}) {
    CAPTURE(bad);
    CHECK(parse_token_text(bad).error() == TokenErrc::malformed);
  }
}

TEST_CASE("token: every claim has a name, and a set of them one text") {
  for (const Claim claim : kEveryClaim) CHECK(claim_named(name(claim)) == claim);
  CHECK_FALSE(claim_named("everything"));
  CHECK(to_string(sample().claims) == "join contribute");
  CHECK_FALSE(Claims::of_bits(0x40));
  CHECK_FALSE(kMemberClaims.has(Claim::coordinate));
}

TEST_CASE("ban: what was signed is read again, of a peer and of a token") {
  Ban ban = sample_ban();
  CHECK(read_ban(sign_ban(authority(), "run", ban), "run", authority().id(), kNow) == ban);
  CHECK(target_name(ban).size() <= 64);
  const std::string of_peer = target_name(ban);
  ban.target = TokenSerial(77);
  ban.reason = std::string(kBanReasonBytesMax, 'x');
  CHECK(read_ban(sign_ban(authority(), "run", ban), "run", authority().id(), kNow) == ban);
  CHECK(target_name(ban) != of_peer);
}

TEST_CASE("ban: of somebody else, of another run, over, or malformed it is refused") {
  const Ban ban = sample_ban();
  const Bytes bytes = sign_ban(authority(), "run", ban);
  CHECK(read_ban(sign_ban(Identity::generate({3}), "run", ban), "run", authority().id(), kNow).error() == Errc::denied);
  CHECK(read_ban(bytes, "other", authority().id(), kNow).error() == Errc::denied);
  CHECK(read_ban(bytes, "run", authority().id(), ban.until_ms).error() == Errc::stale);
  CHECK(read_ban(sign_token(authority(), sample()), "run", authority().id(), kNow).error() == Errc::bad_request);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes changed = bytes;
    changed[at] ^= std::byte(1);
    CAPTURE(at);
    CHECK_FALSE(read_ban(changed, "run", authority().id(), kNow));
  }
  Ban empty = ban;
  empty.until_ms = empty.from_ms;
  CHECK(read_ban(sign_ban(authority(), "run", empty), "run", authority().id(), kNow).error() == Errc::bad_request);
}

TEST_CASE("ban: a reason does not reach a terminal as it is") {
  Ban ban = sample_ban();
  ban.reason = "\x1b[2Jgone";
  CHECK(read_ban(sign_ban(authority(), "run", ban), "run", authority().id(), kNow)->reason == "?[2Jgone");
}

}  // namespace collab
