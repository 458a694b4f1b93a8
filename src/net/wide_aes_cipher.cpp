#include "net/record_cipher.hpp"

#include <cassert>
#if defined(__x86_64__)
#include <openssl/crypto.h>

#include <intel-ipsec-mb.h>
#endif

namespace collab::net {

#if defined(__x86_64__)
namespace {

struct FreeManager {
  void operator()(IMB_MGR* manager) const noexcept { free_mb_mgr(manager); }
};

/// The library's functions for this processor, of which only those without state of their own are called: any thread
/// may. Null where they would be slower than OpenSSL's, or fail the library's test of itself.
const IMB_MGR* wide_functions() {
  static const std::unique_ptr<IMB_MGR, FreeManager> manager = [] {
    std::unique_ptr<IMB_MGR, FreeManager> made(alloc_mb_mgr(0));
    if (!made) return made;
    IMB_ARCH level = IMB_ARCH_NONE;
    init_mb_mgr_auto(made.get(), &level);
    constexpr auto kNeeded = IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ | IMB_FEATURE_SELF_TEST_PASS;
    const bool wide = level == IMB_ARCH_AVX512 && (made->features & kNeeded) == kNeeded;
    if (!wide) made.reset();
    return made;
  }();
  return manager.get();
}

class WideAesCipher final : public RecordCipher {
 public:
  WideAesCipher(const IMB_MGR* functions, Direction direction) : functions_(functions), direction_(direction) {}
  ~WideAesCipher() override {
    OPENSSL_cleanse(&key_, sizeof key_);
    OPENSSL_cleanse(&text_, sizeof text_);
  }

  void set_key(std::span<const std::byte, kKeyBytes> key) override {
    IMB_AES128_GCM_PRE(functions_, key.data(), &key_);
  }

  void begin(const Nonce& nonce, std::span<const std::byte> header) override {
    const auto* iv = reinterpret_cast<const std::uint8_t*>(nonce.data());
    const auto* aad = reinterpret_cast<const std::uint8_t*>(header.data());
    IMB_AES128_GCM_INIT(functions_, &key_, &text_, iv, aad, header.size());
  }

  void turn(std::span<const std::byte> from, std::byte* into) override {
    if (from.empty()) return;
    auto* to = reinterpret_cast<std::uint8_t*>(into);
    const auto* text = reinterpret_cast<const std::uint8_t*>(from.data());
    if (direction_ == Direction::seals) {
      IMB_AES128_GCM_ENC_UPDATE(functions_, &key_, &text_, to, text, from.size());
    } else {
      IMB_AES128_GCM_DEC_UPDATE(functions_, &key_, &text_, to, text, from.size());
    }
  }

  Tag finish_sealing() override {
    Tag tag;
    IMB_AES128_GCM_ENC_FINALIZE(functions_, &key_, &text_, reinterpret_cast<std::uint8_t*>(tag.data()), tag.size());
    return tag;
  }

  bool finish_opening(const Tag& tag) override {
    Tag proved;
    IMB_AES128_GCM_DEC_FINALIZE(functions_, &key_, &text_, reinterpret_cast<std::uint8_t*>(proved.data()),
                                proved.size());
    return CRYPTO_memcmp(proved.data(), tag.data(), tag.size()) == 0;
  }

 private:
  const IMB_MGR* functions_;
  Direction direction_;
  alignas(64) gcm_key_data key_{};  // the header leaves it to its user
  alignas(16) gcm_context_data text_{};
};

}  // namespace

std::unique_ptr<RecordCipher> make_wide_aes_cipher(RecordCipher::Direction direction) {
  const IMB_MGR* functions = wide_functions();
  return functions == nullptr ? nullptr : std::make_unique<WideAesCipher>(functions, direction);
}

#else

std::unique_ptr<RecordCipher> make_wide_aes_cipher(RecordCipher::Direction) {
  return nullptr;
}

#endif

}  // namespace collab::net
