#pragma once
// One signal per key that somebody waits for.

#include "base/signal.hpp"

#include <map>
#include <string>
#include <utility>

namespace collab::directory {

/// Keeps nothing for keys without a waiter. Must outlive its waiters. Belongs to the node's loop.
class KeySignals {
 public:
  explicit KeySignals(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  KeySignals(const KeySignals&) = delete;
  KeySignals& operator=(const KeySignals&) = delete;

  void notify(const std::string& key) {
    if (const auto found = waited_.find(key); found != waited_.end()) found->second.signal.notify();
  }

  void notify_all() {
    for (auto& [key, waited] : waited_) waited.signal.notify();
  }

  /// Until the next `notify(key)`: false when `deadline` passed first. As with any Signal, look before you wait.
  Task<bool> wait_until(std::string key, Clock& clock, TimePoint deadline) {
    const Waiter waiter(*this, key);
    const bool notified = co_await waiter.entry->second.signal.wait_until(clock, deadline);
    co_return notified;
  }

 private:
  struct Waited {
    explicit Waited(const asio::any_io_executor& executor) : signal(executor) {}
    Signal signal;
    std::size_t waiters = 0;
  };
  struct Waiter {
    Waiter(KeySignals& signals, const std::string& key)
        : owner(signals), entry(signals.waited_.try_emplace(key, signals.executor_).first) {
      ++entry->second.waiters;
    }
    ~Waiter() {
      if (--entry->second.waiters == 0) owner.waited_.erase(entry);
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    KeySignals& owner;
    std::map<std::string, Waited>::iterator entry;
  };

  asio::any_io_executor executor_;
  std::map<std::string, Waited> waited_;
};

}  // namespace collab::directory
