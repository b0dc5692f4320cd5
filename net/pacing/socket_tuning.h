// What gRPC does not offer: options and figures of the TCP sockets it opens.
//
// The sockets are found among the process's descriptors by the address of their other end, which
// gRPC does tell. Everything here is an improvement that may fail: a socket that is not found, or
// an option that the kernel refuses, costs latency, never correctness. Linux only.

#ifndef SHOAL_NET_PACING_SOCKET_TUNING_H_
#define SHOAL_NET_PACING_SOCKET_TUNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shoal::net {

// A descriptor of gRPC's, with the kernel's cookie of its socket: a number that gRPC has closed,
// and that somebody else got since, is noticed. Copies are free; nothing is owned.
struct TcpSocket {
  int fd = -1;
  std::uint64_t cookie = 0;

  bool operator==(const TcpSocket&) const = default;
};

// The connected TCP sockets of this process whose other end is `address` (host:port in digits, IPv6
// in brackets). There is one, or one per link if several go to the same listening port. Empty:
// none, or not an address. Thread: any; takes about 50 us.
std::vector<TcpSocket> FindTcpSockets(const std::string& address);

// The kernel accepts more bytes for a socket only while fewer than `bytes` are unsent. So an urgent
// message waits behind at most that many. False: not possible.
bool LimitUnsentBytes(const TcpSocket& socket, std::uint32_t bytes);

// Lets a connection have more bytes under way than the kernel would let it grow to by itself, where
// the machine's limit (net.core.wmem_max) allows that. False: not possible, nothing is changed.
bool GrowSendBuffer(const TcpSocket& socket);

// The kernel spaces out what it sends to at most this rate. False: not possible.
bool LimitPacingRate(const TcpSocket& socket, std::uint64_t bytes_per_second);

// The sockets of a link with the other end at `addresses`, tuned for bulk: little waits unsent, and
// much may be under way. Without those that stay within the machine, where there is no line:
// packets wait for a processor there, and neither pacing nor probing helps anybody.
std::vector<TcpSocket> TuneForBulk(const std::vector<std::string>& addresses);

// Of a socket of this process's own: at most so many bytes that came wait to be read, and so many
// that are to go out are unsent. Where the kernel refuses, more do.
void LimitWaiting(int fd, int unread_bytes, int unsent_bytes);

// Whoever polls the socket is woken when so many bytes wait at it, not at each packet. The end of
// the connection and a full kernel buffer wake, too. 1: at each packet. Takes effect on what waits
// already. False: not possible.
bool SetReceiveLowWater(const TcpSocket& socket, std::uint32_t bytes);

struct ReceiveFigures {
  std::uint64_t taken_bytes = 0;    // by the program, since the connection was made
  std::uint64_t waiting_bytes = 0;  // for the program
};
std::optional<ReceiveFigures> ReadReceiveFigures(const TcpSocket& socket);

// How a connection fares; all as the kernel counts.
struct TcpFigures {
  double rtt_ms = 0;      // smoothed
  double min_rtt_ms = 0;  // of the last minutes; 0: not measured yet
  // Bytes that the other end has since the connection was made, also behind gaps that losses made.
  // Bytes acknowledged in order would stand still until a gap is closed, while the line goes on.
  std::uint64_t delivered_bytes = 0;
  std::uint64_t unacked_segments = 0;
};
std::optional<TcpFigures> ReadTcpFigures(const TcpSocket& socket);

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_SOCKET_TUNING_H_
