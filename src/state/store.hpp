#pragma once
// What this node gives to joiners: snapshots of its state, results of the last rounds, files of the run; and what it
// has so far of a snapshot that it fetches itself.

#include "base/log.hpp"
#include "base/signal.hpp"
#include "net/endpoint.hpp"
#include "state/offer.hpp"
#include "state/pass_on.hpp"
#include "state/result_keeper.hpp"
#include "state/wire.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace collab::state {

struct StoreOptions {
  std::size_t downloads_max = 4;  ///< peers that fetch snapshots or files at a time; more are `busy`
  std::size_t catch_ups_max = 8;  ///< the same for results, so that joiners never delay who is 1 behind
  Duration place_idle = std::chrono::milliseconds(100);  ///< who asks for nothing so long, and is sent nothing, goes
  Duration busy_pause = std::chrono::milliseconds(200);  ///< until who was `busy` may ask again
  Duration idle = std::chrono::seconds(5);       ///< what nobody asked for so long may go, when there is too much
  Duration join_time = std::chrono::seconds(3);  ///< from a joiner's last chunk until it takes part
  Duration lease = std::chrono::seconds(30);     ///< a snapshot is kept so long after its last chunk was fetched
  std::size_t snapshots_max = 2;                 ///< kept at a time; then the oldest goes, unless it is being fetched
  std::size_t snapshot_bytes_max = 64U << 20U;   ///< more snapshots may be kept while all of them have fewer bytes
  std::size_t result_bytes_max = 16U << 20U;     ///< of the last results, but at least 2 epochs
  std::size_t files_max = 16;                    ///< of the run
  Duration wait_max = std::chrono::seconds(60);  ///< for an epoch that is not reached yet
  std::size_t wishes_max = 16;                   ///< things not ready yet that somebody waits for,
  std::size_t first_groups_max = 4;              ///< of them results of first groups
  PassOnOptions pass_on = {};
};

/// Registers `state.index`, `state.chunk`, `state.have` and `state.pass`. A snapshot is taken only when somebody asks,
/// once per epoch, and hashed on `workers`. Memory: `snapshots_max` states or `snapshot_bytes_max`, one that it
/// fetched, and the results with that of the last first group, twice those that were asked for. Thread safety: none;
/// belongs to the node's loop. Outlives the endpoint's service of its methods.
class Store {
 public:
  /// A copy of the state at the begin of `epoch`; another epoch or a refusal when training has moved on. Called from
  /// `run()`, one call at a time.
  using Source = std::function<Task<Result<std::shared_ptr<const Snapshot>>>(std::uint64_t epoch)>;

  /// `net`, `clock` and `log` outlive it. A node that holds no state gives a source that answers `gone`.
  Store(net::Endpoint& net, Clock& clock, asio::any_io_executor loop, asio::any_io_executor workers, Log& log,
        Source source, StoreOptions options = {});

  /// Takes and hashes what is asked for, and lets go of what nobody fetches any more. Until cancelled.
  Task<> run();

  /// The state is now that of `epoch`: who waits for it is served, who asks for an older one is told.
  void advance(std::uint64_t epoch);
  std::uint64_t epoch() const noexcept { return epoch_; }

  /// `result`: what the round of `epoch` committed.
  void keep_result(std::uint64_t epoch, KeptResult result);
  const ResultKeeper& results() const noexcept { return results_; }
  /// `result`: what the first group of a pass with that topic committed in `epoch`. The last one, until the state is
  /// past it.
  void keep_first_group(std::uint64_t epoch, const Digest& topic, KeptResult result);

  /// Offers a file of the run under `name`, for as long as the store lives; hashes it on `workers` first.
  /// Throws `Failure` when it cannot be read, or is larger than kIndexedBytesMax. Errors: `busy` when there are
  /// `files_max` already.
  Task<Result<>> add_file(Digest name, std::filesystem::path file);

  std::size_t snapshots_kept() const noexcept;
  /// Whether somebody is fetching a snapshot here to take part: one that gives on what it has.
  bool somebody_joins() const;

  /// What this node fetches: given to others from now on, chunk by chunk, and for `lease` after its end. One at a time:
  /// the one before goes.
  void share(Offer offer);
  /// Chunk `chunk` of it is there.
  void share_chunk(const Digest& root, std::size_t chunk);
  void share_no_more(const Digest& root);
  /// Who fetches the same, as far as they asked this node.
  std::vector<PeerId> sharers(const Digest& root) const;

 private:
  struct Key {
    wire::Kind kind = wire::Kind::snapshot;
    std::uint64_t epoch = 0;
    Digest name{};
    auto operator<=>(const Key&) const = default;
  };
  struct Kept {
    std::shared_ptr<const Offer> offer;
    TimePoint used{};
  };
  struct FirstGroup {
    Key key;
    KeptResult result;
  };
  struct Wish {
    Key key;
    std::optional<Refusal> refusal;  // set by run()
  };
  /// Of one who is served: as long as something is on its way to it, and some time after its last question.
  struct Place {
    TimePoint asked{};
    std::weak_ptr<const void> sending;
  };
  using Places = std::map<PeerId, Place>;
  using Refused = std::optional<Refusal>;

  Task<net::Answer> give_index(PeerId from, Frame request, TimePoint deadline);
  Task<net::Answer> give_chunk(PeerId from, Frame request);
  Task<net::Answer> give_have(PeerId from, Frame request, TimePoint deadline);
  Task<boost::system::result<const Offer*, Refusal>> wait_for(Key key, TimePoint until, TimePoint deadline);
  Refused take_place(const PeerId& peer, wire::Kind kind);
  Frame send_in_place(const PeerId& peer, wire::Kind kind, Frame frame);
  void note_sharer(const Digest& root, const PeerId& peer);
  std::vector<PeerId> sharers_but(const Digest& root, const PeerId& asker) const;
  const KeptResult* result(const Key& key) const;
  bool is_ahead(const Key& key) const;
  void forget_offers(const std::function<bool(const Key&)>& which);
  Refused cannot_have(const Key& key) const;
  Refusal not_reached(const Key& key) const;
  std::shared_ptr<Wish> wish(const Key& key);
  std::shared_ptr<Wish> next_wish();
  Task<> grant(std::shared_ptr<Wish> wish);
  Task<boost::system::result<std::shared_ptr<const Offer>, Refusal>> make(Key key);
  Refused make_room();
  TimePoint tidy();

  Clock& clock_;
  PassOn pass_on_;
  asio::any_io_executor workers_;
  Log& log_;
  Source source_;
  StoreOptions options_;
  std::uint64_t epoch_ = 0;
  ResultKeeper results_;
  std::optional<FirstGroup> first_group_;
  std::map<Key, Kept> kept_;
  std::map<Digest, Key> by_root_;
  std::vector<std::weak_ptr<Wish>> wishes_;  // each is kept alive by those who wait for it
  std::optional<Key> making_;
  std::optional<Offer> fetched_;  // what this node fetches, or has fetched lately
  TimePoint fetched_used_{};
  std::map<Digest, std::map<PeerId, TimePoint>> sharers_;  // by root, when they asked last
  Places downloads_;
  Places catch_ups_;
  Signal changed_;
};

}  // namespace collab::state
