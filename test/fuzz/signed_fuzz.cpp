// Signed statements come from strangers: any bytes decode or are refused, one statement has exactly one encoding, and
// no signature fits that nobody made.
#include "crypto/signed.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstdlib>

namespace collab::fuzz::signed_target {

COLLAB_FUZZ_TARGET(signed) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto statement = decode_signed(bytes);
  if (!statement) return 0;
  if (!std::ranges::equal(encode(*statement), bytes)) std::abort();
  if (verify(*statement, "another-run")) std::abort();  // the corpus is signed for "run"
  return 0;
}

}  // namespace collab::fuzz::signed_target
