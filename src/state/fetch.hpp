#pragma once
// The engine of every download: one index, many donors, each chunk checked; and those who fetch the same give each
// other what they have.

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "net/endpoint.hpp"
#include "state/chunk_plan.hpp"
#include "state/shelf.hpp"
#include "state/store.hpp"
#include "state/wire.hpp"

#include <exception>
#include <functional>
#include <optional>
#include <vector>

namespace collab::state {

/// What a download works with; everything outlives it.
struct Context {
  net::Endpoint& net;
  Clock& clock;
  asio::any_io_executor workers;  ///< hashes and files
  Log& log;
  Random& random;  ///< which donors are asked first
};

struct Progress {
  std::uint64_t bytes = 0;        ///< here and checked, also those of an earlier try
  std::uint64_t bytes_total = 0;  ///< 0: not known yet
  std::size_t donors = 0;         ///< that gave at least one chunk
  std::size_t liars = 0;          ///< that gave wrong bytes, and were not asked again
  double bytes_per_s = 0;         ///< fetched since the begin of this try, on average
};
/// Called on the loop after each chunk. May not destroy the download.
using OnProgress = std::function<void(const Progress&)>;

struct FetchOptions {
  std::size_t donors_max = 8;                          ///< asked at once; others stand in for those who fail
  std::size_t candidates_max = 64;                     ///< more are ignored
  std::size_t chunks_per_donor = 2;                    ///< under way at a time,
  std::size_t chunks_per_donor_max = 8;                ///< and over a long way that is fast
  std::size_t sharers_max = 8;                         ///< others who fetch the same, asked at once beside donors,
  std::size_t sharers_known_max = 64;                  ///< and how many are ever asked
  Duration news_wait = std::chrono::seconds(5);        ///< of a sharer, for chunks that he did not have
  Duration index_patience = std::chrono::seconds(10);  ///< for an index, on top of `wait`
  Duration grace = std::chrono::seconds(1);            ///< after the first acceptable index, for a majority to show
  /// After the first donor that says it has nothing, for others to show an index; empty: as long as `index_patience`.
  std::optional<Duration> refused_grace = {};
  Duration chunk_patience =
      std::chrono::seconds(20);                       ///< then a donor is taken for dead; others repeat it much earlier
  Duration busy_pause_max = std::chrono::seconds(5);  ///< between two questions to a donor who is busy
};

/// One download, run once. Asks donors for the index; takes the one that most of them show among those that
/// `acceptable` admits (ties: the lower root); fetches its chunks from all who showed it. A donor that fails is
/// replaced by the next; one that lies is not asked again. With a store to share by, what has come is given to others
/// who fetch the same, and theirs is fetched: donors name some, others show themselves by asking. Their word decides
/// nothing but which chunks they are asked for. Where no donor can be reached those are asked who carry tensors between
/// others (pass_on.hpp). Thread safety: none; belongs to the node's loop.
class Fetch {
 public:
  using Acceptable = std::function<bool(const Index&)>;

  /// `share_by` null: what comes is given to nobody. Else it gives what lies on the shelf, also after the end, unless
  /// that is a failure; chunks come in an order of chance.
  Fetch(Context context, wire::AskIndex ask, Acceptable acceptable, OnProgress on_progress, FetchOptions options = {},
        Store* share_by = nullptr);

  /// The index whose chunks are all on `shelf`, which outlives the call.
  /// Errors: `stale` (number: the epoch that most such donors have) when that epoch is over; `busy` when all donors
  /// are; `bad_request` when nobody shows an acceptable index; `gone` when no donor is left; `late` at `deadline`.
  /// Throws `Failure(machine)` when the disk is full.
  Task<boost::system::result<Index, Refusal>> run(std::vector<PeerId> donors, Shelf& shelf, TimePoint deadline);
  /// Donors that were asked and have neither shown an index nor said why not.
  std::vector<PeerId> silent() const;

 private:
  struct Donor {
    PeerId peer;
    std::optional<Index> index;
    Digest root{};
    std::optional<Refusal> left;  // why it is not asked any more
    std::uint64_t chunks = 0;     // that it has given
    bool lied = false;
    std::optional<std::vector<bool>> has = {};  // of a sharer: which chunks
    TimePoint asked_at = {};                    // for its first chunk
    std::size_t under_way = 0;
    const std::vector<bool>* chunks_of() const noexcept { return has ? &*has : nullptr; }
  };

  Task<> manage(TaskGroup& tasks);
  Task<> talk(TaskGroup& tasks, std::size_t donor);
  Task<> share_with(TaskGroup& tasks, std::size_t donor);
  Task<> meet_sharers(TaskGroup& tasks);
  Task<> fetch_chunks(TaskGroup& tasks, std::size_t donor);
  std::size_t chunks_wanted(const Donor& donor) const;
  Task<boost::system::result<Index, Refusal>> ask_index(PeerId peer);
  /// Whether the donor may be asked for more.
  Task<bool> fetch_chunk(std::size_t donor, std::size_t chunk);
  Task<bool> accept_chunk(std::size_t donor, std::size_t chunk, Frame frame);

  void choose_donors(std::vector<PeerId> donors);
  bool can_ask(const PeerId& donor) const;
  Task<net::Answer> ask(PeerId donor, std::string_view method, wire::Message message, TimePoint deadline);
  std::size_t active(std::size_t first, std::size_t last) const noexcept;
  void start_donors(TaskGroup& tasks);
  void start_sharers(TaskGroup& tasks);
  void know_sharers(const std::vector<PeerId>& peers);
  bool somebody_left() const noexcept;
  const Donor* choose_index() const;
  Task<> open_shelf(Index index);
  void leave(std::size_t donor, Refusal why);
  TimePoint look_again() const;
  void give_up_silent();
  void report();
  Refusal why_nobody() const;

  Context context_;
  wire::AskIndex ask_;
  Acceptable acceptable_;
  OnProgress on_progress_;
  FetchOptions options_;
  Store* share_by_;

  Shelf* shelf_ = nullptr;
  TimePoint deadline_{};
  std::vector<Donor> donors_;
  std::vector<PeerId> relays_;    // of whom the donors are asked, when none of those can be reached
  std::size_t started_ = 0;       // donors_[0..started_) have been asked
  std::size_t first_sharer_ = 0;  // donors_[first_sharer_..) are sharers,
  std::size_t next_sharer_ = 0;   // of whom those before this one have been asked
  TimePoint first_shown_ = TimePoint::max();
  TimePoint first_refused_ = TimePoint::max();
  std::optional<Index> index_;  // the chosen one
  Digest root_{};
  std::optional<ChunkPlan> plan_;  // from when the shelf is open
  bool ended_ = false;             // manage() is over
  std::optional<Refusal> failed_;
  std::exception_ptr failure_;
  TimePoint began_{};
  std::uint64_t fetched_bytes_ = 0;
  Progress progress_;
  std::optional<Signal> changed_;
};

}  // namespace collab::state
