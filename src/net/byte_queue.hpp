#pragma once
// Bytes that arrive at one end and leave at the other, always in one piece.

#include <cstddef>
#include <memory>
#include <span>

namespace collab::net {

/// Grows as needed and keeps its capacity: in steady state nothing is allocated, and a byte is moved at most once more
/// than it is written. Spans are valid until the next call that is not const.
class ByteQueue {
 public:
  std::span<const std::byte> bytes() const noexcept { return {storage_.get() + head_, tail_ - head_}; }
  std::size_t size() const noexcept { return tail_ - head_; }
  bool empty() const noexcept { return tail_ == head_; }

  /// Uninitialised space of at least `bytes` after the last byte; `commit` makes its beginning part of the queue.
  std::span<std::byte> prepare(std::size_t bytes);
  /// `bytes`: at most what the last `prepare` gave.
  void commit(std::size_t bytes) noexcept;
  void append(std::span<const std::byte> bytes);
  /// `bytes` <= size().
  void consume(std::size_t bytes) noexcept;
  /// Gives back the memory that holds no bytes.
  void trim();
  /// All of it, if it holds no bytes.
  void rest();

 private:
  void move_to(std::size_t capacity);

  std::unique_ptr<std::byte[]> storage_;
  std::size_t capacity_ = 0;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace collab::net
