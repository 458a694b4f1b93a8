#pragma once
// Who may take part, as it changes while a node runs: the authority's bans, the own token, and whether the own node is
// still welcome. It decides nothing: what it learns goes to `Access`.

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/signal.hpp"
#include "crypto/access.hpp"
#include "directory/swarm_directory.hpp"
#include "net/peer_endpoint.hpp"
#include "node/token_file.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace collab::node {

/// Thread safety: none; belongs to the node's loop.
class AdmissionKeeper {
 public:
  struct Options {
    std::string run_id;
    PeerId authority{};
    std::filesystem::path token_file;                  ///< crypto/token.hpp as text; empty: none
    std::filesystem::path ban_file;                    ///< node/ban_file.hpp; empty: none
    Duration look_period = std::chrono::seconds(3);    ///< at both files
    Duration again_period = std::chrono::seconds(30);  ///< the file's bans are handed to the servers, which may be new
    Duration grace = std::chrono::seconds(4);          ///< for a new token after the old one's end; then the node ends
  };
  struct Needs {
    net::PeerEndpoint& endpoint;
    Access& access;
    Clock& clock;
    Log& log;
    asio::any_io_executor loop;
  };

  /// Looks at the token file, so that the first hello carries the token.
  AdmissionKeeper(const Needs& needs, Options options);

  /// Until cancelled.
  Task<> run(directory::SwarmDirectory& directory);

  /// Why this node has to end, once it has: it is banned, has no token that holds, or the run's own places refuse it.
  const std::optional<Failure>& dismissal() const noexcept { return dismissal_; }
  /// Notified when there is one.
  Signal& dismissed() noexcept { return dismissed_; }
  /// `why`: of Access, or another node's words. The first one counts.
  void dismiss(const std::string& why);

 private:
  void look_at_token();
  Task<> follow_token();
  Task<> follow_bans(directory::SwarmDirectory& directory);
  Task<> hand_on_bans(directory::SwarmDirectory& directory);
  Task<> mind_own_place();

  Needs needs_;
  Options options_;
  TokenFile token_;
  std::optional<Failure> dismissal_;
  Signal dismissed_;
};

}  // namespace collab::node
