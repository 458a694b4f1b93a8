#pragma once
// A connection at work: TLS over a byte stream, the streams on it, and whether the other side still lives.

#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "net/bandwidth_meter.hpp"
#include "net/byte_queue.hpp"
#include "net/line.hpp"
#include "net/multiplexer.hpp"
#include "net/opening.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace collab::net {

class Connection;

/// Who owns connections: takes their streams, hears why they end.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual Accepted on_open(Connection&, StreamHandle, TrafficClass, OpenHead head, std::size_t message_bytes) = 0;
  /// The first bytes came: the other side, if it dialled, took our hello and has not given up meanwhile.
  virtual void on_heard(Connection&) = 0;
  /// The other side broke `rule`; the connection closes by itself.
  virtual void on_violation(Connection&, std::string_view rule) = 0;
  /// Something was given up that happens to honest peers too, on a bad line: counted, and nobody is blocked.
  virtual void on_trouble(Connection&, std::string_view reason) = 0;
  /// What this connection says of the swarm's time is something else than before.
  virtual void on_skew(Connection&) = 0;
  /// The other side opens no more streams here, and wants none.
  virtual void on_goaway(Connection&, const std::string& reason) = 0;
  /// The other side wants no connection any more, and says why; this one is over.
  virtual void on_refused(Connection&, const Refusal& why) = 0;
  /// What is said goes another way from now on; or all does; or it was to, and the other end never followed.
  virtual void on_new_path(Connection&) = 0;
  virtual std::int64_t swarm_ms() const = 0;
  /// Our clock, without what others say.
  virtual std::int64_t own_ms() const = 0;
};

/// How much depends on an answer, hence how soon silence is noticed.
enum class Attention : std::uint8_t {
  idle,       ///< ping after 15 s of silence, gone after 45 s
  waiting,    ///< somebody waits for the peer: 1 s and 5 s
  conversing  ///< a conversation lives: 0.5 s and 5 s
};

class Connection final : private MultiplexerOwner {
 public:
  struct Options {
    std::size_t read_bytes_min = 1024;        ///< buffer of a quiet connection
    std::size_t read_bytes_max = 256 * 1024;  ///< buffer of a busy one
    std::size_t batch_bytes = 64 * 1024;      ///< small frames that are sealed together for one write
    std::size_t piece_bytes_min = 4 * 1024;
    std::size_t piece_bytes_max = 256 * 1024;
    std::size_t piece_bytes_first = 16 * 1024;            ///< until the bandwidth is known
    Duration piece_time = std::chrono::milliseconds(10);  ///< a piece is what the link sends in this time
    std::size_t queue_bytes_first = 32 * 1024;
    std::size_t queue_bytes_min = 16 * 1024;
    std::size_t queue_bytes_max = 128 * 1024;
    Duration queue_time = std::chrono::milliseconds(50);  ///< so much waits in the operating system
    Duration ping_idle = std::chrono::seconds(15);
    Duration ping_waiting = std::chrono::seconds(1);
    Duration ping_conversing = std::chrono::milliseconds(500);
    Duration gone_idle = std::chrono::seconds(45);
    Duration gone_waiting = std::chrono::seconds(5);
    Duration close_time = std::chrono::seconds(1);  ///< for the last words
    Duration move_time = std::chrono::seconds(20);  ///< to another stream; what waits on a slow one comes first
    Duration slow_time = std::chrono::seconds(10);
    std::size_t slow_bytes = 10 * 1024;  ///< less than this in `slow_time`: messages that have begun are given up
    Multiplexer::Options streams;
  };

  Connection(asio::any_io_executor executor, Clock& clock, ConnectionOwner& owner, std::uint64_t serial,
             std::unique_ptr<Opened> opened, const Options& options);
  ~Connection() override;

  /// Serves until the connection is over. Once.
  Task<> run();
  /// Says why, ends all streams as lost, and ends `run()` when that is written, or after `close_time`.
  void close(const std::string& reason);
  /// As `close`, and the other side is not welcome any more: so it hears why, as in answer to a hello.
  void turn_away(const Refuse& why);
  /// At once.
  void drop(const std::string& reason);
  /// Periodically: pings, notices silence and slow senders.
  void tick(TimePoint now, Attention attention);
  /// It should be looked at at each tick. One that nobody waits for need not be: a full group has many.
  bool is_lively() const noexcept {
    return attention_ != Attention::idle || closing_ || superseded || move_ || is_doubted();
  }
  /// Asks for a sign of life now, unless one was asked for already.
  void probe(TimePoint now);
  /// A sign of life was asked for and nothing came for so long.
  bool is_unanswered(TimePoint now, Duration since) const;
  /// The same for two of `ping_waiting`: perhaps the other end is long gone.
  bool is_doubtful(TimePoint now) const { return is_unanswered(now, 2 * options_.ping_waiting); }
  /// One of its ends is said to be where it was no more. Asks for a sign of life; not again within half a minute.
  void doubt(TimePoint now);
  bool may_be_doubted(TimePoint now) const;
  /// Nothing has come since.
  bool is_doubted() const noexcept { return doubt_ && last_received_ <= doubt_->since; }
  /// And nothing will: not the answer that is due, nor word of what was sent.
  bool is_left(TimePoint now) const;
  /// What both ends call it, and nobody else knows; 32 bytes.
  std::vector<char> name() const;
  /// Goes on over the stream of `next`, where nothing but hellos was said, and is what those say from then on
  /// (net/wire.hpp). When the other end does not follow in `move_time` it stays, or ends if it has left already. False:
  /// it is over, or moving.
  bool move_to(std::unique_ptr<Opened> next);
  bool is_moving() const noexcept { return move_ != nullptr; }
  unsigned moves() const noexcept { return moves_; }  ///< that it has made

  /// After the process was stopped for a while: what came meanwhile has not been read yet, so silence says nothing.
  void forgive_silence(TimePoint now);

  Multiplexer& streams() noexcept { return streams_; }
  const Multiplexer& streams() const noexcept { return streams_; }
  const PeerId& peer() const noexcept { return streams_.peer(); }
  /// The way that it goes, or will when it has moved.
  const Opened& ahead() const noexcept { return move_ ? *move_->next : *opened_; }
  Side side() const noexcept { return ahead().side; }
  const Hello& theirs() const noexcept { return way().theirs; }
  Address remote() const { return way().stream->remote(); }
  Address local() const { return way().stream->local(); }
  std::string_view path() const { return is_punched() ? "tcp, punched" : way().stream->path(); }
  bool is_circuit() const { return way().stream->is_circuit(); }
  bool carries_tensors() const { return way().stream->carries_tensors(); }
  /// The same of what comes, which may move sooner.
  bool brings_tensors() const { return source().carries_tensors(); }
  bool is_punched() const { return way().punched; }
  bool ends_soon() const { return !is_moving() && opened_->stream->ends_soon(); }
  bool is_stranded() const { return way().stream->is_stranded(); }

  bool over() const noexcept { return over_; }
  /// It says its last words, or is over: nothing new begins here.
  bool ending() const noexcept { return closing_ || over_; }
  /// Why it ended, for the log; empty while it has not.
  const std::string& reason() const noexcept { return reason_; }
  /// It ended because nothing came any more: to dial again at once would be in vain.
  bool fell_silent() const noexcept { return fell_silent_; }
  /// The other end has this connection too: we dialled and got its hello, or it has sent something after ours.
  bool confirmed() const noexcept { return heard_ || side() == Side::dialled; }
  TimePoint last_received() const noexcept { return last_received_; }
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  Duration rtt() const noexcept { return rtt_; }
  Duration rtt_deviation() const noexcept { return rtt_deviation_; }
  /// What the way takes when nothing queues on it; zero: unknown.
  Duration rtt_least() const noexcept { return rtt_least_; }
  double up_bytes_per_s() const noexcept { return up_.bytes_per_s(); }
  double down_bytes_per_s() const noexcept { return down_bytes_per_s_; }
  /// Their swarm time minus our own clock: by their hello, then by every pong.
  std::int64_t skew_ms() const noexcept { return way().skew_ms; }
  /// Who has come to us says the swarm's time when it has heard it: from its first pong on.
  bool knows_our_time() const noexcept { return side() == Side::dialled || rtt_ != Duration::zero(); }
  std::uint64_t attempt() const noexcept { return ahead().attempt; }

  /// As of its streams.
  std::uint64_t delivered() const { return delivered_before_ + way().stream->delivered(); }
  /// So fast from now on, and no faster; infinite: as fast as can be.
  void pace(double bytes_per_s);

  /// No new streams here: another connection to this peer stays.
  std::optional<TimePoint> superseded;
  /// It ends soon, and since then another way is looked for, to go on there.
  std::optional<TimePoint> renewed;

 private:
  Accepted on_open(Multiplexer&, StreamHandle, TrafficClass, OpenHead head, std::size_t message_bytes) override;
  std::string_view on_connection_frame(FrameType, std::span<const std::byte> head) override;
  void on_output() override { output_.notify(); }

  /// From one stream to another one.
  struct Move {
    enum class Step : std::uint8_t { waits, may_leave, leaves, left };
    std::unique_ptr<Opened> next;
    TimePoint deadline;
    Step step = Step::waits;  ///< of what we say
    bool came = false;        ///< what they say comes by the new one
  };

  /// Where what we say goes, and where what they say comes from: during a move there is a time for each to change.
  const Opened& way() const noexcept { return has_left() ? *move_->next : *opened_; }
  ByteStream& source() const noexcept { return move_ && move_->came ? *move_->next->stream : *opened_->stream; }
  bool has_left() const noexcept { return move_ && move_->step == Move::Step::left; }
  Task<Result<>> leave();
  std::string_view on_moved_frame();
  void end_move();
  void close_old_stream();
  void tick_move(TimePoint now);

  Task<> read_loop();
  Task<> write_loop();
  bool take(std::span<const std::byte> ciphertext);
  bool take_opened();
  Result<> fill();
  Result<> seal(const Piece& piece);
  std::size_t piece_bytes() const;
  void limit_queue();
  std::size_t sent_in(Duration time, std::size_t least, std::size_t most, std::size_t unknown) const;
  void finish(const std::string& reason);
  void ping(TimePoint now);
  std::string_view on_pong(std::span<const std::byte> head);
  void learn_skew(std::int64_t their_ms);
  bool is_slow(TimePoint now);
  void resize_read_buffer(std::size_t used);
  void rest();

  asio::any_io_executor executor_;
  Clock& clock_;
  ConnectionOwner& owner_;
  Options options_;
  std::unique_ptr<Opened> opened_;
  std::unique_ptr<Move> move_;
  unsigned moves_ = 0;
  std::unique_ptr<ByteStream> old_stream_;  ///< open still, so that the other end may read what was said last
  TimePoint old_stream_ends_{};
  Multiplexer streams_;

  std::unique_ptr<std::byte[]> read_buffer_;
  std::size_t read_bytes_;
  TimePoint last_long_read_{};
  Bytes small_;         ///< a frame's beginning
  ByteQueue outgoing_;  ///< what is being written
  Signal output_;
  Signal ended_;
  bool closing_ = false;
  bool said_all_ = false;
  bool trimmed_ = true;
  bool over_ = false;
  bool fell_silent_ = false;
  struct Doubt {
    TimePoint since;
    std::uint64_t delivered;  // by then
  };
  std::optional<Doubt> doubt_;
  bool heard_ = false;
  std::string reason_;
  TimePoint close_deadline_ = TimePoint::max();

  TimePoint last_received_;
  TimePoint attention_since_;
  Attention attention_ = Attention::idle;
  std::optional<std::uint64_t> pinged_;
  TimePoint last_ping_{};
  std::int64_t pinged_ms_ = 0;  ///< the same by our own clock
  Duration rtt_{};
  Duration rtt_deviation_{};
  Duration rtt_least_{};
  BandwidthMeter up_;
  std::size_t queue_bytes_ = 0;  // as wished last,
  double pace_ = kUnpaced;       // and this too
  std::uint64_t delivered_before_ = 0;
  double down_bytes_per_s_ = 0;
  TimePoint slow_since_;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t received_at_check_ = 0;
};

}  // namespace collab::net
