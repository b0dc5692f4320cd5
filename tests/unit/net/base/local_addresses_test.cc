#include "net/base/local_addresses.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>

#include <set>

namespace shoal::net {
namespace {

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
