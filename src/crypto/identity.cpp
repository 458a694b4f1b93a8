#include "crypto/identity.hpp"

#include "crypto/key_file.hpp"

#include <sodium.h>

#include <algorithm>
#include <utility>

namespace collab {
namespace {

void start_library() {
  if (sodium_init() < 0) throw Failure(ExitCode::machine, "libsodium does not start", "reinstall libsodium");
}

using SecretKey = std::array<unsigned char, crypto_sign_SECRETKEYBYTES>;  // the seed, then the public key

class Ed25519 final : public SignatureScheme {
 public:
  Signature sign(const Identity& signer, std::span<const std::byte> message) const override {
    SecretKey secret;
    std::copy(signer.seed().begin(), signer.seed().end(), secret.begin());
    std::copy(signer.id().key.begin(), signer.id().key.end(),
              secret.begin() + static_cast<std::ptrdiff_t>(signer.seed().size()));
    Signature signature;
    crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char*>(message.data()),
                         message.size(), secret.data());
    sodium_memzero(secret.data(), secret.size());
    return signature;
  }
  bool verify(const PeerId& signer, std::span<const std::byte> message, const Signature& signature) const override {
    // libsodium itself refuses keys of small order, keys that are not canonical, and malleable signatures
    return crypto_sign_verify_detached(signature.data(), reinterpret_cast<const unsigned char*>(message.data()),
                                       message.size(), signer.key.data()) == 0;
  }
};

}  // namespace

const SignatureScheme& ed25519() noexcept {
  static const Ed25519 scheme;
  return scheme;
}

Identity Identity::generate(const Seed& seed, const SignatureScheme& scheme) {
  start_library();
  Identity identity;
  identity.scheme_ = &scheme;
  identity.seed_ = seed;
  SecretKey secret;
  crypto_sign_seed_keypair(identity.id_.key.data(), secret.data(), seed.data());
  sodium_memzero(secret.data(), secret.size());
  return identity;
}

Identity Identity::create() {
  start_library();
  Seed seed;
  randombytes_buf(seed.data(), seed.size());
  Identity identity = generate(seed);
  sodium_memzero(seed.data(), seed.size());
  return identity;
}

Identity Identity::load_or_create(const std::filesystem::path& file) {
  key_file::Descriptor lock = key_file::lock(file);
  auto seed = key_file::read(file);
  Identity identity = seed ? generate(*seed) : create();
  if (seed) sodium_memzero(seed->data(), seed->size());
  if (!seed) key_file::write(file, identity.seed_);
  identity.locked_file_ = lock.release();
  return identity;
}

Identity::~Identity() {
  sodium_memzero(seed_.data(), seed_.size());
  const key_file::Descriptor unlock(locked_file_);
}

Identity::Identity(Identity&& other) noexcept
    : id_(other.id_), seed_(other.seed_), scheme_(other.scheme_), locked_file_(std::exchange(other.locked_file_, -1)) {
  sodium_memzero(other.seed_.data(), other.seed_.size());
}

Identity& Identity::operator=(Identity&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(seed_, other.seed_);
  std::swap(scheme_, other.scheme_);
  std::swap(locked_file_, other.locked_file_);
  return *this;
}

}  // namespace collab
