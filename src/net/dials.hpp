#pragma once
// Whom this node dials, and who waits for that.

#include "base/log.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "crypto/identity.hpp"
#include "net/dialling.hpp"
#include "net/links.hpp"
#include "net/network.hpp"
#include "net/paths.hpp"
#include "net/peer_table.hpp"

#include <boost/container/flat_map.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace collab::net {

/// Takes what answers.
class DialsUser {
 public:
  virtual ~DialsUser() = default;
  /// A peer agreed to connect, or that its connection goes on here (`Opened::moves`). The dial lasts until this
  /// returns.
  virtual Task<> on_dialled(std::unique_ptr<Opened> opened) = 0;
};

/// To a peer one dial runs, to all that is known of where it is; a second one when it is said to be elsewhere
/// meanwhile. What still runs to where it was before it connected is outdated: nobody waits for it.
class Dials {
 public:
  /// All of it outlives them.
  struct Needs {
    asio::any_io_executor executor;
    Clock& clock;
    Network& network;
    Log& log;
    Access& access;
    const OpeningRules& rules;
    Links& links;
    PeerTable& peers;
    Paths& paths;  ///< told who is waited for
    DialsUser& user;
  };

  /// `onward` may be empty.
  Dials(const Needs& needs, DialOptions options, OnwardRelays onward);

  /// Where they run. Null, as in the beginning: nobody is dialled, and what answers is let go.
  void use(TaskGroup* tasks) noexcept { tasks_ = tasks; }

  /// `Paths::reach` and `reach_for_tensors`.
  Task<Reached> reach(PeerId peer, TimePoint deadline, bool for_tensors);
  /// `PeerEndpoint::connect`.
  Task<boost::system::result<PeerId, Refusal>> connect(Address address, TimePoint deadline);
  /// Of a stream that is dialled elsewhere.
  std::uint64_t next_attempt() noexcept { return next_attempt_++; }

  /// Where a peer was, for nothing is left of the way that it took from there.
  void again(const PeerId& peer, Address address);
  /// Another circuit to go on over, when this node has dialled this one.
  void renew(const Connection& circuit);
  /// Who came through a relay and can be dialled, by what is known of it: then the relay is not needed any more. With
  /// the pauses of any dial, for a stranger says himself where he is.
  void in_return(const Connection& circuit);
  /// A peer that is dialled where it is perhaps no more: there nobody says so, and a dial in vain takes its time. Or
  /// one to which a relay leads onward, for nothing else did.
  void elsewhere(const PeerId& peer, std::vector<Address> addresses);

  /// There is a connection without a relay. A dial that still runs to where the peer was before takes its time, in
  /// which nobody else would be dialled should this connection break.
  void met(const PeerId& peer);
  /// Another connection is in use, or none.
  void changed(const PeerId& peer);
  /// Forgets those to whom nothing happens.
  void tidy();

 private:
  struct Dialled {
    explicit Dialled(const asio::any_io_executor& executor) : changed(executor) {}
    unsigned running = 0;        ///< one, or a second one since it is said to be elsewhere
    bool is_elsewhere = false;   ///< there has been a second one since none ran
    unsigned outdated = 0;       ///< that run too
    std::uint64_t meetings = 0;  ///< that have outdated some
    unsigned waiting = 0;
    Signal changed;
  };

  Dialled& at(const PeerId& peer);
  Connection* usable(const PeerId& peer, bool for_tensors) const;
  void begin(const PeerId& peer, std::vector<Address> addresses, bool onward);
  Task<> dial(PeerId peer, std::vector<Address> addresses, bool onward);
  void failed(const PeerId& peer, Refusal why, bool by_relay_only);

  Needs needs_;
  DialOptions options_;
  OnwardRelays onward_;
  TaskGroup* tasks_ = nullptr;
  boost::container::flat_map<PeerId, std::unique_ptr<Dialled>> dialled_;
  std::uint64_t next_attempt_ = 1;
};

}  // namespace collab::net
