#include "net/base/tcp_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

namespace shoal::net {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

TcpEndpoint EndpointOf(const in_addr& v4, std::uint16_t port) {
  TcpEndpoint endpoint;
  std::copy(kMapped.begin(), kMapped.end(), endpoint.address.begin());
  std::memcpy(&endpoint.address[kMapped.size()], &v4, sizeof(v4));
  endpoint.port = port;
  return endpoint;
}

TcpEndpoint EndpointOf(const in6_addr& v6, std::uint16_t port) {
  TcpEndpoint endpoint;
  std::memcpy(endpoint.address.data(), &v6, sizeof(v6));
  endpoint.port = port;
  return endpoint;
}

std::optional<TcpEndpoint> EndpointOf(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return EndpointOf(v4.sin_addr, ntohs(v4.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    return EndpointOf(v6.sin6_addr, ntohs(v6.sin6_port));
  }
  return std::nullopt;
}

}  // namespace

std::optional<TcpEndpoint> ParseTcpEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    host = host.substr(0, host.find('%'));  // an interface may follow
  }
  std::uint16_t port = 0;
  if (std::from_chars(digits.begin(), digits.end(), port).ptr != digits.end()) return std::nullopt;
  const std::string copy(host);
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, copy.c_str(), &v4) == 1) return EndpointOf(v4, port);
  if (::inet_pton(AF_INET6, copy.c_str(), &v6) == 1) return EndpointOf(v6, port);
  return std::nullopt;
}

std::optional<TcpEndpoint> OtherEndOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  return EndpointOf(storage);
}

std::optional<TcpEndpoint> OwnEndOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  return EndpointOf(storage);
}
bool IsPrivate(const TcpEndpoint& endpoint) {
  const auto& a = endpoint.address;
  if (std::equal(kMapped.begin(), kMapped.end(), a.begin())) {
    const std::uint8_t first = a[12], second = a[13];
    return first == 10 || first == 127 || (first == 172 && second >= 16 && second < 32) ||
           (first == 192 && second == 168) || (first == 100 && (second & 0xc0) == 64) ||
           (first == 169 && second == 254);
  }
  const bool loopback = a[15] == 1 && std::all_of(a.begin(), a.end() - 1,
                                                  [](std::uint8_t byte) { return byte == 0; });
  return loopback || (a[0] & 0xfe) == 0xfc || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80);
}

std::array<std::uint8_t, 16> LineOf(const TcpEndpoint& endpoint) {
  std::array<std::uint8_t, 16> line = endpoint.address;
  if (std::equal(kMapped.begin(), kMapped.end(), line.begin())) return line;
  std::fill(line.begin() + 8, line.end(), std::uint8_t{0});
  return line;
}

}  // namespace shoal::net
