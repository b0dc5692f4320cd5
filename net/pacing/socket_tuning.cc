#include "net/pacing/socket_tuning.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/log.h"
#include "net/base/tcp_endpoint.h"

namespace shoal::net {
namespace {

// At first; pacing_loop.h knows more later.
constexpr std::uint32_t kUnsentBytes = 256 * 1024;

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
  const auto wanted = ParseTcpEndpoint(address);
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

std::vector<TcpSocket> TuneForBulk(const std::vector<std::string>& addresses) {
  std::vector<TcpSocket> sockets;
  for (const std::string& address : addresses) {
    const std::vector<TcpSocket> found = FindTcpSockets(address);
    bool good = !found.empty();
    for (const TcpSocket& socket : found) {
      good = LimitUnsentBytes(socket, kUnsentBytes) && good;
      GrowSendBuffer(socket);
    }
    if (!good) SHOAL_LOG(kDebug, "net", "link.not_tuned", {"address", address});
    if (address.starts_with("127.") || address.starts_with("[::1]")) continue;
    sockets.insert(sockets.end(), found.begin(), found.end());
  }
  return sockets;
}

void LimitWaiting(int fd, int unread_bytes, int unsent_bytes) {
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &unread_bytes, sizeof(unread_bytes));
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof(unsent_bytes));
}

bool SetReceiveLowWater(const TcpSocket& socket, std::uint32_t bytes) {
  return SetOption(socket, SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(bytes));
}

std::optional<ReceiveFigures> ReadReceiveFigures(const TcpSocket& socket) {
  // In this order what comes in between counts as taken: who waits for more is woken too early
  // then, never too late.
  int waiting = 0;
  if (!Valid(socket) || ::ioctl(socket.fd, SIOCINQ, &waiting) != 0) return std::nullopt;
  const auto info = GetOption<tcp_info>(socket.fd, IPPROTO_TCP, TCP_INFO);
  if (!info || waiting < 0) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(waiting);
  const std::uint64_t received = info->tcpi_bytes_received;
  return ReceiveFigures{received > bytes ? received - bytes : 0, bytes};
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
  return figures;
}

}  // namespace shoal::net
