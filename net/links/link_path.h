// Ways of a link, from the poorest to the best.

#ifndef SHOAL_NET_LINKS_LINK_PATH_H_
#define SHOAL_NET_LINKS_LINK_PATH_H_

#include <string>
#include <string_view>
#include <vector>

namespace shoal::net {

enum class LinkPath { kRelay, kDirect, kLan };

// As LinkStats::path.
std::string PathName(LinkPath path);
// To an address of a machine, "host:port" in digits: kDirect or kLan. Names count as kDirect.
LinkPath PathOf(std::string_view address);
// Those of a peer's addresses, of relays or not, that would be a better way than `path`.
std::vector<std::string> BetterThan(LinkPath path, const std::vector<std::string>& addresses);

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_PATH_H_
