#include "net/identity/signature.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sodium.h>

#include <memory>

namespace shoal::net {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Result<Signature> Sign(const Identity& identity, std::string_view text) {
  const std::string& pem = identity.private_key_pem;
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const std::unique_ptr<EVP_PKEY, Free> key(
      bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  Signature signature;
  std::size_t size = signature.size();
  if (!key || !context ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, Bytes(text), text.size()) != 1 ||
      size != signature.size()) {
    return Internal("OpenSSL cannot sign with this peer's key");
  }
  return signature;
}

Status CheckSignature(const PeerId& key, std::string_view text, const Signature& signature) {
  SHOAL_CHECK(sodium_init() >= 0);
  if (crypto_sign_verify_detached(signature.data(), Bytes(text), text.size(), key.key.data()) !=
      0) {
    return Unauthenticated("the signature is not that of key " + key.ToShort());
  }
  return Status::Ok();
}

}  // namespace shoal::net
