// Certificates as OpenSSL has them; for the files of net/ that make or read some.

#ifndef SHOAL_NET_IDENTITY_CERTIFICATE_H_
#define SHOAL_NET_IDENTITY_CERTIFICATE_H_

#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"

struct x509_st;            // X509
struct X509_extension_st;  // X509_EXTENSION

namespace shoal::net {

struct FreeCertificate {
  void operator()(x509_st* certificate) const;
};
using CertificatePtr = std::unique_ptr<x509_st, FreeCertificate>;

// Any bytes.
Result<CertificatePtr> ParseCertificate(std::string_view pem);

// A certificate of an Ed25519 key, signed by it, in PEM; `extension` may be null.
Result<std::string> SelfSignedCertificate(const std::string& private_key_pem,
                                          X509_extension_st* extension);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_CERTIFICATE_H_
