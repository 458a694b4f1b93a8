#pragma once
// How much strangers may ask for: rates, and connections by address.

#include "base/clock.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace collab::net {

/// So many per second on average, and so many at once.
class TokenBucket {
 public:
  TokenBucket(double per_s, double burst, TimePoint now) : per_s_(per_s), burst_(burst), tokens_(burst), at_(now) {}

  /// `count`: at most the burst.
  bool take(TimePoint now, double count = 1) {
    refill(now);
    if (tokens_ < count) return false;
    tokens_ -= count;
    return true;
  }
  /// Until so many may be taken.
  Duration wait(double count = 1) const {
    return tokens_ >= count || per_s_ <= 0 ? Duration::zero() : from_seconds((count - tokens_) / per_s_);
  }
  bool full(TimePoint now) const { return tokens_ + to_seconds(now - at_) * per_s_ >= burst_; }

 private:
  void refill(TimePoint now) {
    tokens_ = std::min(burst_, tokens_ + to_seconds(now - at_) * per_s_);
    at_ = now;
  }

  double per_s_;
  double burst_;
  double tokens_;
  TimePoint at_;
};

/// The network that a host belongs to and that a single user may hold as a whole: an IPv4 address, an IPv6 /64.
std::string network_of(const std::string& host);

/// Decides which sockets are worth a handshake. Bounds per address count an IPv6 /64 as one and spare loopback.
class Gate {
 public:
  struct Options {
    std::size_t handshakes_max = 64;
    std::size_t handshakes_of_address_max = 8;
    double connects_of_address_per_s = 5;
    double connects_of_address_burst = 10;
    std::size_t connections_max = 1024;
    std::size_t connections_of_address_max = 32;
    std::size_t addresses_max = 4096;  ///< remembered; beyond it, quiet ones are forgotten
  };

  explicit Gate(const Options& options) : options_(options) {}

  /// A socket's place, from accept to close. Gives it back when destroyed.
  class Place {
   public:
    Place(Place&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), group_(std::move(other.group_)) {
      established_ = other.established_;
    }
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (gate_ != nullptr) gate_->leave(group_, established_);
    }
    /// The handshake is done: from now on it counts as a connection.
    void establish();

   private:
    friend class Gate;
    Place(Gate& gate, std::string group) : gate_(&gate), group_(std::move(group)) {}
    Gate* gate_;
    std::string group_;
    bool established_ = false;
  };

  /// A place, or the name of the bound that is reached.
  struct Entry {
    std::optional<Place> place;
    std::string_view bound;
  };
  Entry enter(const std::string& host, TimePoint now);

 private:
  struct Group {
    explicit Group(const TokenBucket& bucket) : connects(bucket) {}
    TokenBucket connects;
    std::size_t handshakes = 0;
    std::size_t connections = 0;
  };
  std::string_view refuse(Group& group, bool counted_by_address, TimePoint now);
  void leave(const std::string& group, bool established);
  void forget_quiet(TimePoint now);

  Options options_;
  std::map<std::string, Group> groups_;
  std::size_t handshakes_ = 0;
  std::size_t connections_ = 0;
};

}  // namespace collab::net
