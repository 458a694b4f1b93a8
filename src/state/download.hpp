#pragma once
// Fetching a state, a result or a file from several donors at once.

#include "state/fetch.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace collab::state {

/// What a joiner asks for. Donors are peers whose progress records name `epoch` and `parameters`.
struct WantedState {
  std::uint64_t epoch = 0;
  std::optional<Digest> root;        ///< when it is known; else the one that most donors show
  std::optional<Digest> parameters;  ///< `parameter_hash` of the majority's signed records: must be in the index
  std::optional<Digest> ledger;      ///< the same of `content_hash` of section "ledger"
  std::uint64_t bytes_max = std::uint64_t(2) << 30U;  ///< an index that names more is not believed
  Duration wait = std::chrono::seconds(3);  ///< how long donors may wait until they reach `epoch`; at most 60 s
  std::shared_ptr<const Snapshot> have;     ///< what we hold ourselves: equal chunks are not fetched; may be null
  std::filesystem::path folder;             ///< of this download alone: finished chunks are kept there; empty: nowhere
  TimePoint deadline{};
};

/// A whole snapshot of that epoch: every byte is of a chunk named by the index that most donors show.
/// Errors: see Fetch::run; what to ask for after one tells EpochInstead. Throws `Failure(machine)` when the
/// folder cannot be written. Cancelling it leaves the finished chunks in the folder.
Task<boost::system::result<Snapshot, Refusal>> download(Context context, WantedState wanted, std::vector<PeerId> donors,
                                                        OnProgress on_progress, FetchOptions options = {});

/// The same, and what has come is given on by `store` from the first chunk on, also after the end: when many come at
/// once, the lines of the donors alone would take as many times longer.
Task<boost::system::result<std::shared_ptr<const Snapshot>, Refusal>> download_and_share(Context context, Store& store,
                                                                                         WantedState wanted,
                                                                                         std::vector<PeerId> donors,
                                                                                         OnProgress on_progress,
                                                                                         FetchOptions options = {});

/// Which epoch to ask for when the state of another one is refused.
class EpochInstead {
 public:
  /// That of the donors, wherever they are. Epochs are of a blink when theirs was over before the question arrived, or
  /// two ended while one was asked for: then the one after theirs, for which they wait; but not beyond `last`, which
  /// ends the run. None: the refusal does not tell, look at the swarm.
  std::optional<std::uint64_t> after(const Refusal& refusal, std::uint64_t asked, std::uint64_t last);

 private:
  std::optional<std::uint64_t> theirs_;  ///< as they said last, when they were past what was asked for
  bool of_a_blink_ = false;
};

struct WantedResult {
  std::uint64_t epoch = 0;
  std::optional<Digest> first_group;  ///< what that one committed, by its topic, not what the epoch ended with
  std::uint64_t bytes_max = std::uint64_t(512) << 20U;
  Duration wait{};  ///< how long donors may wait until the round has committed; at most 60 s
  /// Whether these bytes are what the round committed. Runs on `workers`, so it owns what it touches. Donors may hold
  /// different proofs of one result, so their bytes differ without a lie: the others are tried when it says no.
  std::function<bool(std::span<const std::byte>)> check;
  TimePoint deadline{};
};

struct FetchedResult {
  Bytes bytes;
  std::vector<PeerId> silent;  ///< donors that had not answered by then: for the next round better without them
};

/// Errors: see Fetch::run; `bad_request` when the bytes of every donor fail the check.
Task<boost::system::result<FetchedResult, Refusal>> download_result(Context context, WantedResult wanted,
                                                                    std::vector<PeerId> donors,
                                                                    FetchOptions options = {});

/// A file of the run by its name in the manifest.
struct WantedFile {
  Digest name{};
  std::filesystem::path target;  ///< appears whole and checked, or not at all; parts lie beside it in "<target>.parts/"
  /// Whether the complete file (at the path given) is the one; runs on `workers`. Empty: `name` is the file's
  /// `content_hash`, and no other bytes are even fetched.
  std::function<bool(const std::filesystem::path&)> check;
  std::uint64_t bytes_max = std::uint64_t(2) << 30U;
  TimePoint deadline{};
};

/// Errors: as for a result. Throws `Failure(machine)` when the disk is full.
Task<boost::system::result<void, Refusal>> download_file(Context context, WantedFile wanted, std::vector<PeerId> donors,
                                                         OnProgress on_progress, FetchOptions options = {});

}  // namespace collab::state
