#pragma once
// The commands about who may take part, the same in every program: keys, tokens, revocations, bans. They work on files,
// whether the program runs or not: one that runs with the same home hands bans on within seconds.

#include "crypto/identity.hpp"
#include "node/config.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace collab::cli {

/// Where things are, and what was said on the command line. Secrets are read from their files and never shown.
struct KeysRequest {
  std::string program;             ///< for remedies
  std::vector<std::string> words;  ///< after "keys" or "ban"
  std::string run_id;
  std::filesystem::path identity;   ///< the node's key
  std::filesystem::path authority;  ///< the run's
  std::filesystem::path manifest;   ///< when it is there, `authority` has to be its key
  std::filesystem::path bans;       ///< node/ban_file.hpp
  std::vector<std::string> claims;  ///< of a token; empty: all but to coordinate
  std::string length;               ///< "24h": of a token, at most 7 days, or of a ban
  std::string reason;               ///< of a ban or revocation, at most 200 bytes
  bool lift = false;                ///< a ban ends now
  std::int64_t now_ms = 0;          ///< Unix milliseconds
};

/// Fills in what follows from the options `claims`, `for` and `reason`, and the
/// clock. The paths are the program's.
KeysRequest keys_request(const node::Config& config, std::vector<std::string> words);

/// `create`, `show`, `token PEER`, `revoke SERIAL`. The token goes to stdout, one line, what it grants to stderr.
/// Returns an exit code, throws `Failure`.
int run_keys(const KeysRequest& request);
/// `PEER`. As `run_keys`.
int run_ban(const KeysRequest& request);

/// The run's authority as kept in `file`; it is not locked. Throws `Failure(usage)` when there is none.
Identity read_authority(const std::filesystem::path& file);

/// "90s", "30m", "24h", "7d" in milliseconds, 1 s to 10 years. Throws `Failure(usage)`.
std::int64_t parse_length(std::string_view text);

}  // namespace collab::cli
