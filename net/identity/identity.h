// Identity: a peer's Ed25519 key, its self-signed certificate, and what a peer must prove.

#ifndef SHOAL_NET_IDENTITY_IDENTITY_H_
#define SHOAL_NET_IDENTITY_IDENTITY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/status.h"

namespace shoal::net {

struct Identity {
  PeerId id;
  std::string certificate_pem;
  std::string private_key_pem;
};

// Reads <directory>/identity.key (mode 0600, a wider mode is refused) or makes one. The
// certificate is derived from the key each time.
Result<std::shared_ptr<const Identity>> LoadOrCreateIdentity(const std::string& directory);

// The raw Ed25519 key of a PEM certificate; any other key type, or dates that do not include now,
// is an error.
Result<PeerId> PeerIdOfCertificate(std::string_view pem);

// Of an invite; more are not put into one.
inline constexpr std::size_t kInviteAddressesMax = 16;

// What the scheduler prints and a volunteer pastes: shoal1_<base64url(content, checksum)>.
struct Invite {
  std::vector<std::string> addresses;  // host:port of the scheduler, then of relays
  PeerId scheduler;
  std::string secret;  // 16 random bytes, hex
};

std::string FormatInvite(const Invite& invite);
// Any text; a typing error is told from a foreign format.
Result<Invite> ParseInvite(std::string_view text);
// 16 random bytes, hex.
std::string NewJoinSecret();
// Whether a text has the form of one.
bool IsJoinSecret(std::string_view text);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_IDENTITY_H_
