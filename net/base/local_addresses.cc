#include "net/base/local_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>

namespace shoal::net {

std::vector<std::string> LocalAddresses() {
  std::vector<std::string> v4;
  std::vector<std::string> v6;
  std::vector<std::string> loopback;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const bool is_loopback = (item->ifa_flags & IFF_LOOPBACK) != 0;
    if (item->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(item->ifa_addr);
      ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
      (is_loopback ? loopback : v4).emplace_back(text.data());
    } else if (item->ifa_addr->sa_family == AF_INET6 && !is_loopback) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(item->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      ::inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
      v6.emplace_back(text.data());
    }
  }
  ::freeifaddrs(list);
  v4.insert(v4.end(), v6.begin(), v6.end());
  v4.insert(v4.end(), loopback.begin(), loopback.end());
  return v4;
}

}  // namespace shoal::net
