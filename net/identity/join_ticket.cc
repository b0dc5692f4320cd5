#include "net/identity/join_ticket.h"

#include <openssl/objects.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sodium.h>

#include <algorithm>

#include "net/identity/certificate.h"

namespace shoal::net {
namespace {

constexpr std::string_view kContext = "shoal join ticket";
constexpr std::string_view kKeyContext = "shoal invite key";
constexpr unsigned char kVersion = 2;
constexpr std::size_t kIdBytes = 8;
constexpr std::size_t kSecretBytes = 16;
// Of a random UUID (ITU-T X.667), so that nobody has to give a number out.
constexpr char kObject[] = "2.25.219430316911837163407893470283164532817";

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using ObjectPtr = std::unique_ptr<ASN1_OBJECT, Deleter<ASN1_OBJECT_free>>;
using StringPtr = std::unique_ptr<ASN1_OCTET_STRING, Deleter<ASN1_OCTET_STRING_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;

ObjectPtr TicketObject() { return ObjectPtr(OBJ_txt2obj(kObject, 1)); }

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string SignedText(const PeerId& scheduler, const PeerId& key) {
  std::string text(kContext);
  text.append(scheduler.key.begin(), scheduler.key.end());
  text.append(key.key.begin(), key.key.end());
  return text;
}

struct KeyPair {
  std::array<std::uint8_t, crypto_sign_PUBLICKEYBYTES> open;
  std::array<unsigned char, crypto_sign_SECRETKEYBYTES> secret;
};

Result<KeyPair> KeyPairOf(const std::string& secret) {
  SHOAL_CHECK(sodium_init() >= 0);
  unsigned char raw[kSecretBytes];
  std::size_t size = 0;
  if (sodium_hex2bin(raw, sizeof(raw), secret.data(), secret.size(), nullptr, &size, nullptr) !=
          0 ||
      size != sizeof(raw)) {
    return InvalidArgument("the join secret is not 32 hex digits");
  }
  unsigned char seed[crypto_sign_SEEDBYTES];
  SHOAL_CHECK(crypto_generichash(seed, sizeof(seed), Bytes(kKeyContext), kKeyContext.size(), raw,
                                 sizeof(raw)) == 0);
  KeyPair pair;
  SHOAL_CHECK(crypto_sign_seed_keypair(pair.open.data(), pair.secret.data(), seed) == 0);
  return pair;
}

}  // namespace

InviteId InviteKey::id() const {
  InviteId id;
  for (std::size_t i = 0; i < kIdBytes; ++i) id.value = id.value << 8 | key[i];
  return id;
}

Result<InviteKey> InviteKeyOf(const std::string& secret) {
  SHOAL_ASSIGN_OR_RETURN(const KeyPair pair, KeyPairOf(secret));
  InviteKey invite;
  invite.key = pair.open;
  return invite;
}

Result<JoinTicketBytes> MakeJoinTicket(const std::string& secret, const PeerId& scheduler,
                                       const PeerId& key) {
  SHOAL_ASSIGN_OR_RETURN(const KeyPair pair, KeyPairOf(secret));
  const std::string text = SignedText(scheduler, key);
  JoinTicketBytes ticket;
  ticket[0] = kVersion;
  std::copy_n(pair.open.begin(), kIdBytes, ticket.begin() + 1);
  SHOAL_CHECK(crypto_sign_detached(ticket.data() + 1 + kIdBytes, nullptr, Bytes(text), text.size(),
                                   pair.secret.data()) == 0);
  return ticket;
}

Result<std::shared_ptr<const Identity>> WithTicket(const Identity& identity,
                                                   const std::string& secret,
                                                   const PeerId& scheduler) {
  SHOAL_ASSIGN_OR_RETURN(const JoinTicketBytes ticket,
                         MakeJoinTicket(secret, scheduler, identity.id));
  const ObjectPtr object = TicketObject();
  const StringPtr value(ASN1_OCTET_STRING_new());
  if (!object || !value ||
      ASN1_OCTET_STRING_set(value.get(), ticket.data(), static_cast<int>(ticket.size())) != 1) {
    return Internal("OpenSSL cannot make a certificate extension");
  }
  const ExtensionPtr extension(X509_EXTENSION_create_by_OBJ(nullptr, object.get(), 0, value.get()));
  if (!extension) return Internal("OpenSSL cannot make a certificate extension");
  auto made = std::make_shared<Identity>(identity);
  SHOAL_ASSIGN_OR_RETURN(made->certificate_pem,
                         SelfSignedCertificate(identity.private_key_pem, extension.get()));
  return std::shared_ptr<const Identity>(std::move(made));
}

std::optional<JoinTicket> ReadTicket(std::string_view certificate_pem) {
  const Result<CertificatePtr> certificate = ParseCertificate(certificate_pem);
  if (!certificate.ok()) return std::nullopt;
  const ObjectPtr object = TicketObject();
  const int at = object ? X509_get_ext_by_OBJ(certificate->get(), object.get(), -1) : -1;
  if (at < 0) return std::nullopt;
  const ASN1_OCTET_STRING* const given =
      X509_EXTENSION_get_data(X509_get_ext(certificate->get(), at));
  if (ASN1_STRING_length(given) != static_cast<int>(kJoinTicketBytes)) return std::nullopt;
  const unsigned char* const bytes = ASN1_STRING_get0_data(given);
  if (bytes[0] != kVersion) return std::nullopt;
  JoinTicket ticket;
  InviteKey begin;
  std::copy_n(bytes + 1, kIdBytes, begin.key.begin());
  ticket.invite = begin.id();
  std::copy_n(bytes + 1 + kIdBytes, ticket.signature.size(), ticket.signature.begin());
  return ticket;
}

bool TicketHolds(const JoinTicket& ticket, const InviteKey* invite, const PeerId& key,
                 const PeerId& scheduler) {
  SHOAL_CHECK(sodium_init() >= 0);
  // Of an invite that is not known, the work is that of another one, whose answer does not count.
  static const InviteKey kOther = *InviteKeyOf(std::string(2 * kSecretBytes, '0'));
  const InviteKey& used = invite != nullptr ? *invite : kOther;
  const std::string text = SignedText(scheduler, key);
  const bool right = crypto_sign_verify_detached(ticket.signature.data(), Bytes(text), text.size(),
                                                 used.key.data()) == 0;
  return right && invite != nullptr && ticket.invite == invite->id();
}

Status CheckTicket(std::string_view certificate_pem, const PeerId& key, const InviteKey& invite,
                   const PeerId& scheduler) {
  const auto ticket = ReadTicket(certificate_pem);
  if (ticket && TicketHolds(*ticket, &invite, key, scheduler)) return Status::Ok();
  return Unauthenticated("the certificate of " + key.ToShort() +
                         " has no ticket of this run's invite");
}

}  // namespace shoal::net
