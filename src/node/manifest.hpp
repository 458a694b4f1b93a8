#pragma once
// What a run is: signed by its authority, served by everyone, enough for a peer to configure itself.

#include "crypto/access.hpp"
#include "crypto/hash.hpp"
#include "crypto/signed.hpp"
#include "net/address.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::node {

inline constexpr std::size_t kRecipeBytesMax = 32 * 1024;
inline constexpr std::size_t kCoordinatorsMax = 16;
inline constexpr std::uint64_t kTargetBatchMax = 1ULL << 40U;

/// A node that founds or hosts: its id and where it can be dialled.
struct Contact {
  PeerId peer;
  std::vector<net::Address> addresses;
};

/// The comment of each field says when a change of it takes effect at peers that are already there.
struct Manifest {
  std::string run_id;                     ///< new run
  PeerId authority{};                     ///< new run; signs this. A run's name is (run id, authority)
  std::uint64_t sequence = 0;             ///< rises with every change; a lower one is refused
  std::string recipe;                     ///< new run; JSON of recipes/recipe.hpp: model, optimizer, schedule, data
  Digest schema{};                        ///< new run; of the gradients: names, types, shapes, roles, order
  std::uint64_t target_batch = 0;         ///< next epoch; samples that make one epoch of the whole run
  std::string codec = "float16";          ///< next epoch; of parts and results
  std::uint32_t group_size_max = 64;      ///< next epoch
  std::string grid = "auto";              ///< next start; of groups: "4x3", once peers fill it; auto: as peers come
  std::string mode = "synchronous";       ///< new run; what an epoch averages: node/mode.hpp
  double commit_fraction = 0.5;           ///< next epoch; a round below this part of the target batch fails
  Admission admission = Admission::open;  ///< now
  Digest tokenizer{};                     ///< new run; hash of spiece.model
  Digest data{};                          ///< new run; hash of the prepared text; zeros: every peer brings its own
  std::vector<Contact> coordinators;      ///< now
  std::uint32_t version_min = 1;          ///< now; of the protocol
  bool operator==(const Manifest& other) const;
};

/// Signed by `authority`, which is the manifest's. Fields: crypto/fields.hpp, in the order above.
Signed sign_manifest(const Identity& authority, const Manifest& manifest);
/// Errors: `denied` when it is not signed by the authority it names, or that is not `pinned`; `bad_request` when a
/// field is malformed or out of bounds; the reason says which.
boost::system::result<Manifest, Refusal> read_manifest(const Signed& statement, std::string_view run_id,
                                                       const std::optional<PeerId>& pinned);

/// The manifest that this home has seen last, so that a run's key stays pinned and its sequence never falls. Empty when
/// there is none. Throws `Failure(incompatible)` when the file is damaged.
std::optional<Signed> load_manifest(const std::filesystem::path& file);
/// Temp file, fsync, rename. Throws `Failure(machine)`.
void save_manifest(const std::filesystem::path& file, const Signed& statement);

}  // namespace collab::node
