// What bounds punches: whom a peer dials at a relay's word, how often, and the relay's book.

#include "net/relay/punch_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/relay/punch_book.h"

namespace shoal::net {
namespace {

constexpr char kRelay[] = "198.51.100.1:8783";
constexpr char kRelay6[] = "[2001:db8::1]:8783";

TEST(PunchTarget, IsAMachineOfTheInternet) {
  EXPECT_TRUE(CheckPunchTarget("203.0.113.7:40000", kRelay).ok());
  EXPECT_TRUE(CheckPunchTarget("203.0.113.7:1024", kRelay).ok());
  EXPECT_TRUE(CheckPunchTarget("[2001:db8::7]:40000", kRelay6).ok());
}

TEST(PunchTarget, NothingElseIsDialledAtARelaysWord) {
  const struct {
    const char* target;
    const char* relay;
  } cases[] = {
      {"203.0.113.7:0", kRelay},
      {"203.0.113.7:22", kRelay},
      {"203.0.113.7:1023", kRelay},
      {"0.0.0.0:40000", kRelay},
      {"127.0.0.1:40000", kRelay},
      {"10.0.0.1:40000", kRelay},
      {"192.168.1.1:40000", kRelay},
      {"172.16.0.1:40000", kRelay},
      {"100.64.0.1:40000", kRelay},
      {"169.254.169.254:40000", kRelay},
      {"224.0.0.1:40000", kRelay},
      {"255.255.255.255:40000", kRelay},
      {"240.0.0.1:40000", kRelay},
      {"[2001:db8::7]:40000", kRelay},
      {"203.0.113.7:40000", kRelay6},
      {"[::1]:40000", kRelay6},
      {"[::]:40000", kRelay6},
      {"[ff02::1]:40000", kRelay6},
      {"[fe80::1]:40000", kRelay6},
      {"[fd00::1]:40000", kRelay6},
      {"[::ffff:10.0.0.1]:40000", kRelay},
      {"[::ffff:127.0.0.1]:40000", kRelay6},
      {"example.org:40000", kRelay},
      {"", kRelay},
      {"203.0.113.7", kRelay},
      {"203.0.113.7:40000", "relay.example.org:1"},
  };
  for (const auto& [target, relay] : cases) {
    EXPECT_FALSE(CheckPunchTarget(target, relay).ok()) << target << " by " << relay;
  }
}

// A relay for one home, or on this very machine, sees such addresses.
TEST(PunchTarget, OfAHomeItIsWhereTheRelayIsAtHomeToo) {
  EXPECT_TRUE(CheckPunchTarget("192.168.1.7:40000", "192.168.1.2:8783").ok());
  EXPECT_TRUE(CheckPunchTarget("127.0.0.1:40000", "127.0.0.1:8783").ok());
  EXPECT_FALSE(CheckPunchTarget("127.0.0.1:40000", "192.168.1.2:8783").ok());
  EXPECT_FALSE(CheckPunchTarget("192.168.1.7:40000", "127.0.0.1:8783").ok());
}

TEST(PunchBudget, IsSpentAndComesBack) {
  PunchBudget budget;
  TimePoint now{std::chrono::seconds(1000)};
  for (int i = 0; i < PunchBudget::kAtOnce; ++i) EXPECT_TRUE(budget.Take(now)) << i;
  EXPECT_FALSE(budget.Take(now));
  now += PunchBudget::kEvery;
  EXPECT_TRUE(budget.Take(now));
  EXPECT_FALSE(budget.Take(now));
  now += std::chrono::hours(1);
  for (int i = 0; i < PunchBudget::kAtOnce; ++i) EXPECT_TRUE(budget.Take(now)) << i;
  EXPECT_FALSE(budget.Take(now));
}

class PunchBookTest : public testing::Test {
 protected:
  static PeerId KeyOf(unsigned char number) {
    PeerId key;
    key.key.fill(number);
    return key;
  }
  static RelaySession SessionOf(unsigned number) {
    RelaySession session{};
    session[0] = static_cast<unsigned char>(number);
    session[1] = static_cast<unsigned char>(number >> 8);
    return session;
  }
  Status Ask(unsigned char asker, unsigned char other, unsigned session) {
    return book_.Ask(KeyOf(asker), SessionOf(session), KeyOf(other), SessionOf(session + 1), now_);
  }

  PunchBook book_;
  TimePoint now_{std::chrono::seconds(1000)};
};

TEST_F(PunchBookTest, WhoComesSecondMeetsTheFirst) {
  ASSERT_TRUE(Ask(1, 2, 10).ok());
  EXPECT_EQ(*book_.PeerOfSession(SessionOf(10)), KeyOf(1));
  EXPECT_EQ(*book_.PeerOfSession(SessionOf(11)), KeyOf(2));
  EXPECT_EQ(book_.PeerOfSession(SessionOf(12)), nullptr);
  const auto first = book_.Come(SessionOf(11), "2.2.2.2:2000", now_);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(*first);
  const auto second = book_.Come(SessionOf(10), "1.1.1.1:1000", now_);
  ASSERT_TRUE(second.ok() && *second);
  EXPECT_EQ((*second)->session, SessionOf(11));
  EXPECT_EQ((*second)->address, "2.2.2.2:2000");
  EXPECT_TRUE(book_.empty());
  EXPECT_EQ(book_.Come(SessionOf(10), "1.1.1.1:1000", now_).status().code(), StatusCode::kNotFound);
}

TEST_F(PunchBookTest, ASessionIsUsedOnceAndNotLate) {
  ASSERT_TRUE(Ask(1, 2, 10).ok());
  ASSERT_TRUE(book_.Come(SessionOf(10), "1.1.1.1:1000", now_).ok());
  EXPECT_FALSE(book_.Come(SessionOf(10), "6.6.6.6:6000", now_).ok()) << "overheard";
  now_ += PunchBook::kPatience + std::chrono::seconds(1);
  EXPECT_FALSE(book_.Come(SessionOf(11), "2.2.2.2:2000", now_).ok());
  EXPECT_TRUE(book_.empty());
}

TEST_F(PunchBookTest, APeerHasSoManyUnderWay) {
  unsigned session = 1;
  for (std::size_t i = 0; i < PunchBook::kPerPeerMax; ++i, session += 2) {
    ASSERT_TRUE(Ask(1, 2, session).ok());
  }
  EXPECT_EQ(Ask(1, 3, session).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Ask(3, 2, session).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Ask(3, 4, session).ok());
  now_ += PunchBook::kPatience + std::chrono::seconds(1);
  EXPECT_TRUE(Ask(1, 2, 1).ok());
}

TEST_F(PunchBookTest, ThereAreSoManyInAll) {
  for (unsigned i = 0; i < PunchBook::kPunchesMax; ++i) {
    const auto pair = static_cast<unsigned char>(2 * (i / PunchBook::kPerPeerMax));
    ASSERT_TRUE(Ask(pair, pair + 1, 2 * i + 1).ok()) << i;
  }
  EXPECT_EQ(Ask(200, 201, 5001).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace shoal::net
