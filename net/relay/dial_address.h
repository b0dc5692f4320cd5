// How a connection to a peer is dialled, from one of the addresses that others know of it.

#ifndef SHOAL_NET_RELAY_DIAL_ADDRESS_H_
#define SHOAL_NET_RELAY_DIAL_ADDRESS_H_

#include <string>

#include "common/ids.h"
#include "net/identity/grpc_setup.h"

namespace shoal::net {

// `address`: host:port, or that of a relay (relay_address.h), which is then asked for `peer` with a
// ticket of this moment.
ChannelAddress DialAddress(const std::string& address, const PeerId& peer);

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_DIAL_ADDRESS_H_
