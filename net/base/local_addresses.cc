#include "net/base/local_addresses.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>

#include "net/base/host_port.h"
#include "net/base/tcp_endpoint.h"

namespace shoal::net {

std::optional<std::vector<std::string>> FindLocalAddresses() {
  std::vector<std::string> v4;
  std::vector<std::string> v6;
  std::vector<std::string> loopback;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return std::nullopt;
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

std::vector<std::string> LocalAddresses() {
  return FindLocalAddresses().value_or(std::vector<std::string>{"127.0.0.1"});
}

std::size_t EndConnectionsFrom(const std::vector<std::string>& addresses) {
  std::set<std::array<std::uint8_t, 16>> gone;
  for (const std::string& address : addresses) {
    if (const auto end = ParseTcpEndpoint(FormatHostPort({address, 1}))) gone.insert(end->address);
  }
  std::size_t ended = 0;
  if (gone.empty()) return ended;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    // A copy stays what it is, whatever its owner does with the number meanwhile.
    const int copy = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) continue;
    const auto own = OtherEndOf(copy) ? OwnEndOf(copy) : std::nullopt;
    if (own && gone.contains(own->address) && ::shutdown(copy, SHUT_RDWR) == 0) ++ended;
    ::close(copy);
  }
  return ended;
}

}  // namespace shoal::net
