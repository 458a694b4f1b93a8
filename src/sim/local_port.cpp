#include "sim/local_port.hpp"

#include <algorithm>
#include <utility>

namespace collab::sim {
namespace {

constexpr Duration kSynAgain = std::chrono::seconds(1);  // doubled each time, as of Linux

using Dialled = Result<std::unique_ptr<net::ByteStream>>;

}  // namespace

Result<std::unique_ptr<net::LocalPort>> Host::local_port(const std::string& host) {
  if (net::is_v6(host) != net::is_v6(address())) return Errc::bad_request;
  return Result<std::unique_ptr<net::LocalPort>>(std::make_unique<HostPort>(*this, next_port_++));
}

/// Nothing: there is no way out, or nobody has that address.
std::optional<HostPort::Syn> HostPort::send(const net::Address& to) {
  Host* const end = network_.end_at(to.host);
  const bool foreign = end != nullptr && end->address() == to.host && end->box() != nullptr &&
                       end->box() != host_.box() && network_.box_at(to.host) == nullptr;
  if (end == nullptr || foreign) return std::nullopt;
  const TimePoint now = network_.world_.clock().now();
  Syn syn;
  syn.to = to;
  syn.seen = net::Address{host_.address(), number_};
  syn.one_way = network_.latency(host_, *end);
  syn.arrives = host_.clock().now() + syn.one_way;
  const bool at_home = end->address() == to.host && end->box() == host_.box();
  if (at_home || host_.box() == nullptr) return syn;
  const auto out = host_.box()->out(syn.seen, to, now);
  if (!out) return std::nullopt;
  syn.seen = *out;
  syn.doors.emplace_back(host_.box(), out->port);
  return syn;
}

HostPort::Fate HostPort::arrive(Syn syn, std::unique_ptr<net::ByteStream>& near) {
  net::Address inside = syn.to;
  if (NatBox* const box = network_.box_at(syn.to.host)) {
    const auto in = box->in(syn.to.port, syn.seen, network_.world_.clock().now());
    if (!in) return box->options().closed == NatClosed::resets ? Fate::refused : Fate::dropped;
    inside = *in;
    syn.doors.emplace_back(box, syn.to.port);
  }
  Host* const other = network_.find(inside.host);
  if (other == nullptr || !other->alive() || !network_.moves(host_, *other) || !network_.moves(*other, host_))
    return Fate::dropped;
  const auto crossing = other->crossing_.find({inside.port, syn.seen});
  const bool meets = crossing != other->crossing_.end() && !crossing->second->met;
  if (!meets && !other->listening_.contains(inside.port)) return Fate::refused;
  const Host::Ends ends{net::Address{host_.address(), number_}, syn.seen, inside, syn.to};
  auto [here, there] = host_.join(*other, ends, syn.doors);
  if (!meets && !other->offer(inside.port, there)) return Fate::dropped;
  if (meets) {
    crossing->second->met = std::move(there);
    crossing->second->changed.notify();
  }
  near = std::move(here);
  return Fate::accepted;
}

/// Until then, or until it has met somebody.
Task<> HostPort::wait(Host::Crossing& own, TimePoint until) {
  while (!own.met && host_.clock().now() < until) {
    const bool notified = co_await own.changed.wait_until(host_.clock(), until);
    if (!notified) co_return;
  }
}

Task<Dialled> HostPort::dial(net::Address to, TimePoint deadline) {
  struct Registered {
    Host& host;
    std::pair<std::uint16_t, net::Address> key;
    Host::Crossing own;
    Registered(Host& of, std::uint16_t port, const net::Address& to)
        : host(of), key(port, to), own(of.network_.world_.executor()) {
      host.crossing_[key] = &own;
    }
    ~Registered() { host.crossing_.erase(key); }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
  };
  if (!host_.alive() || host_.crossing_.contains({number_, to})) co_return Errc::gone;
  Registered dialling(host_, number_, to);
  Clock& clock = host_.clock();
  Duration again = kSynAgain;
  for (;;) {
    const TimePoint sent = clock.now();
    auto syn = send(to);
    TimePoint next = std::min(deadline, sent + std::exchange(again, 2 * again));
    if (syn && syn->arrives < deadline) {
      co_await wait(dialling.own, syn->arrives);
      std::unique_ptr<net::ByteStream> near;
      const Fate fate = dialling.own.met ? Fate::dropped : arrive(*syn, near);
      if (fate == Fate::accepted) {
        co_await clock.sleep_until(syn->arrives + syn->one_way);
        co_return Dialled(std::move(near));
      }
      if (fate == Fate::refused) next = std::min(deadline, syn->arrives + syn->one_way);
      co_await wait(dialling.own, next);
      if (fate == Fate::refused && !dialling.own.met) co_return clock.now() < deadline ? Errc::gone : Errc::late;
    }
    co_await wait(dialling.own, next);
    if (dialling.own.met) {
      const Duration way = syn ? syn->one_way : Duration::zero();
      co_await clock.sleep_until(clock.now() + 2 * way);  // until the other end has confirmed it
      co_return Dialled(std::move(dialling.own.met));
    }
    if (clock.now() >= deadline) co_return Errc::late;
  }
}

}  // namespace collab::sim
