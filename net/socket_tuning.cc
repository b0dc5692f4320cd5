#include "net/socket_tuning.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace shoal::net {
namespace {

// IPv4 as IPv6, as the sockets of a listener for both have it.
struct Endpoint {
  in6_addr address{};
  std::uint16_t port = 0;

  bool operator==(const Endpoint& other) const {
    return port == other.port && std::memcmp(&address, &other.address, sizeof(address)) == 0;
  }
};

in6_addr MappedOf(const in_addr& v4) {
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &v4, sizeof(v4));
  return mapped;
}

std::optional<Endpoint> ParseEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view port = text.substr(colon + 1);
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    host = host.substr(0, host.find('%'));  // an interface may follow
  }
  Endpoint endpoint;
  if (std::from_chars(port.begin(), port.end(), endpoint.port).ptr != port.end()) {
    return std::nullopt;
  }
  in_addr v4{};
  const std::string copy(host);
  if (::inet_pton(AF_INET, copy.c_str(), &v4) == 1) {
    endpoint.address = MappedOf(v4);
  } else if (::inet_pton(AF_INET6, copy.c_str(), &endpoint.address) != 1) {
    return std::nullopt;
  }
  return endpoint;
}

std::optional<Endpoint> OtherEndOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return Endpoint{MappedOf(v4.sin_addr), ntohs(v4.sin_port)};
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    return Endpoint{v6.sin6_addr, ntohs(v6.sin6_port)};
  }
  return std::nullopt;
}

template <typename Value>
std::optional<Value> GetOption(int fd, int level, int option) {
  Value value{};
  socklen_t size = sizeof(value);
  if (::getsockopt(fd, level, option, &value, &size) != 0) return std::nullopt;
  return value;
}

bool Valid(const TcpSocket& socket) {
  return GetOption<std::uint64_t>(socket.fd, SOL_SOCKET, SO_COOKIE) == socket.cookie;
}

template <typename Value>
bool SetOption(const TcpSocket& socket, int level, int option, Value value) {
  return Valid(socket) && ::setsockopt(socket.fd, level, option, &value, sizeof(value)) == 0;
}

// The kernel grows a send buffer by itself up to the third number; 0: not known.
std::int64_t OwnGrowthMax() {
  std::int64_t least = 0, first = 0, most = 0;
  std::ifstream("/proc/sys/net/ipv4/tcp_wmem") >> least >> first >> most;
  return most;
}
std::int64_t AskedMax() {
  std::int64_t most = 0;
  std::ifstream("/proc/sys/net/core/wmem_max") >> most;
  return most;
}

}  // namespace

std::vector<TcpSocket> FindTcpSockets(const std::string& address) {
  std::vector<TcpSocket> found;
  const auto wanted = ParseEndpoint(address);
  if (!wanted) return found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd < 0 || OtherEndOf(fd) != wanted) continue;
    if (GetOption<int>(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP) continue;
    if (const auto cookie = GetOption<std::uint64_t>(fd, SOL_SOCKET, SO_COOKIE)) {
      found.push_back({fd, *cookie});
    }
  }
  return found;
}

bool LimitUnsentBytes(const TcpSocket& socket, std::uint32_t bytes) {
  return SetOption(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes);
}

bool GrowSendBuffer(const TcpSocket& socket) {
  // The kernel doubles what is asked for, and stops growing the buffer by itself.
  const std::int64_t asked = AskedMax();
  if (asked <= 0 || 2 * asked <= OwnGrowthMax()) return false;
  return SetOption(socket, SOL_SOCKET, SO_SNDBUF, static_cast<int>(asked));
}

bool LimitPacingRate(const TcpSocket& socket, std::uint64_t bytes_per_second) {
  return SetOption(socket, SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_second);
}

std::optional<TcpFigures> ReadTcpFigures(const TcpSocket& socket) {
  if (!Valid(socket)) return std::nullopt;
  const auto info = GetOption<tcp_info>(socket.fd, IPPROTO_TCP, TCP_INFO);
  if (!info) return std::nullopt;
  TcpFigures figures;
  figures.rtt_ms = info->tcpi_rtt / 1000.0;
  const bool measured = info->tcpi_min_rtt != ~std::uint32_t{0};
  figures.min_rtt_ms = measured ? info->tcpi_min_rtt / 1000.0 : 0;
  figures.delivered_bytes =
      info->tcpi_bytes_acked + std::uint64_t{info->tcpi_sacked} * info->tcpi_snd_mss;
  figures.unacked_segments = info->tcpi_unacked;
  figures.unsent_bytes = info->tcpi_notsent_bytes;
  return figures;
}

}  // namespace shoal::net
