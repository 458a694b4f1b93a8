#pragma once
// The run's manifest as one node has it: served to everyone, replaced when the authority signs a newer one.

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "crypto/identity.hpp"
#include "directory/directory.hpp"
#include "net/endpoint.hpp"
#include "node/manifest.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace collab::node {

/// The row of run.manifest: who asks needs it as well as who answers.
net::Method manifest_method();

using ManifestAnswer = boost::system::result<std::optional<Signed>, Refusal>;

/// Asks one peer; nothing: its manifest is no newer than `have`. Verifies no signature: that is for `read_manifest`.
/// Errors: those of `Endpoint::call`; `bad_request` for an answer that no correct peer gives.
Task<ManifestAnswer> fetch_manifest(net::Endpoint& endpoint, PeerId from, std::uint64_t have, TimePoint deadline);

/// Thread safety: none; belongs to the node's loop.
class ManifestKeeper {
 public:
  struct Options {
    std::filesystem::path file;                      ///< where the newest one is kept; empty: nowhere
    Duration ask_period = std::chrono::seconds(60);  ///< one connected peer at random is asked for a newer one
    Duration timeout = std::chrono::seconds(10);
    Duration record_ttl = std::chrono::seconds(60);  ///< of (sequence, hash) in the directory
  };
  struct Needs {
    net::Endpoint& endpoint;
    Clock& clock;
    Random random;
    Log& log;
    asio::any_io_executor loop;
    asio::any_io_executor workers;  ///< write the file
    std::function<std::vector<PeerId>()> connected;
  };

  /// `manifest` is what `statement` says. Registers run.manifest.
  ManifestKeeper(Needs needs, Signed statement, Manifest manifest, Options options);
  ManifestKeeper(const ManifestKeeper&) = delete;
  ManifestKeeper& operator=(const ManifestKeeper&) = delete;

  const Manifest& manifest() const noexcept { return manifest_; }
  const Signed& statement() const noexcept { return statement_; }
  /// Notified when `manifest()` is a newer one.
  Signal& changed() noexcept { return changed_; }

  /// Takes a newer one of the same authority; also how a coordinator changes its run. Errors: those of `read_manifest`;
  /// `stale` when it is not newer; `bad_request` when it changes what only a new run may change.
  Task<boost::system::result<void, Refusal>> offer(Signed statement);

  /// Notices that there is a newer one, by the directory and by asking. On the authority's own node also tells it to
  /// the directory. Until cancelled.
  Task<> run(directory::Directory& directory);

 private:
  net::Answer on_ask(const Frame& request) const;
  void publish(directory::Directory& directory) const;
  Task<> follow(directory::Directory& directory);
  Task<> ask_around();
  Task<bool> update_from(PeerId peer);

  Needs needs_;
  Options options_;
  Signed statement_;
  Manifest manifest_;
  Bytes encoded_;
  Signal changed_;
};

}  // namespace collab::node
