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

}  // namespace

Identity Identity::generate(const Seed& seed) {
  start_library();
  Identity identity;
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
    : id_(other.id_), seed_(other.seed_), locked_file_(std::exchange(other.locked_file_, -1)) {
  sodium_memzero(other.seed_.data(), other.seed_.size());
}

Identity& Identity::operator=(Identity&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(seed_, other.seed_);
  std::swap(locked_file_, other.locked_file_);
  return *this;
}

Signature Identity::sign(std::span<const std::byte> message) const {
  SecretKey secret;
  std::copy(seed_.begin(), seed_.end(), secret.begin());
  std::copy(id_.key.begin(), id_.key.end(), secret.begin() + static_cast<std::ptrdiff_t>(seed_.size()));
  Signature signature;
  crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char*>(message.data()),
                       message.size(), secret.data());
  sodium_memzero(secret.data(), secret.size());
  return signature;
}

bool verify_signature(const PeerId& signer, std::span<const std::byte> message, const Signature& signature) {
  // libsodium itself refuses keys of small order, keys that are not canonical, and malleable signatures
  return crypto_sign_verify_detached(signature.data(), reinterpret_cast<const unsigned char*>(message.data()),
                                     message.size(), signer.key.data()) == 0;
}

}  // namespace collab
