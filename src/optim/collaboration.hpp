#pragma once
// The user's object: one run on one node.

#include "base/duration.hpp"
#include "base/log.hpp"
#include "crypto/peer_id.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::node {
struct Manifest;
}

namespace collab::optim {

struct RunOptions {
  std::string run_id = {};
  /// "host:port", "ID@host:port" or a join link; empty: run book, contacts, LAN
  std::vector<std::string> bootstrap = {};
  std::filesystem::path home = {};        ///< key, contacts, checkpoints; empty: ~/.local/share/collab/<run>
  std::string name = {};                  ///< shown to others; empty: from the peer id
  std::filesystem::path token = {};       ///< file with a token, when the run admits by token; empty: `home`/token
  std::filesystem::path allow_list = {};  ///< ids to admit here, when the run admits by list; empty: others enforce it
  std::string listen = {};                ///< "host:port"; empty: [::]:4600, or the next port that is free
  /// `[USER:PASSWORD@]HOST:PORT` of an HTTP proxy for all dials; "off": none; empty: https_proxy in the environment.
  /// Without `listen` a peer behind one is a client.
  std::string proxy = {};
  std::string interface = {};            ///< all its connections use that network interface; empty: any
  std::uint16_t wss_port = 0;            ///< listen for WebSockets too, 443 as a rule; 0: do not
  bool client = false;                   ///< never be dialled, even if it were possible
  std::string role = {};                 ///< as others are told: "auxiliary", "monitor"; empty: "full", or "client"
  std::optional<PeerId> authority = {};  ///< pins the run's key; empty: the first key seen is pinned
  bool discover_lan = true;              ///< ask the local network when nothing else is known
  /// Done for peers that nobody can dial, once others can dial this one: "off", "signal" or "bulk".
  std::string relay = "signal";
  double relay_rate_mbit = 20;  ///< with "bulk": for each circuit that carries tensors; for all ten times as much
  /// What it takes of the line, all in all, what it relays for others included; 0: no limit. Less than half a Mbit/s
  /// carries too little for a peer to keep up.
  double limit_up_mbit = 0;
  double limit_down_mbit = 0;
  bool port_map = true;  ///< ask the home router to let others in, unless `listen` is loopback
  unsigned workers = 1;  ///< threads beside loop and trainer
  Duration join_patience = std::chrono::minutes(5);  ///< then start() gives up
  Duration leave_wait = std::chrono::seconds(10);    ///< a planned leave takes no longer, a last round included
  Log::Options log = {LogLevel::warn, {}, 5'000'000, 10, {}};
};

/// Something a user may want to know; told on the trainer's thread inside Optimizer::step.
struct Event {
  std::string type;  ///< peer.joined, round.committed, round.failed, epoch.caught_up, state.downloaded, samples.lost, …
  std::uint64_t epoch = 0;
  std::string text;  ///< for a person; may be empty
};

struct Progress {
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;  ///< gathered by everybody for this epoch
  std::uint64_t target_batch = 0;
  std::uint64_t own_samples = 0;
  std::uint64_t peers = 0;    ///< current ones, this one included when it computes
  double eta_s = 0;           ///< until the next step; infinite: unknown
  double loss = 0;            ///< mean over current peers; NaN: unknown
  double up_bytes_per_s = 0;  ///< over the last seconds
  double down_bytes_per_s = 0;
  std::string reachability;  ///< "open", "mapped", "outbound only", "unknown"
  std::string path;          ///< how its own dials travel: "tcp", "wss through a proxy"; empty: it has none
};

/// Identity, connections and loop thread of one run. The constructor does no network I/O.
class Collaboration {
 public:
  explicit Collaboration(RunOptions options);
  /// A planned leave, at most `leave_wait`.
  ~Collaboration();
  Collaboration(const Collaboration&) = delete;
  Collaboration& operator=(const Collaboration&) = delete;

  /// Finds the run, checks and pins its manifest. The first Optimizer does it when nobody has. `waiting` is called
  /// about once a second with what is being tried; returning false gives up. Throws `Failure` with cause and remedy:
  /// `unreachable`, `not_admitted`, `incompatible`, `machine`.
  void start(std::function<bool(const std::string& what)> waiting = {});
  bool started() const noexcept;
  /// After start(). What it says: node/manifest.hpp.
  const node::Manifest& manifest() const;
  /// Leaves as planned: announces, stops. What is in hand counts only after Optimizer::finish(). Any thread; again:
  /// nothing.
  void leave();
  /// Any thread.
  Progress progress() const;
  void on_event(std::function<void(const Event&)> callback);
  std::string name() const;
  PeerId id() const;
  const std::filesystem::path& home() const;

  /// What the optimizer, programs and tests need of the node. Not for user loops.
  struct Parts;
  Parts& parts();

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace collab::optim
