#include "sim/network.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/container/deque.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;  // streams of one line take turns at this size
constexpr std::size_t kShareMin = 16 * 1024;
constexpr std::size_t kPacketBytes = 1400;
constexpr std::size_t kSliceMin = 512;
constexpr Duration kSliceTime = std::chrono::milliseconds(100);
constexpr std::size_t kBulkBytes = 2048;  // what is written at once and has more is of a tensor
constexpr Duration kLossDelayMin = std::chrono::milliseconds(200);
constexpr std::size_t kBacklogMax = 128;

}  // namespace

/// The boxes that a stream goes through, and its port at each.
struct Host::Through {
  Doors doors;
  bool cut = false;  // for good, once a mapping is gone: its bytes are in order or nowhere
  bool passes(TimePoint now) {
    for (const auto& [box, port] : doors) cut = !box->passes(port, now) || cut;
    return !cut;
  }
};

/// Where a dial goes.
struct Host::Route {
  Host* to = nullptr;  // null: nobody has that address
  std::uint16_t port = 0;
  bool dropped = false;                    // by a box
  bool refused = false;                    // by a box that says so
  Duration answered_in{};                  // the same
  std::optional<net::Address> seen;        // as whom; none: as itself
  std::shared_ptr<Host::Through> through;  // null: through nothing
};

/// One direction of a stream. As an event: its next piece arrives.
struct Host::Pipe final : Event, std::enable_shared_from_this<Host::Pipe> {
  struct Piece {
    Bytes bytes;        // none: the end of the stream
    double charged;     // bytes that a line carries for them
    TimePoint arrives;  // at the receiver's line
    bool landing = false;
  };

  Pipe(SimNetwork& of, Host& sender, Host& receiver, std::uint64_t number)
      : Event(of.world_.clock().events()),
        network(of),
        from(sender),
        to(receiver),
        stream(number),
        moves_before(sender.moves_ + receiver.moves_),
        latency(of.latency(sender, receiver)),
        window(of.options_.queue_bytes),
        readable(sender.executor()),
        writable(sender.executor()) {}

  SimNetwork& network;
  Host& from;
  Host& to;
  std::uint64_t stream;
  std::size_t moves_before;  // of both
  std::shared_ptr<Through> through;
  Duration latency;
  boost::container::deque<Piece> on_the_way;  // most are empty most of the time, and take no memory then
  std::shared_ptr<Pipe> moving;               // itself while something is on the way, whoever else has let go
  boost::container::deque<Bytes> arrived;
  std::size_t read_offset = 0;   // into arrived.front()
  std::size_t moving_bytes = 0;  // on the way
  std::size_t queued_bytes = 0;  // and unread:
  std::size_t window;            // at most so many
  TimePoint last_arrival{};
  bool ended = false;         // the sender's last byte has arrived
  bool write_closed = false;  // the sender sends no more; what is on the way still arrives
  bool read_closed = false;   // the receiver takes no more
  Signal readable;
  Signal writable;

  void put(Bytes bytes, double charged) {
    moves(moving_bytes + bytes.size());
    queued_bytes += bytes.size();
    on_the_way.push_back({std::move(bytes), charged, last_arrival, false});
    if (on_the_way.size() > 1) return;
    moving = shared_from_this();
    set(last_arrival);
  }

  /// Its oldest piece, so that order holds.
  Bytes take() {
    Bytes piece = std::move(on_the_way.front().bytes);
    moves(moving_bytes - piece.size());
    on_the_way.pop_front();
    if (!on_the_way.empty()) set(on_the_way.front().arrives);
    return piece;
  }

  /// All but the first `kept` pieces never arrive.
  void lose_all_but(std::size_t kept) {
    for (std::size_t i = kept; i < on_the_way.size(); ++i) {
      moves(moving_bytes - on_the_way[i].bytes.size());
      queued_bytes -= on_the_way[i].bytes.size();
    }
    on_the_way.resize(kept);
    if (kept > 0) return;
    call_off();
    moving.reset();
  }

  void moves(std::size_t bytes) {
    const bool was_bulk = std::exchange(moving_bytes, bytes) > kBulkBytes;
    const bool is_bulk = bytes > kBulkBytes;
    if (was_bulk == is_bulk) return;
    from.streams_up_ += is_bulk ? 1 : std::size_t(-1);
    to.streams_down_ += is_bulk ? 1 : std::size_t(-1);
  }

  void stop_reading() {
    read_closed = true;
    readable.notify();
    writable.notify();
  }

 private:
  void happen() override { network.arrive(*this); }
};

class Host::HostClock final : public Clock {
 public:
  explicit HostClock(Host& host) : host_(host), turns_(Turns::of(host.executor())) {}
  TimePoint now() const override { return local(world().now()); }
  std::int64_t unix_ms() const override {
    const Duration ahead = drift(world().now()) + host_.clock_options_.ahead + host_.calendar_ahead_;
    return world().unix_ms() + std::chrono::duration_cast<std::chrono::milliseconds>(ahead).count();
  }
  Task<> sleep_until(TimePoint when) override {
    Wakeup alarm(turns_);
    do {  // again, when this clock has stood still meanwhile
      const Alarm ringing(world().events(), alarm, in_world(when));
      co_await alarm.wait();
      if (!ringing.rang()) throw boost::system::system_error(asio::error::operation_aborted);
      if (host_.frozen_) co_await host_.thawed();
    } while (now() < when);
  }
  Task<bool> rings(Wakeup& alarm, TimePoint when) override {
    do {
      const Alarm ringing(world().events(), alarm, in_world(when));
      co_await alarm.wait();
      if (!ringing.rang()) co_return false;
      if (host_.frozen_) co_await host_.thawed();
    } while (now() < when);
    co_return true;
  }
  /// The first moment at which this clock shows at least `when`, unless it is to stand still.
  TimePoint in_world(TimePoint when) const {
    if (when == TimePoint::max()) return when;
    when += host_.suspended_;
    if (host_.clock_options_.drift_ppb == 0) return when;
    const std::int64_t ns = when.time_since_epoch().count();
    const std::int64_t rate = kBillion + host_.clock_options_.drift_ppb;
    TimePoint guess(Duration(ns / rate * kBillion + ns % rate * kBillion / rate));
    while (guess + drift(guess) < when) guess += Duration(1);
    return guess;
  }

 private:
  static constexpr std::int64_t kBillion = 1'000'000'000;
  SimClock& world() const { return host_.network_.world_.clock(); }
  TimePoint local(TimePoint when) const {
    const TimePoint seen = host_.suspended_at_ ? std::min(when, *host_.suspended_at_) : when;
    return seen + drift(seen) - host_.suspended_;
  }
  /// What it has gained by then; whole seconds apart from the rest, so that nothing overflows.
  Duration drift(TimePoint when) const {
    const std::int64_t ppb = host_.clock_options_.drift_ppb;
    if (ppb == 0) return Duration();
    const std::int64_t ns = when.time_since_epoch().count();
    return Duration(ns / kBillion * ppb + ns % kBillion * ppb / kBillion);
  }

  Host& host_;
  Turns& turns_;
};

class Host::Stream final : public net::ByteStream {
 public:
  Stream(Host& host, std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in, net::Address local, net::Address remote)
      : host_(host), out_(std::move(out)), in_(std::move(in)), local_(std::move(local)), remote_(std::move(remote)) {}
  ~Stream() override { Stream::close(); }
  Task<Result<std::size_t>> read(std::span<std::byte> into) override { return host_.read(in_, into); }
  Task<Result<>> write(std::span<const std::byte> bytes) override { return host_.write(out_, bytes); }
  void close() override {
    host_.network_.end(*out_);
    in_->stop_reading();
  }
  void receive_at_most(std::size_t bytes) override {
    in_->window = std::min(bytes, host_.network_.options_.queue_bytes);
    in_->writable.notify();
  }
  net::Address remote() const override { return remote_; }
  net::Address local() const override { return local_; }
  bool is_stranded() override { return local_.host != host_.address_ && host_.box_ == nullptr; }

 private:
  Host& host_;
  std::shared_ptr<Pipe> out_;
  std::shared_ptr<Pipe> in_;
  net::Address local_;
  net::Address remote_;
};

class Host::Acceptor final : public net::Listener {
 public:
  Acceptor(Host& host, std::uint16_t port) : host_(host), port_(port), arrived_(host.executor()) {
    host_.listening_[port_] = this;
  }
  ~Acceptor() override { Acceptor::close(); }

  Task<Result<std::unique_ptr<net::ByteStream>>> accept() override {
    while (waiting_.empty() && !closed_ && host_.alive_) co_await arrived_.wait();
    co_await host_.thawed();
    if (closed_ || !host_.alive_ || waiting_.empty()) co_return Errc::gone;
    auto stream = std::move(waiting_.front());
    waiting_.pop_front();
    co_return Result<std::unique_ptr<net::ByteStream>>(std::move(stream));
  }
  net::Address local() const override { return {host_.address_, port_}; }  // wherever its machine has moved
  void close() override {
    if (!closed_) host_.listening_.erase(port_);
    closed_ = true;
    arrived_.notify();
  }

  bool offer(std::unique_ptr<net::ByteStream>& stream) {
    if (waiting_.size() >= kBacklogMax) return false;
    waiting_.push_back(std::move(stream));
    arrived_.notify();
    return true;
  }

 private:
  Host& host_;
  std::uint16_t port_;
  Signal arrived_;
  std::deque<std::unique_ptr<net::ByteStream>> waiting_;
  bool closed_ = false;
};

Host::Host(SimNetwork& network, std::size_t number, std::string name, std::string address, LineOptions line)
    : network_(network),
      number_(number),
      name_(std::move(name)),
      address_(std::move(address)),
      line_(line),
      clock_(std::make_unique<HostClock>(*this)),
      thaw_(network.world_.executor()) {}

Host::~Host() = default;

Clock& Host::clock() noexcept {
  return *clock_;
}

asio::any_io_executor Host::executor() {
  return network_.world_.executor();
}

Task<> Host::thawed() {
  for (bool waits = true; frozen_ && waits;) waits = co_await thaw_.wait();
}

Task<Result<std::unique_ptr<net::ByteStream>>> Host::dial(net::Address to, TimePoint deadline) {
  using Dialled = Result<std::unique_ptr<net::ByteStream>>;
  // a name is looked up before anything leaves, so boxes and remote() know the address only
  const auto named = network_.hosts_.find(to.host);
  if (named != network_.hosts_.end() && !network_.left_.contains(to.host)) to.host = named->second->address();
  const Route route = network_.route(*this, to);
  if (alive_ && route.dropped) {
    co_await clock().sleep_until(deadline);
    co_return Errc::late;
  }
  if (alive_ && route.refused) co_await clock().sleep_until(std::min(deadline, clock().now() + route.answered_in));
  if (!alive_ || route.refused || route.to == nullptr) co_return Errc::gone;
  Host& other = *route.to;
  const std::size_t moves_before = moves_ + other.moves_;
  const Duration one_way = network_.latency(*this, other);
  const TimePoint answered = network_.world_.clock().now() + 2 * one_way;
  if (answered > clock_->in_world(deadline)) {
    co_await clock().sleep_until(deadline);
    co_return Errc::late;
  }
  co_await network_.world_.clock().sleep_until(answered);
  if (frozen_) co_await thawed();
  while (!network_.moves(*this, other) || !network_.moves(other, *this)) {
    const bool opened = co_await network_.opened_.wait_until(clock(), deadline);
    if (!opened) co_return Errc::late;
  }
  if (!alive_ || !other.alive_ || !other.listening_.contains(route.port)) co_return Errc::gone;
  if (moves_ + other.moves_ != moves_before) {
    co_await clock().sleep_until(deadline);
    co_return Errc::late;
  }

  const net::Address mine{address_, next_port_++};
  const net::Address theirs{route.through ? to.host : other.address_, to.port};
  const Ends ends{mine, route.seen.value_or(mine), net::Address{other.address_, route.port}, theirs};
  auto [near, far] = join(other, ends, route.through ? route.through->doors : Doors());
  if (!other.offer(route.port, far)) co_return Errc::gone;
  co_return Dialled(std::move(near));
}

Host::Joined Host::join(Host& other, const Ends& ends, const Doors& doors) {
  const std::uint64_t number = network_.next_stream_++;
  const auto there = network_.make_pipe(*this, other, number);
  const auto back = network_.make_pipe(other, *this, number);
  if (!doors.empty()) {
    there->through = back->through = std::make_shared<Through>();
    there->through->doors = doors;
  }
  return {std::make_unique<Stream>(*this, there, back, ends.here, ends.there_seen),
          std::make_unique<Stream>(other, back, there, ends.there, ends.here_seen)};
}

bool Host::offer(std::uint16_t port, std::unique_ptr<net::ByteStream>& stream) {
  const auto listener = listening_.find(port);
  return listener != listening_.end() && listener->second->offer(stream);
}

Result<std::unique_ptr<net::Listener>> Host::listen(const net::Address& at) {
  std::uint16_t port = at.port;
  while (port == 0 || (at.port == 0 && listening_.contains(port))) port = next_port_++;
  if (listening_.contains(port)) return Errc::busy;
  return Result<std::unique_ptr<net::Listener>>(std::make_unique<Acceptor>(*this, port));
}

const net::ChannelEngines* Host::channel_engines() const noexcept {
  return network_.engines_;
}

/// How much a writer may add now.
std::size_t Host::room(const Pipe& pipe) const {
  const LinkOptions& options = network_.options_;
  std::size_t room = pipe.window - std::min(pipe.window, pipe.queued_bytes);
  const auto shares = [&](double bytes_per_s, std::size_t streams) {
    const double kept = bytes_per_s / options.bulk_charge * to_seconds(pipe.latency + options.buffer);
    const std::size_t least = std::min(kShareMin, network_.slice_bytes(bytes_per_s));
    const std::size_t share = std::max(least, static_cast<std::size_t>(kept) / std::max<std::size_t>(streams, 1));
    room = std::min(room, share - std::min(share, pipe.moving_bytes));
  };
  shares(pipe.from.line_.up_bytes_per_s / pipe.from.slowness_, pipe.from.streams_up_);
  shares(pipe.to.line_.down_bytes_per_s / pipe.to.slowness_, pipe.to.streams_down_);
  return room;
}

Task<Result<>> Host::write(std::shared_ptr<Pipe> pipe, std::span<const std::byte> bytes) {
  const bool is_bulk = bytes.size() > kBulkBytes;
  const double bytes_per_s = std::min(line_.up_bytes_per_s, pipe->to.line_.down_bytes_per_s);
  const std::size_t longest = is_bulk ? network_.slice_bytes(bytes_per_s) : kPieceBytes;
  while (!bytes.empty()) {
    // that the other end has closed comes here as anything does that is sent, or not
    const auto closed_there = [&] { return pipe->read_closed && !network_.leads_nowhere(*pipe); };
    const auto open = [&] { return alive_ && !pipe->write_closed && !closed_there(); };
    while (open() && room(*pipe) == 0) co_await pipe->writable.wait();
    if (frozen_) co_await thawed();
    if (!open()) co_return Errc::gone;
    const std::size_t size = std::min({bytes.size(), longest, room(*pipe)});
    if (size == 0) continue;
    network_.send(*pipe, bytes.first(size), is_bulk);
    bytes = bytes.subspan(size);
  }
  co_return Result<>();
}

Task<Result<std::size_t>> Host::read(std::shared_ptr<Pipe> pipe, std::span<std::byte> into) {
  assert(!into.empty());
  while (alive_ && !pipe->read_closed && !pipe->ended && pipe->arrived.empty()) {
    const bool notified = co_await pipe->readable.wait();
    if (!notified) co_return Errc::gone;  // cancelled, as of a socket
  }
  if (frozen_) co_await thawed();
  if (!alive_ || pipe->read_closed) co_return Errc::gone;
  std::size_t size = 0;
  while (size < into.size() && !pipe->arrived.empty()) {
    const Bytes& front = pipe->arrived.front();
    const std::size_t part = std::min(into.size() - size, front.size() - pipe->read_offset);
    std::memcpy(into.data() + size, front.data() + pipe->read_offset, part);
    size += part;
    pipe->read_offset += part;
    if (pipe->read_offset < front.size()) break;
    pipe->arrived.pop_front();
    pipe->read_offset = 0;
  }
  pipe->queued_bytes -= size;
  pipe->writable.notify();
  co_return size;
}

SimNetwork::SimNetwork(Simulation& world, std::uint64_t seed, LinkOptions options)
    : world_(world), options_(options), random_(Random(seed).derive("sim.network")), opened_(world.executor()) {}

SimNetwork::~SimNetwork() = default;

Host& SimNetwork::add_host(const std::string& name, LineOptions line) {
  const std::size_t number = hosts_.size() + 1;
  boost::system::error_code is_a_word;
  (void)asio::ip::make_address(name, is_a_word);
  const std::string address = !is_a_word ? name : fmt::format("10.9.{}.{}", number / 250, number % 250 + 1);
  Host& host = *hosts_.emplace(name, std::make_unique<Host>(*this, number, name, address, line)).first->second;
  by_address_.emplace(host.address(), &host);
  return host;
}

Host* SimNetwork::find(const std::string& name_or_address) const {
  const auto host = by_address_.find(name_or_address);
  if (host != by_address_.end()) return host->second;
  const auto named = hosts_.find(name_or_address);
  return named == hosts_.end() ? nullptr : named->second.get();
}

std::string SimNetwork::next_outside() {
  ++outsides_;
  return fmt::format("198.51.{}.{}", outsides_ / 250, outsides_ % 250 + 1);
}

Host* SimNetwork::end_at(const std::string& address) const {
  if (const auto host = by_address_.find(address); host != by_address_.end()) return host->second;
  const NatBox* const box = box_at(address);
  const auto is_behind = [&](const auto& entry) { return box != nullptr && entry.second->box_ == box; };
  const auto found = std::find_if(hosts_.begin(), hosts_.end(), is_behind);
  return found == hosts_.end() ? nullptr : found->second.get();
}

NatBox& SimNetwork::add_box(const NatOptions& options) {
  boxes_.push_back(std::make_unique<NatBox>(next_outside(), options));
  return *boxes_.back();
}

void SimNetwork::add_firewall(Host& host, NatOptions options) {
  options.mapping = NatMapping::none;
  boxes_.push_back(std::make_unique<NatBox>(host.address(), options));
  put_behind(host, *boxes_.back());
}

void SimNetwork::put_behind(Host& host, NatBox& box) {
  host.box_ = &box;
}

void SimNetwork::reboot(NatBox& box) {
  box.reboot(next_outside());
}

void SimNetwork::renumber(Host& host) {
  by_address_.erase(host.address_);
  left_.insert(host.address_);
  ++host.moves_;
  ++renumbered_;
  host.address_ = fmt::format("10.10.{}.{}", renumbered_ / 250, renumbered_ % 250 + 1);
  by_address_.emplace(host.address_, &host);
  for (const auto& weak : pipes_) {
    const auto pipe = weak.lock();
    if (pipe && (&pipe->from == &host || &pipe->to == &host)) pipe->lose_all_but(0);
  }
}

NatBox* SimNetwork::box_at(const std::string& address) const {
  const auto found =
      std::find_if(boxes_.begin(), boxes_.end(), [&](const auto& box) { return box->outside() == address; });
  return found == boxes_.end() ? nullptr : found->get();
}

Host::Route SimNetwork::route(Host& from, const net::Address& to) {
  Host::Route route;
  route.to = find(to.host);
  route.port = to.port;
  route.dropped = left_.contains(to.host);
  if (!boxes_.empty()) route_through_boxes(from, to, route);
  return route;
}

void SimNetwork::route_through_boxes(Host& from, const net::Address& to, Host::Route& route) {
  NatBox* const far = box_at(to.host);
  if (far == nullptr && route.to == nullptr) return;
  if (route.to != nullptr && route.to->box_ == from.box_) return;  // both outside, or both at home
  for (const auto& [name, host] : hosts_) {
    const bool meant = host.get() == route.to || (far != nullptr && host->box_ == far);
    if (meant && host->box_ != nullptr && from.box_ != nullptr && host->box_ != from.box_ && on_hidden_dial_)
      on_hidden_dial_(from, *host);
  }
  // behind a firewall it is the machine's own
  const bool hidden = far == nullptr && route.to != nullptr && route.to->box_ != nullptr;
  route.dropped = route.dropped || hidden;  // an address that means nothing out here
  if (route.dropped) return;
  const TimePoint now = world_.clock().now();
  route.through = std::make_shared<Host::Through>();
  net::Address seen{from.address_, from.next_port_++};
  if (from.box_ != nullptr) {
    const auto out = from.box_->out(seen, to, now);
    route.dropped = !out;
    if (!out) return;
    seen = *out;
    route.through->doors.emplace_back(from.box_, seen.port);
  }
  route.seen = seen;
  if (far == nullptr) return;
  const auto inside = far->in(to.port, seen, now);
  route.refused = !inside && far->options().closed == NatClosed::resets;
  route.dropped = !inside && !route.refused;
  if (route.refused) route.answered_in = 2 * latency(from, *end_at(to.host));
  if (!inside) return;
  route.to = find(inside->host);
  route.port = inside->port;
  route.through->doors.emplace_back(far, to.port);
}

void SimNetwork::kill(Host& host) {
  host.alive_ = false;
  resume(host);
  thaw(host);
  for (const auto& weak : pipes_) {
    const auto pipe = weak.lock();
    if (!pipe) continue;
    if (&pipe->to == &host) pipe->stop_reading();
    if (&pipe->from != &host || pipe->write_closed) continue;
    pipe->lose_all_but(random_.below(pipe->on_the_way.size() + 1));
    end(*pipe);
  }
  auto listening = std::exchange(host.listening_, {});
  for (auto& [port, acceptor] : listening) acceptor->close();
}

void SimNetwork::revive(Host& host) {
  host.alive_ = true;
}

void SimNetwork::freeze(Host& host) {
  host.frozen_ = true;
}

void SimNetwork::thaw(Host& host) {
  host.frozen_ = false;
  host.thaw_.notify();
}

void SimNetwork::suspend(Host& host) {
  host.suspended_at_ = world_.clock().now();
  freeze(host);
}

void SimNetwork::resume(Host& host) {
  if (!host.suspended_at_) return;
  host.suspended_ += world_.clock().now() - *host.suspended_at_;
  host.suspended_at_.reset();
  thaw(host);
}

void SimNetwork::partition(std::set<std::string> side) {
  separate(std::vector(1, std::move(side)));
}

void SimNetwork::separate(const std::vector<std::set<std::string>>& sides) {
  for (const auto& [name, host] : hosts_) {
    const auto on = std::find_if(sides.begin(), sides.end(), [&](const auto& side) { return side.contains(name); });
    host->side_ = on == sides.end() ? 0 : static_cast<std::size_t>(on - sides.begin()) + 1;
  }
  opened();
}

void SimNetwork::heal() {
  separate({});
}

void SimNetwork::clog(const Host& from, const Host& to, bool clogged) {
  if (clogged) {
    clogged_.emplace(from.number_, to.number_);
  } else {
    clogged_.erase({from.number_, to.number_});
    opened();
  }
}

void SimNetwork::block(Host& host, bool out, bool in) {
  host.blocked_out_ = out;
  host.blocked_in_ = in;
  opened();
}

void SimNetwork::opened() {
  for (const auto& pipe : std::exchange(stuck_, {})) arrive(*pipe);
  opened_.notify();
}

void SimNetwork::slow(Host& host, double factor) {
  host.slowness_ = factor;
}

void SimNetwork::set_clock(Host& host, ClockOptions options) {
  host.clock_options_ = options;
}

void SimNetwork::shift_calendar(Host& host, Duration ahead) {
  host.calendar_ahead_ = ahead;
}

void SimNetwork::corrupt(Host& host) {
  host.corrupts_ = true;
}

void SimNetwork::cut(Host& a, Host& b) {
  for (const auto& weak : pipes_) {
    const auto pipe = weak.lock();
    if (!pipe) continue;
    const bool between = (&pipe->from == &a && &pipe->to == &b) || (&pipe->from == &b && &pipe->to == &a);
    if (!between) continue;
    pipe->write_closed = true;
    pipe->stop_reading();
  }
}

bool SimNetwork::moves(const Host& from, const Host& to) const {
  if (from.side_ != to.side_ || from.blocked_out_ || to.blocked_in_) return false;
  return clogged_.empty() || !clogged_.contains({from.number_, to.number_});
}

Duration SimNetwork::latency(const Host& a, const Host& b) {
  if (&a == &b) return std::chrono::microseconds(50);
  const std::pair<std::size_t, std::size_t> pair = std::minmax(a.number_, b.number_);
  const auto known = latencies_.find(pair);
  if (known != latencies_.end()) return known->second;
  const auto spread = static_cast<std::uint64_t>((options_.latency_max - options_.latency_min).count());
  const Duration drawn = options_.latency_min + Duration(random_.below(spread + 1));
  latencies_.emplace(pair, drawn);
  return drawn;
}

std::shared_ptr<Host::Pipe> SimNetwork::make_pipe(Host& from, Host& to, std::uint64_t stream) {
  if (pipes_.size() >= 2 * pipes_swept_ + 64) {  // a long run opens many
    std::erase_if(pipes_, [](const auto& pipe) { return pipe.expired(); });
    pipes_swept_ = pipes_.size();
  }
  auto pipe = std::make_shared<Pipe>(*this, from, to, stream);
  pipes_.emplace_back(pipe);
  return pipe;
}

std::size_t SimNetwork::streams() const {
  const auto alive = [](const auto& pipe) { return !pipe.expired(); };
  return static_cast<std::size_t>(std::count_if(pipes_.begin(), pipes_.end(), alive));
}

/// So many bytes of a tensor arrive together on such a line: what it carries in a moment. What is charged as more comes
/// in as many pieces as if it were more.
std::size_t SimNetwork::slice_bytes(double bytes_per_s) const {
  const auto bytes = static_cast<std::size_t>(bytes_per_s * to_seconds(kSliceTime) / options_.bulk_charge);
  const auto most = static_cast<std::size_t>(kPieceBytes / options_.bulk_charge);
  return std::max(kSliceMin, std::min(most, bytes));
}

bool SimNetwork::leads_nowhere(const Pipe& pipe) const {
  const bool moved = pipe.from.moves_ + pipe.to.moves_ != pipe.moves_before;
  return moved || (pipe.through && !pipe.through->passes(world_.clock().now()));
}

void SimNetwork::send(Pipe& pipe, std::span<const std::byte> bytes, bool is_bulk) {
  if (stopping_ || leads_nowhere(pipe)) return;
  Host& from = pipe.from;
  const double size = static_cast<double>(bytes.size()) * (is_bulk ? options_.bulk_charge : 1);
  Duration way = pipe.latency;
  way += Duration(static_cast<Duration::rep>(static_cast<double>(way.count()) * options_.jitter *
                                             (static_cast<double>(random_.below(1U << 20U)) * 0x1p-20)));
  const double packets = std::ceil(size / kPacketBytes);
  if (options_.loss > 0 && random_.chance(1 - std::pow(1 - options_.loss, packets))) {
    way += std::max(kLossDelayMin, 2 * pipe.latency);
  }
  from.up_free_ =
      std::max(from.up_free_, world_.clock().now()) + from_seconds(size * from.slowness_ / from.line_.up_bytes_per_s);
  pipe.last_arrival = std::max(pipe.last_arrival, from.up_free_ + way);
  Bytes piece(bytes.begin(), bytes.end());
  if (std::exchange(from.corrupts_, false)) {
    piece[random_.below(piece.size())] ^= std::byte(1U << random_.below(8));
  }
  pipe.put(std::move(piece), size);
}

void SimNetwork::end(Pipe& pipe) {
  if (std::exchange(pipe.write_closed, true) || stopping_) return;
  if (leads_nowhere(pipe)) return;
  pipe.last_arrival = std::max(pipe.last_arrival, world_.clock().now() + pipe.latency);
  pipe.put({}, 0);
}

void SimNetwork::arrive(Pipe& pipe) {
  const auto keep = pipe.moving;
  if (pipe.on_the_way.empty()) return;
  if (!moves(pipe.from, pipe.to)) return stuck_.push_back(keep);
  Pipe::Piece& next = pipe.on_the_way.front();
  if (!next.landing && !next.bytes.empty()) {  // its line is taken in the order of arrival
    Host& to = pipe.to;
    next.landing = true;
    to.down_free_ = std::max(to.down_free_, world_.clock().now()) +
                    from_seconds(next.charged * to.slowness_ / to.line_.down_bytes_per_s);
    return pipe.set(to.down_free_);
  }
  bytes_delivered_ += static_cast<std::uint64_t>(next.charged);
  Bytes piece = pipe.take();
  if (pipe.on_the_way.empty()) pipe.moving.reset();
  mix(pipe.stream);
  mix(piece.size());
  mix(static_cast<std::uint64_t>(world_.clock().now().time_since_epoch().count()));
  if (piece.empty()) {
    pipe.ended = true;
  } else if (!pipe.ended) {
    pipe.arrived.push_back(std::move(piece));
  }
  pipe.readable.notify();
  pipe.writable.notify();
}

void SimNetwork::stop() {
  stopping_ = true;
  stuck_.clear();
  for (const auto& weak : pipes_) {
    if (const auto pipe = weak.lock()) pipe->lose_all_but(0);
  }
}

}  // namespace collab::sim
