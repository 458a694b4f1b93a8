#pragma once
// The key pair of a peer, and the file it lives in.

#include "crypto/signature_scheme.hpp"

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>

namespace collab {

/// Owns a secret: moved, never copied; wiped when destroyed.
class Identity {
 public:
  using Seed = std::array<unsigned char, 32>;

  /// The key pair of a seed: equal seeds, equal peers. For tests and the simulator. `scheme` outlives it.
  static Identity generate(const Seed& seed, const SignatureScheme& scheme = ed25519());
  /// A new key pair from the operating system's randomness. The only place where collab draws key material.
  static Identity create();
  /// The key pair in `file`; made there, in a folder for the owner alone, when it does not exist. Holds a lock on the
  /// file for as long as the identity lives: two processes with one key would be one peer at two places.
  ///
  /// Throws `Failure(machine)`, and leaves the file as it is, when others may read it, it is torn, of a version this
  /// program does not know, in use by another process (named by its pid), or the folder cannot be written.
  static Identity load_or_create(const std::filesystem::path& file);

  Identity(Identity&&) noexcept;
  Identity& operator=(Identity&&) noexcept;
  ~Identity();

  const PeerId& id() const noexcept { return id_; }
  /// By its scheme; Ed25519, unless it was made otherwise.
  Signature sign(std::span<const std::byte> message) const { return scheme_->sign(*this, message); }
  const SignatureScheme& scheme() const noexcept { return *scheme_; }
  /// The secret itself, for the TLS certificate. Never logged, sent or kept elsewhere.
  const Seed& seed() const noexcept { return seed_; }

 private:
  Identity() = default;

  PeerId id_;
  Seed seed_{};
  const SignatureScheme* scheme_ = &ed25519();
  int locked_file_ = -1;  ///< descriptor that holds the lock; -1: an identity without a file
};

}  // namespace collab
