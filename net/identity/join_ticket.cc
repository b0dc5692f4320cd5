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
constexpr unsigned char kVersion = 1;
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

}  // namespace

Result<JoinTicket> MakeJoinTicket(const std::string& secret, const PeerId& scheduler,
                                  const PeerId& key) {
  SHOAL_CHECK(sodium_init() >= 0);
  unsigned char raw[16];
  std::size_t size = 0;
  if (sodium_hex2bin(raw, sizeof(raw), secret.data(), secret.size(), nullptr, &size, nullptr) !=
          0 ||
      size != sizeof(raw)) {
    return InvalidArgument("the join secret is not 32 hex digits");
  }
  std::string text(kContext);
  text.append(scheduler.key.begin(), scheduler.key.end());
  text.append(key.key.begin(), key.key.end());
  JoinTicket ticket;
  ticket[0] = kVersion;
  SHOAL_CHECK(crypto_generichash(ticket.data() + 1, ticket.size() - 1,
                                 reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                 raw, sizeof(raw)) == 0);
  return ticket;
}

Result<std::shared_ptr<const Identity>> WithTicket(const Identity& identity,
                                                   const std::string& secret,
                                                   const PeerId& scheduler) {
  SHOAL_ASSIGN_OR_RETURN(const JoinTicket ticket, MakeJoinTicket(secret, scheduler, identity.id));
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

Status CheckTicket(std::string_view certificate_pem, const PeerId& key, const std::string& secret,
                   const PeerId& scheduler) {
  const Status refused = Unauthenticated("the certificate of " + key.ToShort() +
                                         " has no ticket of this run's invite");
  SHOAL_ASSIGN_OR_RETURN(const JoinTicket wanted, MakeJoinTicket(secret, scheduler, key));
  SHOAL_ASSIGN_OR_RETURN(const CertificatePtr certificate, ParseCertificate(certificate_pem));
  const ObjectPtr object = TicketObject();
  const int at = object ? X509_get_ext_by_OBJ(certificate.get(), object.get(), -1) : -1;
  if (at < 0) return refused;
  const ASN1_OCTET_STRING* const given =
      X509_EXTENSION_get_data(X509_get_ext(certificate.get(), at));
  if (ASN1_STRING_length(given) != static_cast<int>(wanted.size()) ||
      sodium_memcmp(ASN1_STRING_get0_data(given), wanted.data(), wanted.size()) != 0) {
    return refused;
  }
  return Status::Ok();
}

}  // namespace shoal::net
