#include "averaging/lanes.hpp"

#include <utility>

namespace collab::averaging {
namespace {

constexpr Duration kRetryAfter = std::chrono::milliseconds(250);  // of a failed dial

}  // namespace

Lanes::Lanes(net::Conversation& talk, Clock& clock, asio::any_io_executor executor, std::vector<PeerId> peers,
             Rank self, Hooks hooks)
    : talk_(talk), clock_(clock), peers_(std::move(peers)), self_(self), hooks_(std::move(hooks)) {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) lanes_.push_back(std::make_unique<Lane>(executor));
}

void Lanes::start(TaskGroup& tasks, TimePoint deadline) {
  deadline_ = deadline;
  // from our own rank on: not everybody's first frame goes to the same peer
  for (std::size_t step = 1; step < peers_.size(); ++step) {
    const auto to = static_cast<Rank>((self_ + step) % peers_.size());
    tasks.spawn("averaging.send_control", drain(to, Kind::control));
    tasks.spawn("averaging.send_results", drain(to, Kind::results));
    tasks.spawn("averaging.send_parts", drain(to, Kind::parts));
  }
}

void Lanes::push(Ranks to, net::TrafficClass traffic, const Frame& frame) {
  for (Ranks rest = to; rest != 0; rest &= rest - 1) {
    Lane& lane = *lanes_[first(rest)];
    if (lane.closed) continue;
    if (lane.control.size() >= kControlQueueMax) {
      close(first(rest));  // it asks and asks, and reads no answer
      continue;
    }
    const bool is_control = traffic == net::TrafficClass::control;
    (is_control ? lane.control : lane.results).push_back(frame);
    lane.has(is_control ? Kind::control : Kind::results).notify();
  }
}

void Lanes::look_for_closed() {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (!lanes_[rank]->closed && talk_.closed_by(peers_[rank])) close(static_cast<Rank>(rank));
}

void Lanes::wake_parts(Rank to) {
  lanes_.at(to)->has_parts.notify();
}

bool Lanes::idle(Ranks gone) const noexcept {
  for (std::size_t rank = 0; rank < lanes_.size(); ++rank)
    if (!contains(gone, rank) && !idle_to(static_cast<Rank>(rank))) return false;
  return true;
}

bool Lanes::idle_to(Rank to) const noexcept {
  const Lane& lane = *lanes_[to];
  return lane.closed || (lane.control.empty() && lane.results.empty() && lane.sending == 0);
}

void Lanes::close(Rank to) {
  Lane& lane = *lanes_[to];
  lane.closed = true;
  lane.control.clear();
  lane.results.clear();
  hooks_.departed(to);
}

Frame Lanes::take(Rank to, Kind kind) {
  Lane& lane = *lanes_[to];
  if (lane.closed) return nullptr;
  if (kind == Kind::parts) return hooks_.next_part(to);
  auto& queue = kind == Kind::control ? lane.control : lane.results;
  if (queue.empty()) return nullptr;
  Frame frame = std::move(queue.front());
  queue.pop_front();
  return frame;
}

Task<> Lanes::drain(Rank to, Kind kind) {
  const auto traffic = kind == Kind::control ? net::TrafficClass::control : net::TrafficClass::bulk;
  for (;;) {
    Frame frame = take(to, kind);
    if (!frame) {
      const bool changed = co_await lanes_[to]->has(kind).wait();
      if (!changed) co_return;  // all lanes of a round end so, which is too many to throw
      continue;
    }
    ++lanes_[to]->sending;
    co_await deliver(to, traffic, std::move(frame));
    --lanes_[to]->sending;
  }
}

Task<> Lanes::deliver(Rank to, net::TrafficClass traffic, Frame frame) {
  Lane& lane = *lanes_[to];
  while (!lane.closed && clock_.now() < deadline_) {
    const auto sent = co_await talk_.send(peers_[to], traffic, frame, deadline_);
    if (sent) {
      lane.bytes_sent += frame->size();
      co_return;
    }
    if (sent.error() == Errc::stale || sent.error() == Errc::denied) {
      close(to);
      co_return;
    }
    if (sent.error() == Errc::gone) hooks_.refused(to);
    co_await clock_.sleep_until(clock_.now() + kRetryAfter);
  }
}

}  // namespace collab::averaging
