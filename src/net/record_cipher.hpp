#pragma once
// What seals and opens records: the cipher that TLS has chosen, by the fastest library that this processor has.

#include "net/openssl.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace collab::net {

/// An AEAD of one direction: one text after the other, each with a nonce that its key has never had. All
/// implementations give the same bytes. Thread safety: none.
class RecordCipher {
 public:
  static constexpr std::size_t kKeyBytes = 32;  ///< of which a cipher may take the beginning
  using Nonce = std::array<std::byte, 12>;
  using Tag = std::array<std::byte, 16>;
  enum class Direction : std::uint8_t { seals, opens };

  virtual ~RecordCipher() = default;
  RecordCipher() = default;
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  virtual void set_key(std::span<const std::byte, kKeyBytes> key) = 0;
  /// `header` goes in clear and is proved along.
  virtual void begin(const Nonce& nonce, std::span<const std::byte> header) = 0;
  /// The next piece of the text: seals or opens `from` into as many bytes at `into`, which do not overlap.
  virtual void turn(std::span<const std::byte> from, std::byte* into) = 0;
  virtual Tag finish_sealing() = 0;
  /// Whether `tag` proves all that was opened.
  virtual bool finish_opening(const Tag& tag) = 0;
};

/// `cipher`: AES-128-GCM or ChaCha20-Poly1305.
std::unique_ptr<RecordCipher> make_record_cipher(const EVP_CIPHER* cipher, RecordCipher::Direction direction);

std::unique_ptr<RecordCipher> make_openssl_cipher(const EVP_CIPHER* cipher, RecordCipher::Direction direction);

/// AES-128-GCM by four blocks an instruction (VAES of AVX-512: Ice Lake, Zen 4), which OpenSSL has from 3.1 on: twice
/// as fast as one by one (doc/performance.md). Null where the processor has no such instructions.
std::unique_ptr<RecordCipher> make_wide_aes_cipher(RecordCipher::Direction direction);

}  // namespace collab::net
