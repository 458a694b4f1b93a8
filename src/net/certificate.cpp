#include "net/certificate.hpp"

#include <fmt/format.h>
#include <openssl/objects.h>
#include <openssl/x509v3.h>

#include <memory>
#include <utility>

namespace collab::net {
namespace {

constexpr long kVersion3 = 2;  // X.509 counts from zero

void require(bool worked, const char* what) {
  if (!worked)
    throw Failure(ExitCode::machine, std::string("OpenSSL cannot ") + what, "install an OpenSSL 3 with Ed25519");
}

bool has_unknown_critical_extension(const X509* certificate) {
  for (int i = 0; i < X509_get_ext_count(certificate); ++i) {
    X509_EXTENSION* extension = X509_get_ext(certificate, i);
    if (X509_EXTENSION_get_critical(extension) != 0 && X509_supported_extension(extension) == 0) return true;
  }
  return false;
}

CertificateVerdict refuse(TlsFault fault, std::string reason, const PeerId& peer = {}) {
  return {fault, std::move(reason), peer};
}

/// Everything but whose key it should be.
CertificateVerdict judge_form(X509* certificate) {
  if (i2d_X509(certificate, nullptr) > static_cast<int>(kCertificateBytesMax))
    return refuse(TlsFault::certificate, fmt::format("its certificate has more than {} bytes", kCertificateBytesMax));
  EVP_PKEY* key = X509_get0_pubkey(certificate);
  PeerId peer;
  std::size_t size = peer.key.size();
  if (key == nullptr || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key, peer.key.data(), &size) != 1 || size != peer.key.size())
    return refuse(TlsFault::certificate, "its certificate holds no Ed25519 key");
  if (const auto usable = check_key(peer); !usable) return refuse(TlsFault::certificate, usable.error().message());
  if (X509_get_signature_nid(certificate) != NID_ED25519 || X509_verify(certificate, key) != 1)
    return refuse(TlsFault::certificate, "its certificate is not signed by its own key");
  if (has_unknown_critical_extension(certificate))
    return refuse(TlsFault::certificate, "its certificate has a critical extension that this program does not know");
  return {TlsFault::none, {}, peer};
}

}  // namespace

std::string_view name(TlsFault fault) noexcept {
  switch (fault) {
    case TlsFault::none: return "none";
    case TlsFault::not_tls: return "not_tls";
    case TlsFault::version: return "version";
    case TlsFault::no_certificate: return "no_certificate";
    case TlsFault::certificate: return "certificate";
    case TlsFault::wrong_peer: return "wrong_peer";
    case TlsFault::own_key: return "own_key";
    case TlsFault::record: return "record";
    case TlsFault::flood: return "flood";
    case TlsFault::refused: return "refused";
  }
  return "unknown";
}

PrivateKeyPtr make_private_key(const Identity& identity) {
  PrivateKeyPtr key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, identity.seed().data(), identity.seed().size()));
  require(key != nullptr, "use an Ed25519 key");
  return key;
}

CertificatePtr make_certificate(const Identity& identity) {
  const PrivateKeyPtr key = make_private_key(identity);
  CertificatePtr certificate(X509_new());
  require(certificate != nullptr, "make a certificate");
  X509* x509 = certificate.get();
  X509_NAME* subject = X509_get_subject_name(x509);
  const unsigned char common_name[] = "collab";
  bool worked = X509_set_version(x509, kVersion3) == 1;
  worked = worked && ASN1_INTEGER_set(X509_get_serialNumber(x509), 1) == 1;
  worked = worked && ASN1_TIME_set_string_X509(X509_getm_notBefore(x509), "19700101000000Z") == 1;
  worked = worked && ASN1_TIME_set_string_X509(X509_getm_notAfter(x509), "99991231235959Z") == 1;
  worked = worked && X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC, common_name, -1, -1, 0) == 1;
  worked = worked && X509_set_issuer_name(x509, subject) == 1;
  worked = worked && X509_set_pubkey(x509, key.get()) == 1;
  worked = worked && X509_sign(x509, key.get(), nullptr) > 0;
  require(worked, "make a certificate");
  return certificate;
}

CertificateVerdict judge_certificate(const STACK_OF(X509) * presented, const PeerId& own,
                                     const std::optional<PeerId>& expected) {
  const int count = presented == nullptr ? 0 : sk_X509_num(presented);
  if (count == 0) return refuse(TlsFault::no_certificate, "it presents no certificate");
  if (count > 1) return refuse(TlsFault::certificate, fmt::format("it presents {} certificates, not one", count));
  CertificateVerdict verdict = judge_form(sk_X509_value(presented, 0));
  if (verdict.fault != TlsFault::none) return verdict;
  if (verdict.peer == own)
    return refuse(TlsFault::own_key, "it has our own key: this is ourselves, or a second process with our identity",
                  own);
  if (expected && verdict.peer != *expected)
    return refuse(TlsFault::wrong_peer,
                  fmt::format("{} was dialled, {} answers", expected->text(), verdict.peer.text()), verdict.peer);
  return verdict;
}

}  // namespace collab::net
