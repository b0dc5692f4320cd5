#include "net/identity/identity.h"

#include <sys/stat.h>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sodium.h>

#include <cerrno>
#include <ctime>

#include "common/file.h"
#include "net/identity/certificate.h"

namespace shoal::net {
namespace {

constexpr std::size_t kSecretBytes = 16;

constexpr std::uint64_t kKeyFileBytesMax = 4096;
constexpr std::size_t kCertificateBytesMax = 64 * 1024;
// A day back: the other end's clock may be slow. Ten years on: longer than any run.
constexpr long kBackdateSeconds = 24L * 3600;
constexpr long kValidSeconds = 3650L * 24 * 3600;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using SignContextPtr = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;
using KeyContextPtr = std::unique_ptr<EVP_PKEY_CTX, Deleter<EVP_PKEY_CTX_free>>;

BioPtr ReadOnlyBio(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TakeText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

Result<PeerId> RawPublicKey(EVP_PKEY* key) {
  PeerId id;
  std::size_t size = id.key.size();
  if (EVP_PKEY_id(key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key, id.key.data(), &size) != 1 || size != id.key.size()) {
    return InvalidArgument("the key is not an Ed25519 key");
  }
  return id;
}

Result<std::string> NewKeyPem() {
  KeyContextPtr context(EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nullptr));
  EVP_PKEY* raw = nullptr;
  if (!context || EVP_PKEY_keygen_init(context.get()) != 1 ||
      EVP_PKEY_keygen(context.get(), &raw) != 1) {
    return Internal("OpenSSL cannot make an Ed25519 key");
  }
  const KeyPtr key(raw);
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio ||
      PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Internal("OpenSSL cannot write an Ed25519 key");
  }
  return TakeText(bio.get());
}

Result<std::string> SignedCertificate(EVP_PKEY* key, const PeerId& id, X509_EXTENSION* extension) {
  const CertificatePtr certificate(X509_new());
  if (!certificate) return Internal("OpenSSL cannot make a certificate");
  X509* const x = certificate.get();
  const std::string name = "shoal " + id.ToShort();
  bool good = X509_set_version(x, 2) == 1;
  good = good && ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), 1) == 1;
  good = good && X509_gmtime_adj(X509_getm_notBefore(x), -kBackdateSeconds) != nullptr;
  good = good && X509_gmtime_adj(X509_getm_notAfter(x), kValidSeconds) != nullptr;
  good = good && X509_set_pubkey(x, key) == 1;
  X509_NAME* const subject = X509_get_subject_name(x);
  good = good && X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                            reinterpret_cast<const unsigned char*>(name.c_str()),
                                            -1, -1, 0) == 1;
  good = good && X509_set_issuer_name(x, subject) == 1;
  good = good && (extension == nullptr || X509_add_ext(x, extension, -1) == 1);
  good = good && X509_sign(x, key, nullptr) > 0;  // Ed25519 brings its own hash
  const BioPtr bio(BIO_new(BIO_s_mem()));
  good = good && bio && PEM_write_bio_X509(bio.get(), x) == 1;
  if (!good) return Internal("OpenSSL cannot make a self-signed Ed25519 certificate");
  return TakeText(bio.get());
}

Result<KeyPtr> ReadKey(const std::string& pem) {
  const BioPtr bio = ReadOnlyBio(pem);
  KeyPtr key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!key) return DataLoss("it holds no private key in PEM form");
  return key;
}

Result<std::shared_ptr<const Identity>> IdentityOfKey(const std::string& pem) {
  SHOAL_ASSIGN_OR_RETURN(const KeyPtr key, ReadKey(pem));
  auto identity = std::make_shared<Identity>();
  SHOAL_ASSIGN_OR_RETURN(identity->id, RawPublicKey(key.get()));
  SHOAL_ASSIGN_OR_RETURN(identity->certificate_pem,
                         SignedCertificate(key.get(), identity->id, nullptr));
  identity->private_key_pem = pem;
  return std::shared_ptr<const Identity>(std::move(identity));
}

}  // namespace

Result<std::shared_ptr<const Identity>> LoadOrCreateIdentity(const std::string& directory) {
  const std::string path = directory + "/identity.key";
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return FromErrno(errno, "read identity key " + path);
    SHOAL_RETURN_IF_ERROR(MakeDirectories(directory, 0700));
    SHOAL_ASSIGN_OR_RETURN(const std::string pem, NewKeyPem());
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(path, pem, 0600));
    return IdentityOfKey(pem);
  }
  if ((info.st_mode & 0077) != 0) {
    return PermissionDenied("identity key " + path +
                            " can be read by other users; if they are trusted, run: chmod 600 " +
                            path + "; if not, delete it and join again as a new peer");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string pem, ReadFile(path, kKeyFileBytesMax));
  auto identity = IdentityOfKey(pem);
  if (!identity.ok()) {
    return Status(identity.status().code(),
                  "identity key " + path + " is damaged: " + identity.status().message() +
                      "; restore it from a backup, or delete it and join again as a new peer");
  }
  return identity;
}

Result<std::string> SelfSignedCertificate(const std::string& private_key_pem,
                                          X509_EXTENSION* extension) {
  SHOAL_ASSIGN_OR_RETURN(const KeyPtr key, ReadKey(private_key_pem));
  SHOAL_ASSIGN_OR_RETURN(const PeerId id, RawPublicKey(key.get()));
  return SignedCertificate(key.get(), id, extension);
}

void FreeCertificate::operator()(x509_st* certificate) const { X509_free(certificate); }

Result<CertificatePtr> ParseCertificate(std::string_view pem) {
  if (pem.size() > kCertificateBytesMax) return InvalidArgument("the certificate is too large");
  const BioPtr bio = ReadOnlyBio(pem);
  CertificatePtr certificate(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)
                                 : nullptr);
  if (!certificate) return InvalidArgument("the certificate is not an X.509 certificate in PEM");
  return certificate;
}

Result<PeerId> PeerIdOfCertificate(std::string_view pem) {
  SHOAL_ASSIGN_OR_RETURN(const CertificatePtr certificate, ParseCertificate(pem));
  EVP_PKEY* const key = X509_get0_pubkey(certificate.get());
  if (key == nullptr) return InvalidArgument("the certificate has no usable key");
  SHOAL_ASSIGN_OR_RETURN(const PeerId id, RawPublicKey(key));
  if (X509_verify(certificate.get(), key) != 1) {
    return Unauthenticated("the certificate is not signed by its own key");
  }
  // X509_cmp_current_time: negative if the time lies in the past, 0 on error.
  if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) >= 0) {
    return Unauthenticated("the certificate is not valid yet; check the clocks of both machines");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) <= 0) {
    return Unauthenticated("the certificate has expired; restart the other end to renew it");
  }
  return id;
}

std::string NewJoinSecret() {
  SHOAL_CHECK(sodium_init() >= 0);
  unsigned char secret[kSecretBytes];
  randombytes_buf(secret, sizeof(secret));
  char hex[2 * sizeof(secret) + 1];
  sodium_bin2hex(hex, sizeof(hex), secret, sizeof(secret));
  return hex;
}

bool IsJoinSecret(std::string_view text) {
  return text.size() == 2 * kSecretBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace shoal::net
