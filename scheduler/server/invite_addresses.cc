#include "scheduler/server/invite_addresses.h"

#include <algorithm>

#include "net/base/host_port.h"
#include "net/base/local_addresses.h"
#include "net/relay/relay_address.h"

namespace shoal::scheduler {

Result<std::vector<std::string>> InviteAddresses(const std::vector<std::string>& advertise,
                                                 const std::string& listen, std::uint16_t port) {
  std::vector<std::string> addresses;
  for (const std::string& given : advertise) {
    const auto whole = net::ParseHostPort(given);
    addresses.push_back(whole.ok() ? given : net::FormatHostPort({given, port}));
  }
  if (!addresses.empty()) return addresses;
  SHOAL_ASSIGN_OR_RETURN(const net::HostPort listened, net::ParseHostPort(listen));
  if (listened.host != "0.0.0.0" && listened.host != "::") {
    return std::vector<std::string>{net::FormatHostPort({listened.host, port})};
  }
  for (const std::string& host : net::LocalAddresses()) {
    addresses.push_back(net::FormatHostPort({host, port}));
  }
  return addresses;
}

std::vector<std::string> OwnRelayAddresses(const std::vector<std::string>& addresses,
                                           const std::string& secret, std::uint16_t port) {
  std::vector<std::string> relays;
  for (const bool loopback : {false, true}) {
    for (const std::string& address : addresses) {
      const auto parsed = net::ParseHostPort(address);
      if (!parsed.ok() || relays.size() >= kOwnRelaysMax) continue;
      const bool own = parsed->host.starts_with("127.") || parsed->host == "::1";
      if (own != loopback) continue;
      const std::string relay =
          net::FormatRelayAddress({secret, net::FormatHostPort({parsed->host, port})});
      if (std::find(relays.begin(), relays.end(), relay) == relays.end()) relays.push_back(relay);
    }
    if (!relays.empty()) break;
  }
  return relays;
}

}  // namespace shoal::scheduler
