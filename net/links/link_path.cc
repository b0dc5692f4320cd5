#include "net/links/link_path.h"

#include "net/base/tcp_endpoint.h"
#include "net/relay/relay_address.h"

namespace shoal::net {

std::string PathName(LinkPath path) {
  switch (path) {
    case LinkPath::kRelay: return "relay";
    case LinkPath::kPunched: return "punched";
    case LinkPath::kDirect: return "direct";
    case LinkPath::kLan: return "lan";
  }
  return "";
}

LinkPath PathOf(std::string_view address) {
  const auto end = ParseTcpEndpoint(address);
  return end && IsPrivate(*end) ? LinkPath::kLan : LinkPath::kDirect;
}

std::vector<std::string> BetterThan(LinkPath path, const std::vector<std::string>& addresses) {
  std::vector<std::string> better;
  for (const std::string& address : addresses) {
    const bool relay = IsRelayAddress(address);
    const LinkPath way = relay ? LinkPath::kPunched : PathOf(address);
    if (way > path) better.push_back(relay ? PunchAddress(address) : address);
  }
  return better;
}

}  // namespace shoal::net
