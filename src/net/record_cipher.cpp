#include "net/record_cipher.hpp"

#include <cassert>
#include <new>

namespace collab::net {
namespace {

/// Nothing that a peer sends makes these calls fail: the sizes are ours.
void need(int worked) {
  if (worked != 1) throw std::bad_alloc();
}

unsigned char* raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

class OpensslCipher final : public RecordCipher {
 public:
  OpensslCipher(const EVP_CIPHER* cipher, Direction direction)
      : cipher_(cipher), direction_(direction), context_(EVP_CIPHER_CTX_new()) {
    if (!context_) throw std::bad_alloc();
  }

  void set_key(std::span<const std::byte, kKeyBytes> key) override {
    need(
        EVP_CipherInit_ex(context_.get(), cipher_, nullptr, raw(key), nullptr, direction_ == Direction::seals ? 1 : 0));
  }

  void begin(const Nonce& nonce, std::span<const std::byte> header) override {
    need(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, raw(nonce), -1));
    int bytes = 0;
    need(EVP_CipherUpdate(context_.get(), nullptr, &bytes, raw(header), static_cast<int>(header.size())));
  }

  void turn(std::span<const std::byte> from, std::byte* into) override {
    if (from.empty()) return;
    int bytes = 0;
    need(EVP_CipherUpdate(context_.get(), raw(into), &bytes, raw(from), static_cast<int>(from.size())));
    assert(static_cast<std::size_t>(bytes) == from.size());
  }

  Tag finish_sealing() override {
    Tag tag;
    int bytes = 0;
    need(EVP_CipherFinal_ex(context_.get(), raw(tag.data()), &bytes));
    need(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()));
    return tag;
  }

  bool finish_opening(const Tag& tag) override {
    Tag expected = tag;
    need(
        EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(expected.size()), expected.data()));
    int bytes = 0;
    return EVP_CipherFinal_ex(context_.get(), raw(expected.data()), &bytes) == 1;
  }

 private:
  const EVP_CIPHER* cipher_;
  Direction direction_;
  std::unique_ptr<EVP_CIPHER_CTX, OpensslFree<EVP_CIPHER_CTX_free>> context_;
};

}  // namespace

std::unique_ptr<RecordCipher> make_openssl_cipher(const EVP_CIPHER* cipher, RecordCipher::Direction direction) {
  return std::make_unique<OpensslCipher>(cipher, direction);
}

std::unique_ptr<RecordCipher> make_record_cipher(const EVP_CIPHER* cipher, RecordCipher::Direction direction) {
  auto wide = EVP_CIPHER_get_nid(cipher) == NID_aes_128_gcm ? make_wide_aes_cipher(direction) : nullptr;
  return wide ? std::move(wide) : make_openssl_cipher(cipher, direction);
}

}  // namespace collab::net
