#include "net/byte_queue.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::net {

std::span<std::byte> ByteQueue::prepare(std::size_t bytes) {
  if (capacity_ - tail_ < bytes) {
    const bool fits = capacity_ - size() >= bytes;
    const bool cheap = size() <= head_;  // fewer bytes move than have left since the last time
    if (fits && cheap) {
      std::copy(storage_.get() + head_, storage_.get() + tail_, storage_.get());
      tail_ = size();
      head_ = 0;
    } else {
      move_to(std::max(size() + bytes, 2 * capacity_));
    }
  }
  return {storage_.get() + tail_, capacity_ - tail_};
}

void ByteQueue::commit(std::size_t bytes) noexcept {
  assert(bytes <= capacity_ - tail_);
  tail_ += bytes;
}

void ByteQueue::append(std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), prepare(bytes.size()).begin());
  commit(bytes.size());
}

void ByteQueue::consume(std::size_t bytes) noexcept {
  assert(bytes <= size());
  head_ += bytes;
  if (head_ == tail_) head_ = tail_ = 0;
}

void ByteQueue::trim() {
  move_to(size());
}

void ByteQueue::rest() {
  if (empty() && capacity_ > 0) move_to(0);
}

void ByteQueue::move_to(std::size_t capacity) {
  auto storage = capacity == 0 ? nullptr : std::make_unique_for_overwrite<std::byte[]>(capacity);
  std::copy(storage_.get() + head_, storage_.get() + tail_, storage.get());
  tail_ = size();
  head_ = 0;
  storage_ = std::move(storage);
  capacity_ = capacity;
}

}  // namespace collab::net
