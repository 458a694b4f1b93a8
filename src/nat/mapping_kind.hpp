#pragma once
// How the router on the way translates what this node dials: measured, by one local port and two observers.

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "net/peer_endpoint.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace collab::nat {

/// What others see of one local port.
enum class MappingKind : std::uint8_t {
  unknown,      ///< nobody has told yet
  none,         ///< the port and the address themselves: nothing translates, something filters
  independent,  ///< one outside port, whoever is dialled
  dependent,    ///< another one for each destination: whom it is told cannot use it
};
std::string_view name(MappingKind) noexcept;
/// Whether what one observer saw holds for a third one too, so that punching may succeed.
bool can_be_punched(MappingKind) noexcept;

/// Somebody in public who can be dialled by bare TCP, and tells whom he sees.
struct Observer {
  PeerId peer;
  net::Address at;
};

/// As what one observer sees a local port.
struct Sighting {
  net::Address seen;
  bool is_own = false;                ///< the machine's own address and port
  std::unique_ptr<net::Opened> line;  ///< held open: a router may forget a mapping that nobody uses
};
/// Dials `observer` from `port` and asks by a hello, as each peer answers. Errors: `gone`, `late`; `bad_request` when
/// he sees no public address, so is no observer.
Task<Result<Sighting>> be_seen(net::PeerEndpoint& endpoint, Clock& clock, net::LocalPort& port, Observer observer,
                               TimePoint deadline);

struct MappingFinding {
  MappingKind kind = MappingKind::unknown;
  bool weak = true;  ///< both observers are at one host, and a router may tell those apart only by their ports
  bool operator==(const MappingFinding&) const = default;
};
/// Of IPv4: who reaches others by IPv6 is hardly ever translated. Thread safety: none; belongs to the node's loop.
/// Measures only while it is wanted.
class MappingProbe {
 public:
  struct Options {
    Duration valid = std::chrono::minutes(15);
    Duration again = std::chrono::minutes(1);      ///< after nobody, or only one, told
    Duration look = std::chrono::seconds(2);       ///< while there are no two observers
    Duration dial_time = std::chrono::seconds(5);  ///< for one observer
    std::size_t asked_max = 4;                     ///< observers of one measurement, until two have told
  };
  /// All of it outlives it.
  struct Needs {
    asio::any_io_executor executor;
    net::PeerEndpoint& endpoint;
    net::Network& network;
    Clock& clock;
    Random random;
    Log& log;
    std::function<std::vector<Observer>()> observers;
    std::function<bool()> wanted;  ///< nobody can dial this node
  };

  MappingProbe(Needs needs, const Options& options);
  MappingProbe(const MappingProbe&) = delete;
  MappingProbe& operator=(const MappingProbe&) = delete;

  /// Until cancelled. Does nothing while it is not wanted, until `look_again`.
  Task<> run();
  /// It may be wanted now, or not any more.
  void look_again() { again_.notify(); }
  /// This machine is somewhere else, perhaps: measures again at once.
  void doubt();
  /// Once, now.
  Task<MappingFinding> measure();

  /// Unknown while it is not wanted, and when the last measurement is too old.
  const MappingFinding& finding() const noexcept { return finding_; }
  /// Notified when that has changed.
  Signal& changed() noexcept { return changed_; }

 private:
  std::vector<Observer> observers() const;
  std::vector<Observer> choose();
  void set(const MappingFinding& finding);

  Needs needs_;
  Options options_;
  MappingFinding finding_;
  Signal changed_;
  Signal again_;
  bool doubt_ = false;
};

}  // namespace collab::nat
