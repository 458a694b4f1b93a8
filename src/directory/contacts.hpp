#pragma once
// Peers remembered beyond the lives of their records, for the day when every server one knew is gone.

#include "base/error.hpp"
#include "base/random.hpp"
#include "crypto/peer_id.hpp"
#include "net/address.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::directory {

inline constexpr std::size_t kContactHostBytesMax = 100;  ///< so that 32 contacts fit the header of an answer

struct Contact {
  PeerId id;
  std::vector<net::Address> addresses;  ///< at most 8
  std::int64_t seen_ms = 0;             ///< Unix milliseconds when somebody last had its record
  bool operator==(const Contact&) const = default;
};

/// Thread safety: none; belongs to the node's loop.
class Contacts {
 public:
  explicit Contacts(std::size_t contacts_max = 256) : contacts_max_(contacts_max) {}

  /// Adds or renews one; what was seen later wins. When full, the one not seen for longest goes. Hosts
  /// that are too long or names, and addresses after the eighth are dropped, a contact without address is useless and
  /// ignored, a time after `now_ms` becomes `now_ms`.
  void saw(Contact contact, std::int64_t now_ms);
  /// The same for what another peer told: it neither replaces nor displaces what this one has seen.
  void heard(Contact contact, std::int64_t now_ms);
  bool knows(const PeerId& peer) const { return contacts_.contains(peer); }
  /// Up to `count` different ones.
  std::vector<Contact> pick(std::size_t count, Random& random) const;
  /// Sorted by id.
  std::vector<Contact> all() const;
  std::size_t size() const noexcept { return contacts_.size(); }

  /// The file's text: a version line, one line a contact, and a last line with a checksum.
  std::string text() const;
  /// Errors: `bad_request` for a torn, altered or unknown file.
  static Result<std::vector<Contact>> parse(std::string_view text);

 private:
  struct Entry {
    Contact contact;
    bool seen = false;  ///< by this peer
  };
  void keep(Contact contact, std::int64_t now_ms, bool seen);

  std::size_t contacts_max_;
  std::map<PeerId, Entry> contacts_;
};

/// Reads `file` into `contacts`. A damaged one is renamed to `<file>.damaged`, so that the node starts all the same.
/// Returns a sentence for the user when something was wrong; no file at all is not. `write_file` of `text()` keeps
/// them. Throws `Failure(machine)` when the file is there and cannot be read.
std::optional<std::string> load_contacts(const std::filesystem::path& file, Contacts& contacts, std::int64_t now_ms);

}  // namespace collab::directory
