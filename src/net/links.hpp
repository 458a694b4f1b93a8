#pragma once
// The connections of this node. Now and then two peers have several; one of them is in use.

#include "base/log.hpp"
#include "net/connection.hpp"
#include "net/peer_table.hpp"

#include <boost/container/flat_map.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace collab::net {

/// Who works with connections.
class LinksUser {
 public:
  virtual ~LinksUser() = default;
  /// New streams go elsewhere from now on; those on it may finish.
  virtual void on_superseded(Connection&) = 0;
  /// Another connection to this peer is in use than before, or none.
  virtual void on_change(const PeerId&) = 0;
};

/// When two peers dial each other at the same time, or one of them again, both ends keep the same connection: of two
/// that work
///
/// * after a restart of the peer the new one;
/// * else one that is no circuit through a relay; of two circuits one that carries tensors;
/// * else one that was not punched through routers;
/// * else the one that the lower id dialled;
/// * of two that one end dialled the later.
///
/// An accepted connection counts only when its dialler has said something on it: he may have given up after our hello
/// had left. One whose other end seems gone loses to any other. The losers drain: they end when their streams have, at
/// least `drain_min` and at most `drain_max` after. Until then they are spares: should the connection in use break, the
/// best of them, by the same rules, takes its place. A peer that says goodbye on a connection wants another one used.
class Links {
 public:
  struct Options {
    Duration drain_min = std::chrono::seconds(1);    ///< of a superseded connection
    Duration drain_max = std::chrono::seconds(5);    ///< also of leave()
    Duration move_asked = std::chrono::seconds(10);  ///< so long an end may take to say that a connection moves
    /// Credit of all connections beyond their first, for those that carry tensors: as much as they use, but none more
    /// than an equal part. Who has more than that when another one begins loses it as it is used.
    std::size_t receive_bytes_max = std::size_t(24) << 20U;
    std::size_t receive_of_connection_first = std::size_t(768) << 10U;  ///< of one; doubled when a look finds it used,
    std::size_t receive_of_connection_max = std::size_t(4) << 20U;      ///< up to this, however few they are
    Connection::Options connection;
  };
  /// All of it outlives them.
  struct Needs {
    asio::any_io_executor executor;
    Clock& clock;
    Log& log;
    PeerId self;
    ConnectionOwner& owner;
    LinksUser& user;
    PeerTable& peers;  ///< told what there is to remember of a connection that is over
  };

  Links(const Needs& needs, const Options& options)
      : needs_(needs), options_(options), receive_left_(options.receive_bytes_max) {}

  /// Takes it in, and uses it unless a better one is in use. Its owner runs it, and detaches it when that ends.
  Connection& attach(std::unique_ptr<Opened> opened);
  /// Ends and forgets it. A serial that is not here does nothing.
  void detach(std::uint64_t serial);

  /// The connection for new streams; null: there is none.
  Connection* current(const PeerId& peer) const;
  Connection* find(std::uint64_t serial) const;
  /// Whether another connection to `peer` over `stream` would only be a duplicate. Asks the other end for a sign of
  /// life.
  bool works(const PeerId& peer, const ByteStream& stream);

  /// Which connection to `peer` is to go on over `stream` (`OpeningRules::moves`): that in use, when it is a circuit
  /// and the stream is not, or will not end as soon. To one stream only: while this node has agreed to that of the
  /// other end it names none, and while it asks itself the lower id does not agree.
  std::vector<char> moves(const PeerId& peer, const ByteStream& stream, Side side);
  /// That connection goes on there from now on. Its number; none: it is over.
  std::optional<std::uint64_t> move(std::unique_ptr<Opened> opened);

  /// Its owner's news of a connection: the first bytes came; the peer said goodbye on it.
  void heard(Connection& connection);
  void said_goodbye(Connection& connection);
  /// Tensors may come on it from now on.
  void carries_bulk(Connection& connection);
  /// Each second: finds those that do, and who uses all that it has; gives to some what others have lost.
  void share_credit();
  /// Several times a second, and when something planned begins: deals this machine's line out to those that have some
  /// of it to send. Of `planned` that of one connection is added up.
  void share_line(std::span<const Flow> planned);
  /// Periodically, for each: closes it when it has drained, and drops the one in use when only a spare answers.
  void settle(Connection& connection, TimePoint now);
  /// Says goodbye on one that nobody uses, or that is about to end; it is closed as soon as it has drained.
  void retire(Connection& connection);
  /// Says goodbye on all; from now on each is closed as soon as it is quiet.
  void leave();

  bool empty() const noexcept { return attached_.empty(); }
  std::size_t size() const noexcept { return attached_.size(); }
  /// In the order in which they began. Good until the next `attach` or `detach`.
  std::vector<Connection*> all() const;
  std::vector<PeerId> connected() const;
  /// What is known about the way to `peer`, over this connection and earlier ones.
  LinkState state(const PeerId& peer) const;
  /// Of all connections, those that are over too.
  Traffic traffic() const;

 private:
  struct Attached {
    std::unique_ptr<Connection> connection;
    TimePoint since;
    std::size_t credit = 0;           ///< of receive_bytes_max, without what it is about to lose,
    std::size_t narrowing = 0;        ///< and that
    std::uint64_t received_then = 0;  ///< of tensors, at the last look
    bool bulk = false;                ///< tensors come on it
    TimePoint asks_until{};           ///< whether it may move, a stream that this node has dialled; or has
    TimePoint agreed_until{};         ///< agreed to that of the other end
    bool spare = false;               ///< superseded, and good enough should the other one break
  };

  bool is_better(const Connection& fresh, const Connection& old) const;
  void use(Connection& connection);
  void supersede(Connection& connection);
  void say_goodbye(Connection& connection, const char* reason);
  void promote_spare(const PeerId& peer);
  void set_spare(Attached&, bool is);
  void collect(Attached&);
  void give_part(Attached&);
  bool still_needed(Connection& spare, TimePoint now);
  void remember(const Attached& attached);
  Attached& attached(const Connection& connection) { return attached_.at(connection.streams().serial()); }

  Needs needs_;
  Options options_;
  // few, and looked up for each frame: in one piece
  boost::container::flat_map<std::uint64_t, Attached> attached_;
  boost::container::flat_map<PeerId, Connection*> current_;
  std::uint64_t next_serial_ = 1;
  std::size_t receive_left_;
  std::size_t bulk_ = 0;    // how many of them carry tensors,
  std::size_t spares_ = 0;  // and how many are spare: seldom any
  Traffic finished_;
  Line line_;
  std::vector<std::uint64_t> paced_;  ///< that it was dealt out to
  bool leaving_ = false;
};

}  // namespace collab::net
