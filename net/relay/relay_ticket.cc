#include "net/relay/relay_ticket.h"

#include <sodium.h>

#include <charconv>

#include "net/identity/signature.h"

namespace shoal::net {
namespace {

constexpr std::string_view kCallContext = "shoal relay call 1";
constexpr std::string_view kProofContext = "shoal relay proof 1";
constexpr std::size_t kCodeBytes = 32;
static_assert(kRelayTicketBytesMax == 20 + 1 + 2 * kCodeBytes);

using Code = std::array<unsigned char, kCodeBytes>;

Result<Code> CodeOf(const std::string& secret, std::string_view text) {
  SHOAL_CHECK(sodium_init() >= 0);
  unsigned char raw[16];
  std::size_t size = 0;
  if (sodium_hex2bin(raw, sizeof(raw), secret.data(), secret.size(), nullptr, &size, nullptr) !=
          0 ||
      size != sizeof(raw)) {
    return InvalidArgument("the secret of a relay is not 32 hex digits");
  }
  Code code;
  SHOAL_CHECK(crypto_generichash(code.data(), code.size(),
                                 reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                 raw, sizeof(raw)) == 0);
  return code;
}

std::string Key(const PeerId& peer) { return {peer.key.begin(), peer.key.end()}; }

std::string ProofText(const RelayChallenge& challenge, const PeerId& key) {
  return std::string(kProofContext) + std::string(challenge.bytes.begin(), challenge.bytes.end()) +
         Key(key);
}

Result<Code> CallCode(const std::string& secret, const PeerId& target, const std::string& time) {
  return CodeOf(secret, std::string(kCallContext) + Key(target) + time);
}

Status Refused() {
  return Unauthenticated("the caller does not know the relay's secret, or its clock is wrong");
}

}  // namespace

std::string MakeRelayTicket(const std::string& secret, const PeerId& target, std::int64_t now_s) {
  const std::string time = std::to_string(now_s);
  const auto code = CallCode(secret, target, time);
  if (!code.ok()) return "";  // the relay refuses it
  char hex[2 * kCodeBytes + 1];
  sodium_bin2hex(hex, sizeof(hex), code->data(), code->size());
  return time + "." + hex;
}

Status CheckRelayTicket(std::string_view ticket, const std::string& secret, const PeerId& target,
                        std::int64_t now_s) {
  const std::size_t point = ticket.find('.');
  if (point == std::string_view::npos || ticket.size() > kRelayTicketBytesMax) return Refused();
  const std::string time(ticket.substr(0, point));
  std::int64_t made_s = 0;
  const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), made_s);
  if (error != std::errc() || end != time.data() + time.size()) return Refused();
  const std::int64_t age = kRelayTicketAge.count();
  if (made_s < now_s - age || made_s > now_s + age) return Refused();
  const std::string_view hex = ticket.substr(point + 1);
  Code given{};
  std::size_t size = 0;
  SHOAL_CHECK(sodium_init() >= 0);
  if (sodium_hex2bin(given.data(), given.size(), hex.data(), hex.size(), nullptr, &size, nullptr) !=
          0 ||
      size != given.size()) {
    return Refused();
  }
  SHOAL_ASSIGN_OR_RETURN(const Code wanted, CallCode(secret, target, time));
  return sodium_memcmp(given.data(), wanted.data(), wanted.size()) == 0 ? Status::Ok() : Refused();
}

Result<RelayProof> ProveToRelay(const RelayChallenge& challenge, const std::string& secret,
                                const Identity& identity) {
  const std::string text = ProofText(challenge, identity.id);
  RelayProof proof;
  SHOAL_ASSIGN_OR_RETURN(proof.code, CodeOf(secret, text));
  SHOAL_ASSIGN_OR_RETURN(proof.signature, Sign(identity, text));
  return proof;
}

Status CheckRelayProof(const RelayProof& proof, const RelayChallenge& challenge,
                       const std::string& secret, const PeerId& key) {
  const std::string text = ProofText(challenge, key);
  SHOAL_ASSIGN_OR_RETURN(const Code wanted, CodeOf(secret, text));
  if (sodium_memcmp(proof.code.data(), wanted.data(), wanted.size()) != 0) {
    return Unauthenticated("the peer does not know the relay's secret");
  }
  return CheckSignature(key, text, proof.signature);
}

}  // namespace shoal::net
