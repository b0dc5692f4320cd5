#include "net/links/link_path.h"

#include <gmock/gmock.h>

#include "net/relay/relay_address.h"

namespace shoal::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LinkPath, HasANameAndARank) {
  EXPECT_EQ(PathName(LinkPath::kRelay), "relay");
  EXPECT_EQ(PathName(LinkPath::kPunched), "punched");
  EXPECT_EQ(PathName(LinkPath::kDirect), "direct");
  EXPECT_EQ(PathName(LinkPath::kLan), "lan");
  EXPECT_EQ(PathOf("192.168.1.7:8782"), LinkPath::kLan);
  EXPECT_EQ(PathOf("[fd00::1]:8782"), LinkPath::kLan);
  EXPECT_EQ(PathOf("203.0.113.7:8782"), LinkPath::kDirect);
  EXPECT_EQ(PathOf("home.example.org:8782"), LinkPath::kDirect);
}

TEST(LinkPath, BetterOnesAreFound) {
  const std::string relay = "00112233445566778899aabbccddeeff@relay.example.org:8783";
  const std::vector<std::string> all = {"192.168.1.7:1", "203.0.113.7:2", "h.example.org:3", relay};
  EXPECT_THAT(
      BetterThan(LinkPath::kRelay, all),
      ElementsAre("192.168.1.7:1", "203.0.113.7:2", "h.example.org:3", PunchAddress(relay)));
  EXPECT_THAT(BetterThan(LinkPath::kPunched, all),
              ElementsAre("192.168.1.7:1", "203.0.113.7:2", "h.example.org:3"));
  EXPECT_THAT(BetterThan(LinkPath::kDirect, all), ElementsAre("192.168.1.7:1"));
  EXPECT_THAT(BetterThan(LinkPath::kLan, all), IsEmpty());
}

}  // namespace
}  // namespace shoal::net
