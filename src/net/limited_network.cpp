#include "net/limited_network.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace collab::net {
namespace {

constexpr double kWindowTime = 0.2;  // so much of what may come is on its way or unread, in seconds
constexpr std::size_t kWindowMin = 4 * 1024;
constexpr std::size_t kWindowMax = 4 << 20U;

}  // namespace

struct LimitedNetwork::Line {
  Line(Clock& of, const Limits& limits) : clock(of), up(limits.up), down(limits.down) {}
  Clock& clock;
  Throttle up;
  Throttle down;
  std::atomic<std::uint64_t> carried = 0;
};

class LimitedNetwork::Stream final : public ByteStream {
 public:
  Stream(std::unique_ptr<ByteStream> inner, std::shared_ptr<Line> line)
      : inner_(std::move(inner)), line_(std::move(line)) {
    fit_window();
  }

  /// What has come is paid for afterwards, so who reads where nothing comes holds nobody up.
  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    const auto line = line_;
    const auto inner = inner_;
    if (line->down.is_capped()) into = into.first(std::min(into.size(), line->down.quantum()));
    auto size = co_await inner->read(into);
    if (!size) co_return size;
    line->carried += static_cast<std::uint64_t>(on_the_line(*size));
    if (line->down.is_capped()) {
      const TimePoint begin = line->down.book(line->clock.now(), *size);
      fit_window();
      if (begin > line->clock.now()) co_await line->clock.sleep_until(begin);
    }
    co_return size;
  }

  Task<Result<>> write(std::span<const std::byte> bytes) override {
    const auto line = line_;
    const auto inner = inner_;
    line->carried += static_cast<std::uint64_t>(on_the_line(bytes.size()));
    if (!line->up.is_capped()) co_return co_await inner->write(bytes);
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), line->up.quantum()));
      const TimePoint begin = line->up.book(line->clock.now(), part.size());
      if (begin > line->clock.now()) co_await line->clock.sleep_until(begin);
      const auto written = co_await inner->write(part);
      if (!written) co_return written;
      bytes = bytes.subspan(part.size());
    }
    co_return Result<>();
  }

  std::size_t write_at_most() const override {
    const std::size_t others = inner_->write_at_most();
    return line_->up.is_capped() ? std::min(line_->up.quantum() / 2, others) : others;  // and the piece that fills it
  }

  void close() override { inner_->close(); }
  void queue_at_most(std::size_t bytes) override { inner_->queue_at_most(bytes); }
  void pace(double bytes_per_s) override { inner_->pace(bytes_per_s); }
  void receive_at_most(std::size_t bytes) override { inner_->receive_at_most(bytes); }
  std::uint64_t delivered() override { return inner_->delivered(); }
  bool is_stranded() override { return inner_->is_stranded(); }
  Address remote() const override { return inner_->remote(); }
  Address local() const override { return inner_->local(); }
  std::string_view path() const override { return inner_->path(); }
  bool is_circuit() const override { return inner_->is_circuit(); }
  bool carries_tensors() const override { return inner_->carries_tensors(); }
  bool ends_soon() const override { return inner_->ends_soon(); }

 private:
  /// As many as wait for what comes share what may be on its way.
  void fit_window() {
    if (!line_->down.is_capped()) return;
    const double sharing = std::max(1.0, line_->down.waiting(line_->clock.now()));
    const double wanted = line_->down.cap(line_->clock.now()).bytes_per_s * kWindowTime / sharing;
    const auto window = static_cast<std::size_t>(std::clamp(wanted, double(kWindowMin), double(kWindowMax)));
    if (2 * window > window_ && window < 2 * window_) return;
    window_ = window;
    inner_->receive_at_most(window);
  }

  std::shared_ptr<ByteStream> inner_;  // it may be closed and gone while a slot of time is waited for
  std::shared_ptr<Line> line_;
  std::size_t window_ = 0;
};

LimitedNetwork::NewStream LimitedNetwork::within(const std::shared_ptr<Line>& line, NewStream stream) {
  if (!stream) return stream.error();
  return std::make_unique<Stream>(std::move(*stream), line);
}

class LimitedNetwork::Door final : public Listener {
 public:
  Door(std::unique_ptr<Listener> inner, std::shared_ptr<Line> line)
      : inner_(std::move(inner)), line_(std::move(line)) {}

  Task<Result<std::unique_ptr<ByteStream>>> accept() override {
    const auto line = line_;
    co_return within(line, co_await inner_->accept());
  }
  Address local() const override { return inner_->local(); }
  void close() override { inner_->close(); }

 private:
  std::unique_ptr<Listener> inner_;
  std::shared_ptr<Line> line_;
};

class LimitedNetwork::Port final : public LocalPort {
 public:
  Port(std::unique_ptr<LocalPort> inner, std::shared_ptr<Line> line)
      : inner_(std::move(inner)), line_(std::move(line)) {}

  std::uint16_t number() const override { return inner_->number(); }
  Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) override {
    const auto line = line_;
    co_return within(line, co_await inner_->dial(std::move(to), deadline));
  }

 private:
  std::unique_ptr<LocalPort> inner_;
  std::shared_ptr<Line> line_;
};

LimitedNetwork::LimitedNetwork(Network& network, Clock& clock, const Limits& limits)
    : network_(network), line_(std::make_shared<Line>(clock, limits)) {}

Task<Result<std::unique_ptr<ByteStream>>> LimitedNetwork::dial(Address to, TimePoint deadline) {
  const auto line = line_;
  co_return within(line, co_await network_.dial(std::move(to), deadline));
}

Task<Result<std::unique_ptr<ByteStream>>> LimitedNetwork::dial_peer(Address to, std::optional<PeerId> expected,
                                                                    TimePoint deadline) {
  const auto line = line_;
  co_return within(line, co_await network_.dial_peer(std::move(to), std::move(expected), deadline));
}

Result<std::unique_ptr<Listener>> LimitedNetwork::listen(const Address& at) {
  auto listener = network_.listen(at);
  if (!listener) return listener.error();
  return std::make_unique<Door>(std::move(*listener), line_);
}

Result<std::unique_ptr<LocalPort>> LimitedNetwork::local_port(const std::string& host) {
  auto port = network_.local_port(host);
  if (!port) return port.error();
  return std::make_unique<Port>(std::move(*port), line_);
}

std::uint64_t LimitedNetwork::carried() const noexcept {
  return line_->carried;
}

Caps LimitedNetwork::caps() const {
  const TimePoint now = line_->clock.now();
  return {line_->up.cap(now), line_->down.cap(now)};
}

}  // namespace collab::net
