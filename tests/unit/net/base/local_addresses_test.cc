#include "net/base/local_addresses.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <set>

namespace shoal::net {
namespace {

sockaddr_in Loopback(const char* host, std::uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, host, &address.sin_addr), 1);
  return address;
}

// A listener at 127.0.0.1, and a connection to it from `own`.
class Connection {
 public:
  explicit Connection(const char* own) {
    sockaddr_in at = Loopback("127.0.0.1"), from = Loopback(own);
    socklen_t size = sizeof(at);
    EXPECT_EQ(::bind(listener_, Cast(&at), sizeof(at)), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, Cast(&at), &size), 0);
    EXPECT_EQ(::bind(socket_, Cast(&from), sizeof(from)), 0);
    EXPECT_EQ(::connect(socket_, Cast(&at), sizeof(at)), 0);
  }
  ~Connection() {
    ::close(socket_);
    ::close(listener_);
  }
  bool ended() const {
    char byte = 0;
    return ::recv(socket_, &byte, 1, MSG_DONTWAIT) == 0;
  }
  bool listens() const {
    int value = 0;
    socklen_t size = sizeof(value);
    return ::getsockopt(listener_, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value == 1;
  }

 private:
  static sockaddr* Cast(sockaddr_in* address) { return reinterpret_cast<sockaddr*>(address); }

  const int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST(LocalAddresses, WithAnAddressItsConnectionsEndAndNoOthers) {
  const Connection gone("127.0.0.77"), stays("127.0.0.78");
  EXPECT_EQ(EndConnectionsFrom({"127.0.0.76", "2001:db8::1", "no address"}), 0u);
  EXPECT_FALSE(gone.ended());
  EXPECT_EQ(EndConnectionsFrom({"127.0.0.77"}), 1u);
  EXPECT_TRUE(gone.ended());
  EXPECT_FALSE(stays.ended());
  EXPECT_TRUE(gone.listens());
}

TEST(LocalAddresses, AreNumericDifferentAndLoopbackLast) {
  const std::vector<std::string> addresses = LocalAddresses();
  ASSERT_FALSE(addresses.empty());
  EXPECT_EQ(std::set<std::string>(addresses.begin(), addresses.end()).size(), addresses.size());
  bool v6_seen = false;
  bool loopback_seen = false;
  for (const std::string& address : addresses) {
    in_addr v4{};
    in6_addr v6{};
    if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) {
      const bool loopback = address.starts_with("127.");
      EXPECT_FALSE(loopback_seen && !loopback) << address << " comes after loopback";
      EXPECT_FALSE(v6_seen && !loopback) << address << " comes after an IPv6 address";
      loopback_seen = loopback_seen || loopback;
    } else {
      ASSERT_EQ(::inet_pton(AF_INET6, address.c_str(), &v6), 1) << address;
      EXPECT_FALSE(IN6_IS_ADDR_LINKLOCAL(&v6)) << address;
      EXPECT_FALSE(IN6_IS_ADDR_LOOPBACK(&v6)) << address;
      v6_seen = true;
    }
  }
}

}  // namespace
}  // namespace shoal::net
