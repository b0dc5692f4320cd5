#include "net/relay/dial_address.h"

#include <chrono>

#include "net/relay/relay_address.h"
#include "net/relay/relay_message.h"
#include "net/relay/relay_ticket.h"

namespace shoal::net {

ChannelAddress DialAddress(const std::string& address, const PeerId& peer) {
  if (!IsRelayAddress(address)) return {address, "", ""};
  const auto relay = ParseRelayAddress(address);
  if (!relay.ok()) return {"ipv4:0.0.0.0:1", "", ""};  // nobody answers there
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t now_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return {relay->host_port, RelayCallTarget(peer),
          RelayCallHeader(MakeRelayTicket(relay->secret, peer, now_s))};
}

}  // namespace shoal::net
