// The other end of a TCP connection: an address and a port, IPv4 and IPv6 alike.

#ifndef SHOAL_NET_BASE_TCP_ENDPOINT_H_
#define SHOAL_NET_BASE_TCP_ENDPOINT_H_

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal::net {

struct TcpEndpoint {
  // IPv4 as IPv6, as the sockets of a listener for both have it.
  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;

  auto operator<=>(const TcpEndpoint&) const = default;
};

// "127.0.0.1:80", "[::1]:80", also with an interface ("[fe80::1%eth0]:80"); digits only.
std::optional<TcpEndpoint> ParseTcpEndpoint(std::string_view text);

// Nullopt: not a connected IP socket.
std::optional<TcpEndpoint> OtherEndOf(int fd);
// The same of its own end, also of one that is not connected.
std::optional<TcpEndpoint> OwnEndOf(int fd);

// Whether the address is one of a home or of the machine itself (RFC 1918, 4193, 6598,
// link-local, loopback), which leads nowhere from outside.
bool IsPrivate(const TcpEndpoint& endpoint);

// Who is counted as one: an IPv4 address, or an IPv6 network of 64 bits, which one line has whole.
std::array<std::uint8_t, 16> LineOf(const TcpEndpoint& endpoint);

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_TCP_ENDPOINT_H_
