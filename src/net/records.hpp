#pragma once
// How bytes are sealed once TLS has shaken hands: long records, from where they lie to where they are wanted.

#include "net/channel_engine.hpp"
#include "net/record_cipher.hpp"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace collab::net {

/// A record: its header (`record_head.hpp`), ciphertext and tag. The header is sealed along; the nonce is the IV xor
/// the record's number. One direction of one channel. Thread safety: none.
class RecordKeys {
 public:
  static constexpr std::size_t kBytes = RecordCipher::kKeyBytes + sizeof(RecordCipher::Nonce);  // key and IV
  using Material = std::array<std::byte, kBytes>;
  /// The material of a key by its number: both ends compute the same.
  using Derive = std::function<Material(std::uint64_t)>;

 protected:
  /// Every `records_per_key` the key is another one.
  RecordKeys(std::unique_ptr<RecordCipher> cipher, Derive derive, std::uint64_t records_per_key);
  /// Begins the next record, of this header.
  RecordCipher& next(std::span<const std::byte, kRecordHeaderBytes> header);

 private:
  std::unique_ptr<RecordCipher> cipher_;
  Derive derive_;
  std::uint64_t records_per_key_;
  std::uint64_t number_ = 0;
  RecordCipher::Nonce iv_{};
};

class RecordSealer : private RecordKeys {
 public:
  RecordSealer(const EVP_CIPHER* cipher, Derive derive, std::uint64_t records_per_key)
      : RecordKeys(make_record_cipher(cipher, RecordCipher::Direction::seals), std::move(derive), records_per_key) {}
  /// A record of `head`, then `body`, together 1 to kRecordBytes.
  void seal(std::span<const std::byte> head, std::span<const std::byte> body, ByteQueue& output) {
    assert(head.size() + body.size() > 0);
    seal_record(head, body, output);
  }
  void seal_last(ByteQueue& output) { seal_record({}, {}, output); }

 private:
  void seal_record(std::span<const std::byte> head, std::span<const std::byte> body, ByteQueue& output);
};

class RecordOpener : private RecordKeys {
 public:
  enum class State : std::uint8_t { open, ended, damaged };

  RecordOpener(const EVP_CIPHER* cipher, Derive derive, std::uint64_t records_per_key)
      : RecordKeys(make_record_cipher(cipher, RecordCipher::Direction::opens), std::move(derive), records_per_key) {}
  struct Taken {
    std::size_t sealed = 0;  ///< bytes of it, at least one
    std::size_t placed = 0;  ///< bytes of plaintext, in `room`
  };
  /// Takes the beginning of `sealed`, which has bytes, to the end of a record at most, in pieces of any size. What is
  /// not `open` stays so, and whatever comes then is ignored. Opens into `room` what fits there, else into `opened`.
  Taken open(std::span<const std::byte> sealed, std::span<std::byte> room, ByteQueue& opened);
  State state() const noexcept { return state_; }
  void trim() { begun_.trim(); }

 private:
  /// Moves bytes of `sealed` behind a record that has begun, until that has `bytes`; whether it has.
  bool complete(std::size_t bytes, std::span<const std::byte>& sealed);
  std::size_t open_record(std::span<const std::byte> record, std::span<std::byte> room, ByteQueue& opened);

  State state_ = State::open;
  ByteQueue begun_;  ///< the beginning of a record that has not come whole
};

}  // namespace collab::net
