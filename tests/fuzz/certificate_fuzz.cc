// Certificates as strangers show them: whatever they are, they are no proof of this run's secret.

#include <sodium.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "net/identity/identity.h"
#include "net/identity/join_ticket.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_encoded_len(size, kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), data, size, kVariant);
  text.pop_back();  // the terminating zero
  std::string pem = "-----BEGIN CERTIFICATE-----\n";
  for (std::size_t at = 0; at < text.size(); at += 64) pem += text.substr(at, 64) + "\n";
  pem += "-----END CERTIFICATE-----\n";
  const auto key = shoal::net::PeerIdOfCertificate(pem);
  const shoal::PeerId none{};
  static const shoal::net::InviteKey invite =
      *shoal::net::InviteKeyOf("5f0c1a9e7b3d42868a1d6e0f9c2b7754");
  const shoal::Status ticket =
      shoal::net::CheckTicket(pem, key.ok() ? *key : none, invite, shoal::PeerId{});
  if (ticket.ok()) std::abort();
  return 0;
}
