// Ways of a link, from the poorest to the best.

#ifndef SHOAL_NET_LINKS_LINK_PATH_H_
#define SHOAL_NET_LINKS_LINK_PATH_H_

#include <string>
#include <string_view>
#include <vector>

namespace shoal::net {

enum class LinkPath { kRelay, kPunched, kDirect, kLan };

// As LinkStats::path.
std::string PathName(LinkPath path);
// To an address of a machine, "host:port" in digits: kDirect or kLan. Names count as kDirect.
LinkPath PathOf(std::string_view address);
// Ways to a peer that would be better than `path`: of its addresses, of relays or not, and, with
// the help of relays, through routers (PunchAddress).
std::vector<std::string> BetterThan(LinkPath path, const std::vector<std::string>& addresses);

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_PATH_H_
