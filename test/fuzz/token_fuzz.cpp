// Tokens, their text, and bans come from strangers: what is accepted is to the byte what the authority signed, and an
// input that it did not sign is never accepted.
#include "crypto/ban.hpp"
#include "crypto/token.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstdlib>

namespace collab::fuzz::token_target {

void look_at(std::span<const std::byte> bytes) {
  static const Identity authority = Identity::generate({9});  // the corpus is signed by it, for "run"
  constexpr std::int64_t kNow = 1'790'000'000'000;
  if (const auto token = read_token(bytes, "run", authority.id())) {
    if (!std::ranges::equal(sign_token(authority, *token), bytes)) std::abort();
    if (read_token(bytes, "another-run", authority.id())) std::abort();
    if (check_token(*token, authority.id(), kNow) && token->peer != authority.id()) std::abort();
    const std::string text = token_text(bytes);
    const auto again = parse_token_text(text);
    if (!again || !std::ranges::equal(*again, bytes)) std::abort();
  }
  if (const auto ban = read_ban(bytes, "run", authority.id(), kNow)) {
    if (ban->until_ms <= kNow || read_ban(bytes, "another-run", authority.id(), kNow)) std::abort();
    if (target_name(*ban).size() > 64 || ban->reason.size() > kBanReasonBytesMax) std::abort();
  }
}

COLLAB_FUZZ_TARGET(token) {
  look_at(std::as_bytes(std::span(data, size)));
  const auto bytes = parse_token_text({reinterpret_cast<const char*>(data), size});
  if (bytes) look_at(*bytes);
  return 0;
}

}  // namespace collab::fuzz::token_target
