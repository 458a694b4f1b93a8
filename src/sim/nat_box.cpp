#include "sim/nat_box.hpp"

#include <algorithm>

namespace collab::sim {
namespace {

constexpr std::uint16_t kFirstNatPort = 20000;
constexpr std::uint16_t kLastNatPort = 60000;
constexpr std::uint16_t kHttps = 443;
constexpr Duration kForgetEvery = std::chrono::seconds(30);

}  // namespace

std::string_view name(NatMapping mapping) noexcept {
  switch (mapping) {
    case NatMapping::none: return "none";
    case NatMapping::endpoint_independent: return "endpoint-independent";
    case NatMapping::address_dependent: return "address-dependent";
    case NatMapping::symmetric: return "symmetric";
  }
  return "unknown";
}

std::string_view name(NatFilter filter) noexcept {
  switch (filter) {
    case NatFilter::none: return "none";
    case NatFilter::address: return "address";
    case NatFilter::address_and_port: return "address and port";
  }
  return "unknown";
}

void NatBox::forget(TimePoint now) {
  if (now < forgot_ + kForgetEvery) return;
  forgot_ = now;
  for (auto it = by_port_.begin(); it != by_port_.end();) {
    if (alive(it->second, now)) {
      std::erase_if(it->second.sent_to, [&](const auto& one) { return now - one.second > options_.lifetime; });
      ++it;
    } else {
      ports_.erase({it->second.inside, it->second.key});
      it = by_port_.erase(it);
    }
  }
}

std::optional<net::Address> NatBox::out(const net::Address& from, const net::Address& to, TimePoint now) {
  if (options_.only_443 && to.port != kHttps) return std::nullopt;
  if (to.host == outside_ && !options_.hairpin) return std::nullopt;
  forget(now);
  net::Address key;
  const bool by_address = options_.mapping == NatMapping::address_dependent;
  if (by_address || options_.mapping == NatMapping::symmetric) key.host = to.host;
  if (options_.mapping == NatMapping::symmetric) key.port = to.port;
  const auto known = ports_.find({from, key});
  const bool lives = known != ports_.end() && alive(by_port_.at(known->second), now);
  if (known != ports_.end() && !lives) {
    by_port_.erase(known->second);
    ports_.erase(known);
  }
  std::uint16_t port = lives ? known->second : next_port_;
  if (options_.mapping == NatMapping::none) port = from.port;
  if (!lives) {
    if (by_port_.size() >= kLastNatPort - kFirstNatPort) return std::nullopt;
    while (by_port_.contains(port))
      port = port + 1 < kLastNatPort ? static_cast<std::uint16_t>(port + 1) : kFirstNatPort;
    next_port_ = port + 1 < kLastNatPort ? static_cast<std::uint16_t>(port + 1) : kFirstNatPort;
    Mapping fresh;
    fresh.inside = from;
    fresh.key = key;
    by_port_.emplace(port, std::move(fresh));
    ports_.emplace(std::pair(from, key), port);
  }
  Mapping& mapping = by_port_.at(port);
  mapping.used = now;
  mapping.sent_to[to] = now;
  return net::Address{outside_, port};
}

bool NatBox::lets_in(const Mapping& mapping, const net::Address& from) const {
  if (options_.filter == NatFilter::none) return true;
  return std::any_of(mapping.sent_to.begin(), mapping.sent_to.end(), [&](const auto& one) {
    return one.first.host == from.host && (options_.filter == NatFilter::address || one.first.port == from.port);
  });
}

std::optional<net::Address> NatBox::in(std::uint16_t port, const net::Address& from, TimePoint now) {
  forget(now);
  const auto found = by_port_.find(port);
  if (found == by_port_.end() || !alive(found->second, now) || !lets_in(found->second, from)) return std::nullopt;
  found->second.used = now;
  return found->second.inside;
}

bool NatBox::passes(std::uint16_t port, TimePoint now) {
  const auto found = by_port_.find(port);
  if (found == by_port_.end() || !alive(found->second, now)) return false;
  found->second.used = now;
  return true;
}

void NatBox::reboot(std::string outside) {
  outside_ = std::move(outside);
  by_port_.clear();
  ports_.clear();
}

}  // namespace collab::sim
