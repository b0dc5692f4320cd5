// Signatures by a peer's key (Ed25519, RFC 8032). Whoever signs begins the text with words of its
// own purpose, so that no signature serves another one.

#ifndef SHOAL_NET_IDENTITY_SIGNATURE_H_
#define SHOAL_NET_IDENTITY_SIGNATURE_H_

#include <array>
#include <string_view>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/identity.h"

namespace shoal::net {

using Signature = std::array<unsigned char, 64>;

Result<Signature> Sign(const Identity& identity, std::string_view text);
// Unauthenticated: it is not `key`'s of this text.
Status CheckSignature(const PeerId& key, std::string_view text, const Signature& signature);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_SIGNATURE_H_
