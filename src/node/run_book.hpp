#pragma once
// The user's run book, runs.toml: where the runs are that this machine has been to, and whose they are.
//
//   [sahajbert]
//   addresses = ["ID@host:4600", "host2:4600"]
//   authority = "…"                              # optional: pins the key

#include "node/run_name.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace collab::node {

struct RunBookEntry {
  std::vector<PeerAddress> addresses;  ///< 1 to kLinkAddressesMax
  std::optional<PeerId> authority;
  bool operator==(const RunBookEntry&) const = default;
};

using RunBook = std::map<std::string, RunBookEntry, std::less<>>;  ///< by run id

/// The machine's, then the user's own, which is also the one that is written. `variable`: std::getenv, or a test's.
std::vector<std::filesystem::path> run_book_files(const std::function<const char*(const char*)>& variable);

/// All entries; of two for one run that of the later file counts. A file that is not there is empty.
/// Throws `Failure(usage)`, naming file and line, when one is damaged.
RunBook read_run_book(const std::vector<std::filesystem::path>& files);

/// Adds the entry at the end of `file` unless the run is in it already; what the user wrote stays as it is. True when
/// it was added. Throws as reading, and `Failure(machine)` when it cannot be written. Two processes that add different
/// runs at the same moment may lose one of the two entries, never the file.
bool remember_run(const std::filesystem::path& file, const std::string& run_id, const RunBookEntry& entry);

}  // namespace collab::node
