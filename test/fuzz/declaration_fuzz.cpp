// What peers that look for a group write into the directory: any bytes are refused, or are a declaration that is the
// same when written and read again.
#include "matchmaking/declaration.hpp"
#include "support.hpp"

namespace collab::fuzz::declaration_target {

COLLAB_FUZZ_TARGET(declaration) {
  using namespace matchmaking;
  const auto declaration = decode_declaration(fuzz::bytes_of(data, size));
  if (!declaration) return 0;
  fuzz::require(declaration->role <= Role::auxiliary);
  fuzz::require(declaration->role != Role::client || !declaration->reachable);
  fuzz::require(decode_declaration(encode(*declaration)).value() == *declaration);
  return 0;
}

}  // namespace collab::fuzz::declaration_target
