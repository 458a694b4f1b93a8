#pragma once
// OpenSSL's objects with owners. For the .cpp files of this room and their tests; no other header includes it.

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

namespace collab::net {

template <auto free_function>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const noexcept {
    free_function(object);
  }
};

using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using TlsContextPtr = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using TlsPtr = std::unique_ptr<SSL, OpensslFree<SSL_free>>;
using BioMethodPtr = std::unique_ptr<BIO_METHOD, OpensslFree<BIO_meth_free>>;

}  // namespace collab::net
