#include "scheduler/machine_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

#include "net/host_port.h"

namespace shoal::scheduler {
namespace {

struct Found {
  int rank = 0;  // smaller is better
  std::string address;
};

// Nothing of an interface that is down, or for an address that only its own link knows.
bool Describe(const ifaddrs& entry, Found* found) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  const bool loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  char text[INET6_ADDRSTRLEN] = {};
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    found->rank = loopback ? 2 : 0;
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
    if (loopback || IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr)) return false;
    inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
    found->rank = 1;
  } else {
    return false;
  }
  found->address = text;
  return true;
}

}  // namespace

std::vector<std::string> MachineAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  std::vector<Found> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    Found found;
    if (Describe(*entry, &found)) all.push_back(std::move(found));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Found& a, const Found& b) { return a.rank < b.rank; });
  std::vector<std::string> addresses;
  for (Found& found : all) addresses.push_back(std::move(found.address));
  return addresses;
}

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
  for (const std::string& host : MachineAddresses()) {
    addresses.push_back(net::FormatHostPort({host, port}));
  }
  return addresses;
}

}  // namespace shoal::scheduler
