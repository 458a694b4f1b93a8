#include "net/connection.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace collab::net {
namespace {

constexpr double kRateMax = 1e12;
constexpr Duration kQuiet = std::chrono::seconds(1);
constexpr std::int64_t kSkewNoiseMs = 100;
constexpr double kPaceNoise = 0.005;
constexpr Duration kDoubtKept = std::chrono::seconds(30);
constexpr Duration kTrialTime = std::chrono::milliseconds(500);  // of who was doubted, at least
constexpr Duration kLeftTime = std::chrono::seconds(1);          // without an answer, of who is doubted

}  // namespace

Connection::Connection(asio::any_io_executor executor, Clock& clock, ConnectionOwner& owner, std::uint64_t serial,
                       std::unique_ptr<Opened> opened, const Options& options)
    : executor_(executor),
      clock_(clock),
      owner_(owner),
      options_(options),
      opened_(std::move(opened)),
      streams_(serial, opened_->channel.peer(), opened_->side == Side::dialled, *this, options.streams),
      read_buffer_(std::make_unique_for_overwrite<std::byte[]>(options.read_bytes_min)),
      read_bytes_(options.read_bytes_min),
      output_(executor),
      ended_(executor),
      last_received_(clock.now()),
      attention_since_(clock.now()),
      slow_since_(clock.now()) {}

Connection::~Connection() {
  opened_->stream->close();
  if (move_) move_->next->stream->close();
  close_old_stream();
}

Task<> Connection::run() {
  struct End {
    Connection& connection;
    ~End() { connection.finish("the endpoint ended"); }
  };
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const End end{*this};           // so that a cancelled loop finds it over, and need not throw
    if (!take_opened()) co_return;  // what came together with the hello
    ping(clock_.now());
    tasks.spawn("read", read_loop());
    tasks.spawn("write", write_loop());
    while (!over_) co_await ended_.wait();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

void Connection::close(const std::string& reason) {
  if (closing_ || over_) return;
  closing_ = true;
  reason_ = reason;
  close_deadline_ = clock_.now() + options_.close_time;
  streams_.lose();
  GoawayHead head;
  head.reason = reason;
  streams_.send_connection_frame(FrameType::goaway, encode_head(head));
}

void Connection::turn_away(const Refuse& why) {
  if (closing_ || over_) return;
  streams_.send_connection_frame(FrameType::refuse, encode_head(why));
  close("not allowed any more: " + why.text);
}

void Connection::drop(const std::string& reason) {
  finish(reason);
}

void Connection::finish(const std::string& reason) {
  if (over_) return;
  over_ = true;
  if (reason_.empty()) reason_ = reason;
  streams_.lose();
  ended_.notify();
}

// --- bytes in

Task<> Connection::read_loop() {
  while (!over_) {
    const std::span<std::byte> buffer(read_buffer_.get(), read_bytes_);
    const auto size = co_await source().read(buffer);
    if (!size || *size == 0) {
      finish(size ? "the other side closed the connection" : "the connection broke");
      co_return;
    }
    trimmed_ = *size < options_.read_bytes_min && trimmed_;
    received_bytes_ += *size;
    if (!take(buffer.first(*size))) co_return;
    if (!std::exchange(heard_, true)) owner_.on_heard(*this);
    resize_read_buffer(*size);
  }
}

/// False when nothing more is to be read. A record that has not come whole is a sign of life, too: on a slow line.
bool Connection::take(std::span<const std::byte> ciphertext) {
  SecureChannel& channel = opened_->channel;
  last_received_ = clock_.now();
  while (!ciphertext.empty()) {
    const auto taken = channel.receive_record(ciphertext, streams_.room());
    if (!channel.output().empty()) output_.notify();
    if (!taken) {
      if (!closing_) owner_.on_trouble(*this, "tls_record");  // anybody on the way can damage one
      finish(channel.failure());
      return false;
    }
    ciphertext = ciphertext.subspan(taken->ciphertext);
    if (taken->placed > 0) streams_.filled(taken->placed);
    if (over_) return false;
    if (!take_opened()) {
      if (!over_) (void)channel.receive(ciphertext);  // our last words come first, whatever else it says
      return !over_;
    }
    if (channel.closed()) {
      finish("the other side closed the connection");
      return false;
    }
  }
  if (attention_ != Attention::conversing) channel.rest();
  return true;
}

bool Connection::take_opened() {
  SecureChannel& channel = opened_->channel;
  const auto taken = streams_.receive(channel.opened());
  if (over_) return false;
  if (taken) {
    channel.consume(*taken);
    return true;
  }
  channel.consume(channel.opened().size());
  if (!closing_) {
    owner_.on_violation(*this, streams_.violation());
    close(std::string(streams_.violation()));
  }
  return false;
}

/// A quiet connection holds little memory, a busy one reads much at once.
void Connection::resize_read_buffer(std::size_t used) {
  const TimePoint now = clock_.now();
  std::size_t wanted = read_bytes_;
  if (used >= options_.read_bytes_min) last_long_read_ = now;
  if (used == read_bytes_) wanted = std::min(read_bytes_ * 4, options_.read_bytes_max);
  if (now - last_long_read_ > kQuiet) wanted = options_.read_bytes_min;
  if (wanted == read_bytes_) return;
  read_buffer_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
  read_bytes_ = wanted;
}

/// Nothing is to be written. Only who talks to a group has much to write soon; the others are many, so each keeps
/// nothing.
void Connection::rest() {
  if (attention_ == Attention::conversing) return;
  opened_->channel.rest();
  outgoing_.rest();
  small_ = Bytes();
}

// --- bytes out

Task<> Connection::write_loop() {
  SecureChannel& channel = opened_->channel;
  while (!over_) {
    if (move_ && move_->step == Move::Step::may_leave && !said_all_) {
      const auto left = co_await leave();
      if (!left) finish("the connection broke");
      continue;
    }
    const std::uint64_t before = streams_.traffic().sent[2] + streams_.traffic().sent[1];
    const auto sealed = fill();
    if (channel.output().empty()) {
      if (!sealed || said_all_) {
        finish(sealed ? "closed" : channel.failure());
        co_return;
      }
      up_.pause();
      rest();
      (void)co_await output_.wait();  // cancelled: it is over
      continue;
    }
    const std::uint64_t bytes = streams_.traffic().sent[2] + streams_.traffic().sent[1] - before;
    if (bytes > 0) up_.begin(clock_.now());
    channel.take_output(outgoing_);
    limit_queue();
    const auto written = co_await way().stream->write(outgoing_.bytes());
    outgoing_.consume(outgoing_.size());
    if (!written) {
      finish("the connection broke");
      co_return;
    }
    up_.add(clock_.now(), bytes);
  }
}

/// Seals what may leave now: small frames together, but at most one that is long, so that what comes next is decided
/// late.
Result<> Connection::fill() {
  SecureChannel& channel = opened_->channel;
  if (said_all_ || channel.fault() != TlsFault::none) return {};
  Piece piece;
  const std::size_t at_most = way().stream->write_at_most();
  const std::size_t soon =
      sent_in(options_.queue_time, options_.queue_bytes_min, options_.batch_bytes, options_.batch_bytes);
  const std::size_t batch = std::min(soon, at_most);
  const std::size_t longest = std::min(piece_bytes(), at_most);
  while (channel.output().size() < batch && streams_.next(piece, longest)) {
    const auto sealed = seal(piece);
    if (!sealed) return sealed.error();
  }
  if (closing_ && channel.output().size() < options_.batch_bytes) {
    said_all_ = true;
    return channel.close();
  }
  return {};
}

Result<> Connection::seal(const Piece& piece) {
  const auto prefix = encode(piece.prefix);
  small_.assign(prefix.begin(), prefix.end());
  small_.insert(small_.end(), piece.head.begin(), piece.head.end());
  return opened_->channel.seal(small_, piece.payload());
}

std::size_t Connection::piece_bytes() const {
  return sent_in(options_.piece_time, options_.piece_bytes_min, options_.piece_bytes_max, options_.piece_bytes_first);
}

/// No control frame passes what the operating system has taken over: on a slow line that is little.
void Connection::limit_queue() {
  const std::size_t wanted =
      sent_in(options_.queue_time, options_.queue_bytes_min, options_.queue_bytes_max, options_.queue_bytes_first);
  if (2 * wanted > queue_bytes_ && wanted < 2 * queue_bytes_) return;
  queue_bytes_ = wanted;
  way().stream->queue_at_most(wanted);
}

void Connection::pace(double bytes_per_s) {
  if (bytes_per_s == pace_ || std::abs(bytes_per_s - pace_) < kPaceNoise * pace_) return;
  pace_ = bytes_per_s;
  way().stream->pace(bytes_per_s);
}

/// `unknown`: while nothing was measured, unless the other end is near.
std::size_t Connection::sent_in(Duration time, std::size_t least, std::size_t most, std::size_t unknown) const {
  const double rate = up_.bytes_per_s();
  const bool near = rtt_ > Duration::zero() && rtt_ < std::chrono::milliseconds(1);
  if (rate <= 0) return near ? most : unknown;
  return static_cast<std::size_t>(
      std::clamp(rate * to_seconds(time), static_cast<double>(least), static_cast<double>(most)));
}

// --- from one stream to another

std::vector<char> Connection::name() const {
  std::vector<char> name;
  for (const std::byte byte : opened_->channel.exporter(kMovedConnection)) name.push_back(std::to_integer<char>(byte));
  return name;
}

bool Connection::move_to(std::unique_ptr<Opened> next) {
  if (over_ || closing_ || is_moving()) return false;
  move_ = std::make_unique<Move>();
  move_->deadline = clock_.now() + options_.move_time;
  if (next->side == Side::dialled) move_->step = Move::Step::may_leave;  // the other end's hello said that it follows
  move_->next = std::move(next);
  output_.notify();
  return true;
}

/// What was written before `moved` is on its way by the old stream; all else is sealed after it.
Task<Result<>> Connection::leave() {
  Piece last;
  last.prefix.type = static_cast<std::uint8_t>(FrameType::moved);
  const auto sealed = seal(last);
  if (!sealed) co_return sealed.error();
  opened_->channel.take_output(outgoing_);
  move_->step = Move::Step::leaves;
  const auto written = co_await opened_->stream->write(outgoing_.bytes());
  outgoing_.consume(outgoing_.size());
  if (!written || over_) co_return written;
  delivered_before_ = delivered();
  move_->step = Move::Step::left;
  if (pace_ != kUnpaced) way().stream->pace(pace_);
  if (move_->came) end_move();
  up_ = BandwidthMeter();
  rtt_ = rtt_deviation_ = rtt_least_ = Duration::zero();
  down_bytes_per_s_ = 0;
  queue_bytes_ = 0;
  ping(clock_.now());
  owner_.on_new_path(*this);
  co_return Result<>();
}

std::string_view Connection::on_moved_frame() {
  if (!move_ || move_->came) {
    finish("the other side goes on where this one does not");  // it followed too late, so it is no violation
    return {};
  }
  move_->came = true;
  if (move_->step == Move::Step::waits) move_->step = Move::Step::may_leave;
  const bool both = move_->step == Move::Step::left;
  if (both) end_move();
  output_.notify();
  if (both) owner_.on_new_path(*this);
  return {};
}

/// Both have left the old stream. Who left it last has said something there that the other end may not have read.
void Connection::end_move() {
  const bool was_first = move_->next->side == Side::dialled;
  close_old_stream();
  old_stream_ = std::move(opened_->stream);
  old_stream_ends_ = clock_.now() + options_.move_time;
  opened_->stream = std::move(move_->next->stream);
  opened_->side = move_->next->side;
  opened_->theirs = std::move(move_->next->theirs);
  opened_->attempt = move_->next->attempt;
  opened_->skew_ms = move_->next->skew_ms;
  opened_->punched = move_->next->punched;
  renewed.reset();
  move_.reset();
  ++moves_;
  if (was_first) close_old_stream();
}

void Connection::close_old_stream() {
  if (old_stream_) old_stream_->close();
  old_stream_.reset();
}

void Connection::tick_move(TimePoint now) {
  if (now >= old_stream_ends_) close_old_stream();
  if (!move_ || now < move_->deadline) return;
  if (move_->came || move_->step >= Move::Step::leaves) return finish("the other side did not follow to a new path");
  move_->next->stream->close();
  move_.reset();
  owner_.on_new_path(*this);
}

// --- frames about the connection

Accepted Connection::on_open(Multiplexer&, StreamHandle stream, TrafficClass traffic, OpenHead head,
                             std::size_t message_bytes) {
  if (closing_) return Refusal(Errc::gone, "the connection closes");
  return owner_.on_open(*this, stream, traffic, std::move(head), message_bytes);
}

std::string_view Connection::on_connection_frame(FrameType type, std::span<const std::byte> head) {
  switch (type) {
    case FrameType::ping: {
      auto ping = decode_head<PingHead>(head);
      if (!ping) return "malformed_head";
      ping->up_bytes_per_s = up_.bytes_per_s();
      ping->time_ms = owner_.swarm_ms();
      streams_.send_connection_frame(FrameType::pong, encode_head(*ping));
      return {};
    }
    case FrameType::pong: return on_pong(head);
    case FrameType::goaway: {
      const auto goaway = decode_head<GoawayHead>(head);
      if (!goaway || goaway->reason.size() > 256) return "malformed_head";
      owner_.on_goaway(*this, goaway->reason);
      return {};
    }
    case FrameType::moved: return on_moved_frame();
    default: {
      const auto refuse = decode_head<Refuse>(head);
      if (!refuse) return "malformed_head";
      const Refusal why = to_refusal(*refuse);
      finish("refused: " + why.reason);
      owner_.on_refused(*this, why);
      return {};
    }
  }
}

std::string_view Connection::on_pong(std::span<const std::byte> head) {
  const auto pong = decode_head<PingHead>(head);
  if (!pong || !is_time(pong->time_ms)) return "malformed_head";
  if (!pinged_ || pong->sent != *pinged_) return {};
  pinged_.reset();
  if (!move_) close_old_stream();  // the other end answers what it has read on the new one, so it has read the old one
  learn_skew(pong->time_ms);
  const Duration rtt = clock_.now() - last_ping_;
  if (rtt_ == Duration::zero()) {
    rtt_ = rtt_least_ = rtt;
    rtt_deviation_ = rtt / 2;
    owner_.on_skew(*this);  // it counts from now on
  } else {
    rtt_deviation_ += (std::chrono::abs(rtt - rtt_) - rtt_deviation_) / 4;
    rtt_ += (rtt - rtt_) / 8;
    rtt_least_ = std::min(rtt_least_, rtt);
  }
  if (pong->up_bytes_per_s >= 0 && pong->up_bytes_per_s <= kRateMax) down_bytes_per_s_ = pong->up_bytes_per_s;
  return {};
}

/// A difference within the error of the measurement is no news. It must not count: what we say follows what others
/// say, who follow us, and the noise of all would walk away with everybody's time.
void Connection::learn_skew(std::int64_t their_ms) {
  const std::int64_t took_ms = owner_.own_ms() - pinged_ms_;
  const std::int64_t skew_ms = their_ms - (pinged_ms_ + took_ms / 2);
  if (std::abs(skew_ms - opened_->skew_ms) <= took_ms + kSkewNoiseMs) return;
  opened_->skew_ms = skew_ms;
  owner_.on_skew(*this);
}

void Connection::ping(TimePoint now) {
  PingHead head;
  head.sent = static_cast<std::uint64_t>(now.time_since_epoch().count());
  head.up_bytes_per_s = up_.bytes_per_s();
  head.time_ms = owner_.swarm_ms();
  pinged_ = head.sent;
  last_ping_ = now;
  pinged_ms_ = owner_.own_ms();
  streams_.send_connection_frame(FrameType::ping, encode_head(head));
}

void Connection::tick(TimePoint now, Attention attention) {
  if (over_) return;
  if (now >= close_deadline_) return finish(reason_);
  tick_move(now);
  if (over_) return;
  if (attention != Attention::idle && attention_ == Attention::idle) attention_since_ = now;
  attention_ = attention;
  const bool idle = attention == Attention::idle;
  const TimePoint heard = idle ? last_received_ : std::max(last_received_, attention_since_);
  if (now - heard >= (idle ? options_.gone_idle : options_.gone_waiting)) {
    fell_silent_ = true;
    return finish("silent");
  }
  Duration patience = idle                              ? options_.ping_idle
                      : attention == Attention::waiting ? options_.ping_waiting
                                                        : options_.ping_conversing;
  // what the dialler asks tells both; who was dialled asks when that does not come
  if (side() == Side::accepted && attention != Attention::waiting) patience += patience / 2;
  const bool silent = now - last_received_ >= patience;
  const bool stale_rtt = !idle && now - last_ping_ >= options_.ping_idle;
  if ((silent || stale_rtt) && !pinged_) ping(now);
  if (is_slow(now)) {
    owner_.on_trouble(*this, "slow_message");
    streams_.reset_unfinished(Refusal(Errc::late, "slow_message"));
  }
  if (idle && silent && !trimmed_) {
    trimmed_ = true;
    opened_->channel.trim();
    if (outgoing_.empty()) outgoing_.trim();
  }
}

void Connection::probe(TimePoint now) {
  if (!over_ && !pinged_) ping(now);
}

bool Connection::is_unanswered(TimePoint now, Duration since) const {
  return pinged_ && now - std::max(last_received_, last_ping_) > since;
}

bool Connection::may_be_doubted(TimePoint now) const {
  return !over_ && !(doubt_ && now - doubt_->since < kDoubtKept);
}

void Connection::doubt(TimePoint now) {
  if (!may_be_doubted(now)) return;
  doubt_ = Doubt{now, delivered()};
  probe(now);
}

bool Connection::is_left(TimePoint now) const {
  return is_doubted() && now - doubt_->since >= kTrialTime && is_unanswered(now, std::max(kLeftTime, 3 * rtt_)) &&
         delivered() == doubt_->delivered;
}

bool Connection::is_slow(TimePoint now) {
  if (now - slow_since_ < options_.slow_time && streams_.inside_message()) return false;
  const bool slow = streams_.inside_message() && received_bytes_ - received_at_check_ < options_.slow_bytes;
  slow_since_ = now;
  received_at_check_ = received_bytes_;
  return slow;
}

void Connection::forgive_silence(TimePoint now) {
  last_received_ = std::max(last_received_, now);
  attention_since_ = now;
  slow_since_ = now;
}

}  // namespace collab::net
