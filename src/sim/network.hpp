#pragma once
// net::Network over links: latency, bandwidth, loss, partitions; hosts that are killed and frozen.

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "net/network.hpp"
#include "sim/nat_box.hpp"
#include "sim/simulation.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace collab::sim {

/// One machine's access line. Every field is a promise the test makes to the reader.
struct LineOptions {
  double up_bytes_per_s = 12.5e6;
  double down_bytes_per_s = 12.5e6;
};

struct LinkOptions {
  Duration latency_min = std::chrono::milliseconds(5);  ///< one way; drawn once for each pair
  Duration latency_max = std::chrono::milliseconds(40);
  double jitter = 0.1;     ///< of the latency, drawn for each piece; order is kept
  double loss = 0;         ///< of a packet of 1,400 bytes: on a stream it is delay
  double bulk_charge = 1;  ///< a line carries each byte of a tensor as so many: a small model stands for a large one
  std::size_t queue_bytes = 1U << 20U;  ///< on the way and unread, per direction; then writers wait
  /// What a router before a line keeps. Streams share it, and what fills the way: as congestion control would have it,
  /// so that none queues behind the megabytes of another.
  Duration buffer = std::chrono::milliseconds(200);
};

/// How a machine's own clock differs from the world's time.
struct ClockOptions {
  Duration ahead{};            ///< of its calendar
  std::int64_t drift_ppb = 0;  ///< billionths by which it runs fast, or slow when negative; less than a tenth
};

class SimNetwork;

/// One machine: its network, its clock, and what a fault can do to it. Everything that runs on it asks these two, so a
/// frozen host's code stands still. Owned by the SimNetwork.
class Host final : public net::Network {
 public:
  Host(SimNetwork& network, std::size_t number, std::string name, std::string address, LineOptions line);
  ~Host() override;

  /// This host's view of time: with its own drift and calendar. Who waits on it while frozen waits until it is thawed.
  Clock& clock() noexcept;
  /// What a person calls it: can be dialled too, as if a name server knew it.
  const std::string& name() const noexcept { return name_; }
  const std::string& address() const noexcept { return address_; }  ///< numeric; `SimNetwork::renumber` changes it
  bool alive() const noexcept { return alive_; }
  /// What it is behind; null: nothing.
  NatBox* box() const noexcept { return box_; }

  Task<Result<std::unique_ptr<net::ByteStream>>> dial(net::Address to, TimePoint deadline) override;
  Result<std::unique_ptr<net::Listener>> listen(const net::Address& at) override;
  /// Dials from it know of SYNs: each leaves through the box here, opens its filter, and comes to the box there a way
  /// later. Those that cross meet.
  Result<std::unique_ptr<net::LocalPort>> local_port(const std::string& host) override;
  const net::ChannelEngines* channel_engines() const noexcept override;

 private:
  friend class SimNetwork;
  friend class HostPort;
  class Stream;
  class Acceptor;
  class HostClock;
  struct Pipe;
  struct Through;
  struct Route;
  struct Crossing;
  using Doors = std::vector<std::pair<NatBox*, std::uint16_t>>;
  /// The ends of a stream as its two hosts name them.
  struct Ends {
    net::Address here;
    net::Address here_seen;  ///< by the other host
    net::Address there;
    net::Address there_seen;  ///< from here
  };
  using Joined = std::pair<std::unique_ptr<net::ByteStream>, std::unique_ptr<net::ByteStream>>;

  asio::any_io_executor executor();
  Task<> thawed();
  /// A stream to `other` through these doors: the end here, and the end there.
  Joined join(Host& other, const Ends& ends, const Doors& doors);
  /// False: nobody listens at `port`, or too many wait already.
  bool offer(std::uint16_t port, std::unique_ptr<net::ByteStream>& stream);
  std::size_t room(const Pipe& pipe) const;
  Task<Result<>> write(std::shared_ptr<Pipe> pipe, std::span<const std::byte> bytes);
  Task<Result<std::size_t>> read(std::shared_ptr<Pipe> pipe, std::span<std::byte> into);

  SimNetwork& network_;
  std::size_t number_;
  std::string name_;
  std::string address_;
  std::size_t moves_ = 0;  // to other addresses
  LineOptions line_;
  NatBox* box_ = nullptr;
  ClockOptions clock_options_;
  std::unique_ptr<HostClock> clock_;
  TimePoint up_free_{};
  TimePoint down_free_{};
  std::size_t streams_up_ = 0;    // on which more than a message is on the way from here,
  std::size_t streams_down_ = 0;  // and to here
  bool alive_ = true;
  bool frozen_ = false;
  std::optional<TimePoint> suspended_at_;
  Duration suspended_{};  // so long in all, before
  std::size_t side_ = 0;  ///< of a partition
  bool blocked_out_ = false;
  bool blocked_in_ = false;
  bool corrupts_ = false;
  double slowness_ = 1;
  Duration calendar_ahead_{};
  Signal thaw_;
  std::map<std::uint16_t, Acceptor*> listening_;
  std::map<std::pair<std::uint16_t, net::Address>, Crossing*> crossing_;  // dials of held ports, by where they lead
  std::uint16_t next_port_ = 40000;
};

/// Links between the hosts of one simulation. Must be stopped (or run to the end) before it is destroyed.
class SimNetwork {
 public:
  SimNetwork(Simulation& world, std::uint64_t seed, LinkOptions options = {});
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  /// `name`: a numeric address, which it gets, or a word; then it gets the next one of 10.9.0.0/16.
  Host& add_host(const std::string& name, LineOptions line = {});
  Host& host(const std::string& name) { return *hosts_.at(name); }
  /// Streams are secured by `engines`, which outlive everything here, instead of by TLS. Before anybody dials.
  void secure_by(const net::ChannelEngines& engines) noexcept { engines_ = &engines; }

  /// With an address of its own. Owned by the network.
  NatBox& add_box(const NatOptions& options);
  /// In front of one host: filters as `options` say, and translates nothing. Before anybody dials.
  void add_firewall(Host&, NatOptions options);
  /// From now on others see the box's address, and come in where it lets them; who is behind the same box sees it as
  /// before. Before anybody dials.
  void put_behind(Host&, NatBox&);
  /// Switched off and on: another address, and streams through it carry nothing any more.
  void reboot(NatBox&);
  /// From now on it has another address of its own: streams to and from it carry nothing any more, and who dials where
  /// it was hears nothing. Not of who is behind a box.
  void renumber(Host&);
  /// Told when one that is behind a box dials one that is behind another, whether it gets there or not.
  void on_hidden_dial(std::function<void(const Host& from, const Host& to)> seen) { on_hidden_dial_ = std::move(seen); }

  /// The process is gone: of each stream's bytes on the way a random prefix arrives, then the stream ends. The owner of
  /// the host's tasks stops them; whatever they still ask fails with `gone`.
  void kill(Host&);
  /// A killed host may be used again, as after a restart of its process.
  void revive(Host&);
  /// Runs nothing until thawed; its kernel still takes bytes until the queues are full.
  void freeze(Host&);
  void thaw(Host&);
  /// The machine sleeps, as one whose lid is closed: frozen, and its steady clock stands still, while its calendar goes
  /// on. That its line is down is for the caller to say.
  void suspend(Host&);
  void resume(Host&);
  /// `side`: names. Nothing moves between it and all others until healed; it arrives afterwards. New dials are late.
  void partition(std::set<std::string> side);
  /// The same for several sides; a host that is on two is on the first.
  void separate(const std::vector<std::set<std::string>>& sides);
  void heal();
  /// Nothing moves from one to the other until `clogged` is false again; it arrives afterwards.
  void clog(const Host& from, const Host& to, bool clogged);
  /// The same for all that a host sends (`out`) and all that it is sent (`in`).
  void block(Host&, bool out, bool in);
  /// Its line carries a `factor`th of what it did when it was made; 1: all of it.
  void slow(Host&, double factor);
  /// Before anything runs on it.
  void set_clock(Host&, ClockOptions options);
  /// Its calendar is so far ahead of what it was before, from now on; its steady clock goes on.
  void shift_calendar(Host&, Duration ahead);
  /// One bit of the next bytes that it sends arrives wrong.
  void corrupt(Host&);
  /// Resets every stream between the two.
  void cut(Host& a, Host& b);

  /// Equal for two runs that delivered the same numbers of bytes over the same streams at the same times.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  std::uint64_t bytes_delivered() const noexcept { return bytes_delivered_; }
  /// Directions of streams that somebody holds, or that bytes are on the way in.
  std::size_t streams() const;
  /// Lets go of everything on the way: the last thing that happens in a scenario.
  void stop();

 private:
  friend class Host;
  friend class HostPort;
  using Pipe = Host::Pipe;
  Host::Route route(Host& from, const net::Address& to);
  void route_through_boxes(Host& from, const net::Address& to, Host::Route& route);
  std::string next_outside();
  bool moves(const Host& from, const Host& to) const;
  bool leads_nowhere(const Pipe& pipe) const;
  Duration latency(const Host& a, const Host& b);
  std::shared_ptr<Pipe> make_pipe(Host& from, Host& to, std::uint64_t stream);
  void send(Pipe& pipe, std::span<const std::byte> bytes, bool is_bulk);
  void end(Pipe& pipe);
  std::size_t slice_bytes(double bytes_per_s) const;
  void arrive(Pipe& pipe);
  void opened();
  NatBox* box_at(const std::string& address) const;
  Host* find(const std::string& name_or_address) const;
  /// Who has this address, or is behind the box that has it: the first one, for the length of the way.
  Host* end_at(const std::string& address) const;
  void mix(std::uint64_t value) noexcept { fingerprint_ = (fingerprint_ ^ value) * 0x100000001b3U; }

  Simulation& world_;
  LinkOptions options_;
  const net::ChannelEngines* engines_ = nullptr;
  Random random_;
  std::map<std::string, std::unique_ptr<Host>> hosts_;  // by name
  std::map<std::string, Host*> by_address_;
  std::set<std::string> left_;  // addresses that were somebody's
  std::vector<std::unique_ptr<NatBox>> boxes_;
  std::size_t outsides_ = 0;    // addresses that boxes have had
  std::size_t renumbered_ = 0;  // and hosts have got
  std::function<void(const Host&, const Host&)> on_hidden_dial_;
  std::map<std::pair<std::size_t, std::size_t>, Duration> latencies_;  // by the lower and the higher number
  std::vector<std::weak_ptr<Pipe>> pipes_;
  std::size_t pipes_swept_ = 0;                            // how many were alive when the others were forgotten
  std::vector<std::shared_ptr<Pipe>> stuck_;               // their next piece should have arrived
  std::set<std::pair<std::size_t, std::size_t>> clogged_;  // from, to
  Signal opened_;                                          // some link carries again
  std::uint64_t next_stream_ = 0;
  std::uint64_t fingerprint_ = 0xcbf29ce484222325U;
  std::uint64_t bytes_delivered_ = 0;
  bool stopping_ = false;
};

}  // namespace collab::sim
