#include "net/pacing/socket_tuning.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace shoal::net {
namespace {

// A connection over loopback, IPv4 at the dialling end; the listener takes both families.
class Connection {
 public:
  Connection() {
    const int listener = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int both = 0;
    EXPECT_EQ(::setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both)), 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    socklen_t size = sizeof(any);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&any), &size), 0);
    server_port_ = ntohs(any.sin6_port);
    client_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = any.sin6_port;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(client_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    server_ = ::accept(listener, nullptr, nullptr);
    EXPECT_GE(server_, 0);
    sockaddr_in mine{};
    size = sizeof(mine);
    EXPECT_EQ(::getsockname(client_, reinterpret_cast<sockaddr*>(&mine), &size), 0);
    client_port_ = ntohs(mine.sin_port);
    ::close(listener);
  }
  ~Connection() {
    CloseClient();
    ::close(server_);
  }
  void CloseClient() {
    if (client_ >= 0) ::close(std::exchange(client_, -1));
  }

  int client() const { return client_; }
  int server() const { return server_; }
  std::string server_address() const { return "127.0.0.1:" + std::to_string(server_port_); }
  std::string client_address() const { return "127.0.0.1:" + std::to_string(client_port_); }

 private:
  int client_ = -1, server_ = -1;
  std::uint16_t server_port_ = 0, client_port_ = 0;
};

int OptionOf(int fd, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(fd, level, option, &value, &size), 0);
  return value;
}

TEST(SocketTuning, FindsBothEndsByTheOtherEndsAddress) {
  const Connection connection;
  const auto dialled = FindTcpSockets(connection.server_address());
  ASSERT_EQ(dialled.size(), 1u);
  EXPECT_EQ(dialled[0].fd, connection.client());
  // Accepted by a listener for both families, where the address is written as IPv6.
  const auto accepted = FindTcpSockets(connection.client_address());
  ASSERT_EQ(accepted.size(), 1u);
  EXPECT_EQ(accepted[0].fd, connection.server());
  EXPECT_NE(accepted[0].cookie, dialled[0].cookie);
}

TEST(SocketTuning, FindsNothingElse) {
  const Connection connection;
  for (const char* address : {"", ":", "127.0.0.1", "127.0.0.1:1", "host.example:80", "[::1]:1",
                              "[::1%lo]:2", "127.0.0.1:99999", "127.0.0.1:12x"}) {
    EXPECT_TRUE(FindTcpSockets(address).empty()) << address;
  }
}

TEST(SocketTuning, SetsWhatItSays) {
  const Connection connection;
  const TcpSocket socket = FindTcpSockets(connection.server_address()).at(0);
  EXPECT_TRUE(LimitUnsentBytes(socket, 98304));
  EXPECT_EQ(OptionOf(connection.client(), IPPROTO_TCP, TCP_NOTSENT_LOWAT), 98304);
  EXPECT_TRUE(LimitPacingRate(socket, 1'000'000));
  EXPECT_EQ(OptionOf(connection.client(), SOL_SOCKET, SO_MAX_PACING_RATE), 1'000'000);
  const int before = OptionOf(connection.client(), SOL_SOCKET, SO_SNDBUF);
  if (GrowSendBuffer(socket)) {
    EXPECT_GT(OptionOf(connection.client(), SOL_SOCKET, SO_SNDBUF), before);
  } else {
    EXPECT_EQ(OptionOf(connection.client(), SOL_SOCKET, SO_SNDBUF), before);
  }
}

TEST(SocketTuning, TellsWhatTheKernelCounts) {
  const Connection connection;
  const TcpSocket socket = FindTcpSockets(connection.server_address()).at(0);
  const std::uint64_t before = ReadTcpFigures(socket).value().delivered_bytes;
  std::array<char, 5000> bytes{};
  ASSERT_EQ(::send(connection.client(), bytes.data(), bytes.size(), 0), 5000);
  ASSERT_EQ(::recv(connection.server(), bytes.data(), bytes.size(), MSG_WAITALL), 5000);
  std::optional<TcpFigures> figures = ReadTcpFigures(socket);
  for (int i = 0; i < 1000 && figures->delivered_bytes < before + 5000; ++i) {
    ::usleep(1000);
    figures = ReadTcpFigures(socket);
  }
  EXPECT_EQ(figures->delivered_bytes, before + 5000);
  EXPECT_GT(figures->min_rtt_ms, 0);
  EXPECT_GE(figures->rtt_ms, 0);
}

TEST(SocketTuning, AReaderIsWokenAtTheLowWaterMarkOnly) {
  const Connection connection;
  const TcpSocket socket = FindTcpSockets(connection.client_address()).at(0);
  std::array<char, 5000> bytes{};
  const auto readable = [&connection] {
    pollfd poll{connection.server(), POLLIN, 0};
    return ::poll(&poll, 1, 0) == 1;
  };
  const auto wait_for = [&socket](std::uint64_t waiting) {
    for (int i = 0; i < 1000 && ReadReceiveFigures(socket)->waiting_bytes < waiting; ++i) {
      ::usleep(1000);
    }
    return ReadReceiveFigures(socket)->waiting_bytes;
  };
  ASSERT_TRUE(SetReceiveLowWater(socket, 7000));
  ASSERT_EQ(::send(connection.client(), bytes.data(), 5000, 0), 5000);
  EXPECT_EQ(wait_for(5000), 5000u);
  EXPECT_FALSE(readable());
  ASSERT_EQ(::send(connection.client(), bytes.data(), 3000, 0), 3000);
  EXPECT_EQ(wait_for(8000), 8000u);
  EXPECT_TRUE(readable());
  ASSERT_EQ(::recv(connection.server(), bytes.data(), 5000, 0), 5000);
  EXPECT_FALSE(readable());
  EXPECT_TRUE(SetReceiveLowWater(socket, 1));
  EXPECT_TRUE(readable());
  EXPECT_EQ(ReadReceiveFigures(socket)->taken_bytes, 5000u);
}

TEST(SocketTuning, TunesForBulkAllButWhatStaysWithinTheMachine) {
  const Connection connection;
  EXPECT_TRUE(TuneForBulk({connection.server_address(), "127.0.0.1:1"}).empty());
  EXPECT_EQ(OptionOf(connection.client(), IPPROTO_TCP, TCP_NOTSENT_LOWAT), 256 * 1024);
}

TEST(SocketTuning, ADescriptorThatSomebodyElseGotIsLeftAlone) {
  Connection connection;
  const TcpSocket socket = FindTcpSockets(connection.server_address()).at(0);
  const Connection other;
  const int number = connection.client();
  connection.CloseClient();
  EXPECT_FALSE(ReadTcpFigures(socket).has_value());
  ASSERT_EQ(::dup2(other.client(), number), number);
  EXPECT_FALSE(LimitUnsentBytes(socket, 98304));
  EXPECT_FALSE(LimitPacingRate(socket, 1'000'000));
  EXPECT_FALSE(GrowSendBuffer(socket));
  EXPECT_FALSE(SetReceiveLowWater(socket, 5000));
  EXPECT_FALSE(ReadReceiveFigures(socket).has_value());
  EXPECT_FALSE(ReadTcpFigures(socket).has_value());
  EXPECT_NE(OptionOf(other.client(), IPPROTO_TCP, TCP_NOTSENT_LOWAT), 98304);
  ::close(number);
}

}  // namespace
}  // namespace shoal::net
