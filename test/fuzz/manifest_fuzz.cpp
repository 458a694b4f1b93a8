// The run's manifest. The first byte is even: the rest is a signed statement from anywhere, which is refused, since
// nobody has the authority's key. Odd: the rest are the fields, signed by the authority, so that their reader is
// reached; what is accepted is in bounds and has exactly this encoding.
#include "node/manifest.hpp"
#include "support.hpp"

#include <cmath>
#include <limits>

namespace collab::fuzz::manifest_target {

constexpr std::string_view kRun = "demo";

const Identity& authority() {
  static const Identity identity = Identity::generate(Identity::Seed{7});
  return identity;
}

void check_fields(std::span<const std::byte> fields, std::uint64_t sequence) {
  Signed draft;
  draft.domain = Domain::manifest;
  draft.sequence = sequence;
  draft.expires_ms = std::numeric_limits<std::int64_t>::max();
  draft.payload.assign(fields.begin(), fields.end());
  const Signed statement = sign(authority(), kRun, std::move(draft));
  const fuzz::AllocationBound bound(16 * fields.size() + 65'536);
  const auto manifest = node::read_manifest(statement, kRun, authority().id());
  if (!manifest) {
    require(!manifest.error().reason.empty());
    return;
  }
  require(manifest->run_id == kRun && manifest->authority == authority().id() && manifest->sequence == sequence);
  require(manifest->recipe.size() <= node::kRecipeBytesMax && manifest->target_batch > 0);
  require(manifest->coordinators.size() <= node::kCoordinatorsMax && manifest->group_size_max <= 64);
  require(manifest->commit_fraction > 0 && manifest->commit_fraction <= 1);
  require(node::sign_manifest(authority(), *manifest) == statement);
}

COLLAB_FUZZ_TARGET(manifest) {
  fuzz::Input input(fuzz::bytes_of(data, size));
  if (input.number<std::uint8_t>() % 2 != 0) {
    const auto fields = input.rest().first(std::min(input.rest().size(), kSignedPayloadBytesMax));
    // the sequence is a field as well: the one behind run id and authority
    constexpr std::size_t before = 1 + kRun.size() + sizeof(PeerId);
    fuzz::Input numbers(fields.subspan(std::min(before, fields.size())));
    check_fields(fields, numbers.number<std::uint64_t>());
  } else if (const auto statement = decode_signed(input.rest())) {
    const auto manifest = node::read_manifest(*statement, kRun, std::nullopt);
    if (manifest) require(manifest->authority == statement->signer && manifest->run_id == kRun);
    require(!node::read_manifest(*statement, "another", std::nullopt));  // the corpus is signed for "demo"
  }
  return 0;
}

}  // namespace collab::fuzz::manifest_target
