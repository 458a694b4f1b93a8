#include "net/limits.hpp"

#include <boost/asio/ip/address.hpp>

#include <utility>

namespace collab::net {
namespace {

struct AddressGroup {
  std::string name;
  bool loopback = false;
};

/// One network that a single user may hold as a whole: an IPv4 address, an IPv6 /64.
AddressGroup group_of(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  AddressGroup group;
  group.name = host;
  if (error) return group;
  group.loopback = address.is_loopback();
  if (address.is_v6()) {
    auto bytes = address.to_v6().to_bytes();
    std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
    group.name = boost::asio::ip::address_v6(bytes).to_string();
  }
  return group;
}

}  // namespace

std::string network_of(const std::string& host) {
  return group_of(host).name;
}

std::string_view Gate::refuse(Group& group, bool counted_by_address, TimePoint now) {
  if (handshakes_ >= options_.handshakes_max) return "handshakes";
  if (connections_ >= options_.connections_max) return "connections";
  if (!counted_by_address) return {};
  if (group.handshakes >= options_.handshakes_of_address_max) return "handshakes_of_address";
  if (group.connections >= options_.connections_of_address_max) return "connections_of_address";
  if (!group.connects.take(now)) return "connects_of_address";
  return {};
}

Gate::Entry Gate::enter(const std::string& host, TimePoint now) {
  const AddressGroup from = group_of(host);
  if (groups_.size() >= options_.addresses_max) forget_quiet(now);
  const TokenBucket bucket(options_.connects_of_address_per_s, options_.connects_of_address_burst, now);
  Group& group = groups_.try_emplace(from.name, bucket).first->second;
  Entry entry;
  entry.bound = refuse(group, !from.loopback, now);
  if (!entry.bound.empty()) return entry;
  ++handshakes_;
  ++group.handshakes;
  entry.place.emplace(Place(*this, from.name));
  return entry;
}

void Gate::Place::establish() {
  Group& group = gate_->groups_.at(group_);
  --gate_->handshakes_;
  --group.handshakes;
  ++gate_->connections_;
  ++group.connections;
  established_ = true;
}

void Gate::leave(const std::string& name, bool established) {
  Group& group = groups_.at(name);
  --(established ? connections_ : handshakes_);
  --(established ? group.connections : group.handshakes);
}

void Gate::forget_quiet(TimePoint now) {
  for (auto next = groups_.begin(); next != groups_.end();) {
    Group& group = next->second;
    const bool quiet = group.handshakes == 0 && group.connections == 0 && group.connects.full(now);
    next = quiet ? groups_.erase(next) : std::next(next);
  }
}

}  // namespace collab::net
