#pragma once
// A bounded queue between tasks of one loop: full is an answer, not a wait for ever.

#include "base/signal.hpp"

#include <deque>
#include <utility>

namespace collab {

/// Thread safety: none; belongs to the node's loop. One receiver at a time.
template <class T>
class Channel {
 public:
  Channel(asio::any_io_executor executor, std::size_t capacity) : capacity_(capacity), changed_(std::move(executor)) {}

  /// False when the channel is full or closed; `item` is then lost, which is for the caller to count.
  bool try_push(T item) {
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    changed_.notify();
    return true;
  }

  /// The oldest item. Errors: `late`; `gone` when the channel is closed and empty.
  Task<Result<T>> pop(Clock& clock, TimePoint deadline) {
    while (items_.empty()) {
      if (closed_) co_return Errc::gone;
      const bool in_time = co_await changed_.wait_until(clock, deadline);
      if (!in_time && items_.empty()) co_return Errc::late;
    }
    T item = std::move(items_.front());
    items_.pop_front();
    co_return item;
  }

  /// No item will come any more; what is here can still be taken.
  void close() {
    closed_ = true;
    changed_.notify();
  }
  std::size_t size() const noexcept { return items_.size(); }

 private:
  std::size_t capacity_;
  std::deque<T> items_;
  Signal changed_;
  bool closed_ = false;
};

}  // namespace collab
