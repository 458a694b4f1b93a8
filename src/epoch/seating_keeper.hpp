#pragma once
// The grid as this peer knows it: which seating is in force, and whether it is time to write another.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/signal.hpp"
#include "base/task.hpp"
#include "directory/directory.hpp"
#include "matchmaking/seating.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace collab::epoch {

struct SeatingOptions {
  std::size_t group_size_max = 64;
  std::vector<std::uint32_t> forced;  ///< radices, where they seat all peers; empty: they follow the number of peers
  Duration notice = std::chrono::seconds(2);     ///< at least, and two epochs: from writing a seating to its begin
  Duration lifetime = std::chrono::seconds(60);  ///< of a record that is not renewed
  std::uint64_t epochs_ahead_max = 1'000'000;    ///< one that begins later is no honest writer's
};

/// Reads what the peers of a run write under kSeatingKey, and writes when it is its turn. As long as nobody ever wrote,
/// everybody is in one group. Thread safety: none; belongs to the node's loop.
class SeatingKeeper {
 public:
  struct Needs {
    directory::Directory& directory;
    Clock& clock;
    Log& log;
    PeerId self;
    asio::any_io_executor loop;
  };
  SeatingKeeper(Needs needs, SeatingOptions options);
  ~SeatingKeeper();

  /// Until cancelled: follows the directory.
  Task<> run();
  /// Reads the directory at once, before the first epoch. Errors: `gone`, `late`.
  Task<Result<>> look(TimePoint deadline);

  /// What is true when this peer looks whether the grid fits: at the begin of `epoch`, and every second.
  struct Now {
    std::uint64_t epoch = 0;
    bool stuck = false;           ///< its batch has long been full, and still no pass was complete
    Duration last_epoch{};        ///< how long the one before took; zero: unknown
    std::vector<PeerId> present;  ///< who takes part: this peer too, unless it leaves
    std::vector<PeerId> recent;   ///< with those who fell silent a moment ago
    std::vector<PeerId> clients;  ///< who of them only dials, sorted by id
    bool my_turn = false;         ///< of all who are present, one has it in each epoch, and more of a stuck one
    bool hopeless = false;        ///< stuck, and no pass over this grid will ever be complete
    Duration batch_full_in{};     ///< as far as is known; zero: it is full
    bool averaging = false;       ///< this peer is in a round: on slow lines it hears of the others late, or not at all
    bool others_average = false;  ///< some are in a pass, of this epoch or still of the one before
    Duration pass_max = std::chrono::seconds(5);  ///< so long others may be in one by a seating, and it is not replaced
    std::uint64_t swarm_epoch{};                  ///< of the others, whom this peer may be behind; zero: unknown
  };
  /// Writes a seating when the one in force does not fit who is present, did not the last time either, and it is our
  /// turn: for an epoch to come, or for the present one when that is stuck, when one group cannot hold most of the
  /// peers, or when many have no seat and its batch is far from full, for until then nobody begins a pass.
  /// While others are in a pass of a grid, only who is stuck writes for the present epoch: their pass would be in vain.
  /// On a hopeless epoch the same seats are written anew, as another grid.
  /// A seating to come that does not fit any more is written anew as long as there is time to read it. Nothing is
  /// planned during a round.
  void look_at(const Now& now);

  /// Seatings of the present epoch that were replaced after it had got stuck on them: not those of a swarm that was
  /// still gathering. After each of them the next one deserves more time.
  unsigned given_up() const noexcept { return given_up_; }

  /// When the one in force for the present epoch became it by being read.
  TimePoint in_force_since() const noexcept { return in_force_since_; }
  /// Null: one group of everybody. Valid until the next call of something here.
  const matchmaking::Seating* in_force(std::uint64_t epoch) const;
  /// Of that one group: as the options say, or more where a grid would have cells that nobody can dial.
  std::size_t group_size_max(std::uint64_t epoch) const;
  /// Who leads cells in which nobody can be dialled; of many, the first sixteen.
  std::vector<PeerId> auxiliaries() const;
  /// Whether they do: not for a while after grids of one epoch were given up one after the other.
  bool helped() const;
  /// Notified when another seating became known.
  Signal& changed() noexcept { return changed_; }

 private:
  struct Known {
    PeerId writer;
    matchmaking::Seating seating;
    bool judged = true;     ///< false: it came before this peer could count the others
    bool outgrown = false;  ///< it seats not half of those who are there by now, and nobody could have begun with it
  };
  using Place = std::pair<std::uint64_t, std::uint32_t>;  ///< first epoch and revision: the later counts
  struct Slot {
    Place place;
    std::size_t pieces = 0;
  };

  void read(const std::vector<directory::Record>& records);
  void consider(const PeerId& writer, const matchmaking::Seating& seating);
  void judge_early();
  void outgrow(const Now& now);
  bool others_go_by_it(const Now& now);
  const matchmaking::Seating* last() const;
  bool leaves_many_out(const matchmaking::Seating& seating, const Now& now) const;
  std::uint64_t notice(Duration last_epoch) const;
  bool is_far(const matchmaking::Seating& seating) const;
  std::optional<std::uint32_t> last_revision(std::uint64_t from) const;
  std::uint32_t next_revision(std::uint64_t from) const;
  bool is_due(const matchmaking::Seating& seating);
  bool is_absurd(const PeerId& writer, const matchmaking::Seating& seating);
  matchmaking::Seating wanted_for(const std::vector<PeerId>& present, const std::vector<PeerId>& clients,
                                  const matchmaking::Seating& now) const;
  unsigned slot_for(std::uint64_t from) const;
  void write(matchmaking::Seating seating);
  void withdraw(unsigned slot);
  void forget_old();

  Needs needs_;
  SeatingOptions options_;
  matchmaking::Seating unwritten_;  // as long as nobody ever wrote
  std::unique_ptr<directory::Watch> watch_;
  std::map<Place, Known> known_;  // the one in force and those to come
  unsigned misfits_ = 0;          // in a row
  std::uint64_t epoch_ = 0;
  std::uint64_t swarm_epoch_ = 0;
  std::uint64_t notice_ = 0;  ///< in epochs, as of the last look
  bool stuck_ = false;        ///< on the seating in force, at some look
  unsigned given_up_ = 0;
  TimePoint in_force_since_ = TimePoint::min();
  std::optional<TimePoint> others_since_;                         ///< were in a pass by it, as was seen first
  std::uint64_t unhelped_before_ = 0;                             ///< epoch
  std::size_t peers_ = 0;                                         ///< as of the last look
  bool passed_over_ = false;                                      ///< some seating did not fit them
  std::set<PeerId> absurd_;                                       ///< whose
  std::map<std::uint64_t, std::uint32_t> passed_over_revisions_;  ///< the last, by the first epoch
  std::array<Slot, 2> own_;                                       // what this peer publishes
  Signal changed_;
};

}  // namespace collab::epoch
