#pragma once
// A simulated network of peers that make one pass over a Moshpit grid.

#include "sim/fake_crypto.hpp"
#include "sim/grid_peer.hpp"
#include "sim/network.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace collab::sim {

struct GridOptions {
  std::uint64_t seed = 1;
  std::size_t peers = 16;              ///< two or more
  std::vector<std::uint32_t> radices;  ///< empty: those of matchmaking::radices_for
  std::size_t group_size_max = 64;     ///< 2..64
  std::uint64_t weight_max = 199;      ///< weights are drawn from 1 to here
  std::size_t values = 8 * 4096;       ///< of the flat vector, N(0,1)
  CodecId codec = CodecId::float32;
  LinkOptions links;
  LineOptions line;
  std::vector<LineOptions> lines;  ///< by peer, instead; of these everybody knows its own. Empty: nobody does
  bool equal_split = false;        ///< nobody tells it, so all own segments of one size
  Crypto crypto = Crypto::fake;
};

/// One peer's search for its first group.
struct Meeting {
  TimePoint declared{};
  TimePoint begun{};        ///< heard of the begin; only with a group
  std::size_t members = 0;  ///< of its group, itself included; 0: it found none in time
  std::size_t cell = 0;     ///< who should be there
  Digest group{};
};

/// What the searches of one window came to.
struct WindowFacts {
  double full_share = 0;          ///< of peers, in a group of their whole cell
  std::size_t groups = 0;         ///< that were full
  Duration begin_after_median{};  ///< of full groups: from the last declaration until the last member knew of the begin
  Duration begin_after_max{};
};
WindowFacts window_facts(const std::vector<Meeting>& meetings);

/// Lives once: make it, run it, look at it.
class GridSwarm {
 public:
  /// A line of some peer's log; may kill.
  using OnEvent = std::function<void(std::size_t peer, std::string_view event, Log::Fields fields)>;

  explicit GridSwarm(GridOptions options);
  ~GridSwarm();
  GridSwarm(const GridSwarm&) = delete;
  GridSwarm& operator=(const GridSwarm&) = delete;

  void on_event(OnEvent what) { on_event_ = std::move(what); }
  /// Its process is gone.
  void kill(std::size_t peer);
  /// It stands still from now on; while it runs.
  void freeze(std::size_t peer, Duration how_long);
  /// It stands still for `how_long` from the start of the pass on. Before run().
  void freeze_first(std::size_t peer, Duration how_long) { frozen_[peer] = how_long; }
  /// It is killed so long after the start of the pass, whatever it does then. Before run().
  void kill_at(std::size_t peer, Duration when) { dies_[peer] = when; }
  /// It says that its samples were these units, whatever they were. Before run().
  void claim(std::size_t peer, Work units) { peers_.at(peer)->claim(std::move(units)); }
  /// One pass of everybody, until the last live peer has ended it.
  void run();
  /// Instead: so many windows of `length`, one after the other, in which all look for the group of their first round.
  /// Each declares at a random moment of the first half. In the first window nobody is connected yet. By window and
  /// peer.
  std::vector<std::vector<Meeting>> meet(std::size_t windows, Duration length);

  std::size_t size() const noexcept { return peers_.size(); }
  const GridPeer& peer(std::size_t number) const { return *peers_.at(number); }
  std::size_t number_of(const PeerId& id) const { return numbers_.at(id); }
  const matchmaking::Schedule& schedule() const noexcept { return *schedule_; }
  const matchmaking::Grid& grid() const noexcept { return grid_; }
  GridResult result() const;
  /// Virtual, until the last live peer had ended its pass.
  Duration length() const noexcept { return length_; }
  /// Virtual, since the start.
  Duration now() const { return world_.clock().now().time_since_epoch(); }
  std::uint64_t bytes_delivered() const noexcept { return network_.bytes_delivered(); }
  std::uint64_t fingerprint() const { return network_.fingerprint(); }

 private:
  void introduce();
  Task<> live(std::size_t number);
  Task<> look_for_group(std::size_t number, averaging::Pass pass, TimePoint from, Meeting& meeting);
  Task<> meet_all(std::vector<std::vector<Meeting>>& windows, Duration length);
  averaging::Pass pass_of(std::uint64_t epoch, TimePoint deadline) const;
  Task<> thaw_later(std::size_t number, Duration how_long);
  Task<> kill_later(std::size_t number, Duration when);
  Task<> live_all();

  GridOptions options_;
  FakeChannels channels_;
  FakeSignatures signatures_;
  Simulation world_;
  SimNetwork network_;
  CodecMap codecs_;
  std::vector<Host*> hosts_;
  std::vector<std::unique_ptr<GridPeer>> peers_;
  std::map<PeerId, std::size_t> numbers_;
  matchmaking::Grid grid_;
  std::shared_ptr<const matchmaking::Schedule> schedule_;
  std::vector<std::unique_ptr<TaskGroup>> passes_;  // by peer
  std::map<std::size_t, Duration> frozen_;
  std::map<std::size_t, Duration> dies_;
  Duration length_{};
  OnEvent on_event_;
};

}  // namespace collab::sim
