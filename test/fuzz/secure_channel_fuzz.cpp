// TLS from strangers: a channel takes any bytes, in the middle of a handshake or after it, and says nothing but what
// the other side sealed. The first byte tells which side it is, and after how much of a true handshake the bytes begin.
#include "base/bytes.hpp"
#include "net/secure_channel.hpp"
#include "net/tls_context.hpp"
#include "support.hpp"

#include <cstdlib>

namespace collab::fuzz::secure_channel_target {

using namespace net;

Identity identity_of(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

/// At most `bytes_max` of what `from` has to say.
std::size_t pass(SecureChannel& from, SecureChannel& to, std::size_t bytes_max) {
  const auto output = from.output();
  const Bytes bytes(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(std::min(bytes_max, output.size())));
  from.sent(bytes.size());
  if (!bytes.empty() && !to.receive(bytes)) std::abort();  // nothing is wrong with it
  return bytes.size();
}

COLLAB_FUZZ_TARGET(secure_channel) {
  static const Identity ours = identity_of(1);
  static const Identity theirs = identity_of(2);
  static const TlsContext our_tls(ours);
  static const TlsContext their_tls(theirs);
  if (size == 0) return 0;
  const bool dials = data[0] % 2 == 0;
  SecureChannel victim(our_tls, dials ? Side::dialled : Side::accepted, std::nullopt);
  SecureChannel other(their_tls, dials ? Side::accepted : Side::dialled, std::nullopt);
  std::size_t left = data[0] / 2U * std::size_t(32);
  for (bool moved = true; moved && left > 0;) {
    const std::size_t there = pass(other, victim, left);
    left -= there;
    moved = pass(victim, other, 100'000) > 0 || there > 0;
  }
  const bool was_established = victim.established();
  const auto taken = victim.receive(std::as_bytes(std::span(data + 1, size - 1)));
  if (!taken && victim.fault() == TlsFault::none) std::abort();
  if (!victim.opened().empty()) std::abort();                  // nobody sealed anything
  if (victim.established() && !was_established) std::abort();  // and nobody else has the key
  (void)victim.output();
  (void)victim.close();
  return 0;
}

}  // namespace collab::fuzz::secure_channel_target
