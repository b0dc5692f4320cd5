// Who may stay of those who connect, without sockets.

#include "net/admission/connection_book.h"

#include <gtest/gtest.h>

#include <string>

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TcpEndpoint End(const std::string& host, int port) {
  return ParseTcpEndpoint(host + ":" + std::to_string(port)).value();
}
PeerId Key(unsigned char number) {
  PeerId key;
  key.key[0] = number;
  return key;
}

ConnectionLimits Limits() {
  ConnectionLimits limits;
  limits.all = 20;
  limits.strangers = 8;
  limits.strangers_per_line = 4;
  limits.handshakes = 100;
  limits.handshakes_per_second = 10;
  limits.handshakes_of_all = 1e6;
  limits.per_key = 3;
  return limits;
}

class ConnectionBookTest : public testing::Test {
 protected:
  ConnectionBook::Arrival Arrive(const std::string& host, int port) {
    return book_.Arrive(End(host, port), now_);
  }
  ConnectionBook book_{Limits()};
  TimePoint now_{seconds(1000)};
};

TEST_F(ConnectionBookTest, TheOldestStrangerOfALineGivesWay) {
  for (int port = 1; port <= 4; ++port) EXPECT_FALSE(Arrive("10.0.0.1", port).ended);
  const auto fifth = Arrive("10.0.0.1", 5);
  EXPECT_EQ(fifth.number, 5u);
  EXPECT_EQ(fifth.ended, 1u);
  EXPECT_EQ(book_.strangers(), 4u);
  EXPECT_EQ(book_.size(), 5u);  // the first one's descriptor is still open
  EXPECT_FALSE(book_.Prove(End("10.0.0.1", 1), Key(1)));
  book_.Gone(1);
  EXPECT_EQ(book_.size(), 4u);
}

TEST_F(ConnectionBookTest, ALineWithMostStrangersGivesWayToOthers) {
  for (int port = 1; port <= 4; ++port) Arrive("10.0.0.1", port);
  for (int port = 1; port <= 3; ++port) Arrive("10.0.0.2", port);
  EXPECT_FALSE(Arrive("10.0.0.3", 1).ended);
  EXPECT_EQ(Arrive("10.0.0.4", 1).ended, 1u);
}

TEST_F(ConnectionBookTest, AProvenConnectionGivesWayToNobody) {
  Arrive("10.0.0.1", 1);
  ASSERT_TRUE(book_.Prove(End("10.0.0.1", 1), Key(1)));
  EXPECT_TRUE(book_.Prove(End("10.0.0.1", 1), Key(1)));   // its next stream
  EXPECT_FALSE(book_.Prove(End("10.0.0.1", 1), Key(2)));  // a connection has one key
  for (int port = 2; port <= 12; ++port) EXPECT_NE(Arrive("10.0.0.1", port).ended, 1u);
  now_ += seconds(100);
  for (const ConnectionNumber number : book_.TakeOverdue(now_)) EXPECT_NE(number, 1u);
}

TEST_F(ConnectionBookTest, WhoProvesNothingInTimeEnds) {
  Arrive("10.0.0.1", 1);
  now_ += seconds(19);
  Arrive("10.0.0.1", 2);
  EXPECT_TRUE(book_.TakeOverdue(now_).empty());
  now_ += seconds(1);
  EXPECT_EQ(book_.TakeOverdue(now_), std::vector<ConnectionNumber>{1});
  EXPECT_TRUE(book_.TakeOverdue(now_).empty());
  EXPECT_FALSE(book_.Prove(End("10.0.0.1", 1), Key(1)));
}

TEST_F(ConnectionBookTest, HandshakesOfALineAreCountedUnlessTheySucceed) {
  for (int port = 1; port <= 100; ++port) {
    const auto arrival = Arrive("10.0.0.1", port);
    ASSERT_TRUE(arrival.number) << port;
    book_.Gone(*arrival.number);
  }
  EXPECT_FALSE(Arrive("10.0.0.1", 101).number);
  EXPECT_TRUE(Arrive("10.0.0.2", 1).number);  // another line
  now_ += milliseconds(100);                  // one more
  const auto arrival = Arrive("10.0.0.1", 102);
  ASSERT_TRUE(arrival.number);
  EXPECT_FALSE(Arrive("10.0.0.1", 103).number);
  ASSERT_TRUE(book_.Prove(End("10.0.0.1", 102), Key(1)));  // cost nothing
  EXPECT_TRUE(Arrive("10.0.0.1", 104).number);
}

TEST_F(ConnectionBookTest, StrangersOfManyLinesAreCountedTogetherAndMembersLinesAreNot) {
  ConnectionLimits limits = Limits();
  limits.handshakes_of_all = 50;
  limits.handshakes_of_all_per_second = 10;
  ConnectionBook book(limits);
  const auto fails = [&](const std::string& host, int port) {
    const auto arrival = book.Arrive(End(host, port), now_);
    if (arrival.number) book.Gone(*arrival.number);
    return !arrival.number;
  };
  book.Arrive(End("10.0.0.1", 1), now_);
  ASSERT_TRUE(book.Prove(End("10.0.0.1", 1), Key(1)));
  for (int line = 1; line <= 50; ++line) {
    ASSERT_FALSE(fails("10.1.0." + std::to_string(line), 1)) << line;
  }
  EXPECT_TRUE(fails("10.1.0.51", 1)) << "it has tried nothing, but all together have";
  EXPECT_FALSE(fails("10.0.0.1", 2)) << "a member lives there";
  now_ += milliseconds(100);  // one more
  EXPECT_FALSE(fails("10.1.0.52", 1));
  EXPECT_TRUE(fails("10.1.0.53", 1));
}

TEST_F(ConnectionBookTest, AKeyHasSoManyConnectionsAndKeysLeaveRoomForStrangers) {
  int port = 1;
  for (unsigned char key = 1; key <= 4; ++key) {
    for (int i = 0; i < 3; ++i, ++port) {
      Arrive("10.0.0.1", port);
      ASSERT_TRUE(book_.Prove(End("10.0.0.1", port), Key(key)));
    }
  }
  Arrive("10.0.0.1", port);
  EXPECT_FALSE(book_.Prove(End("10.0.0.1", port), Key(4)));  // its fourth
  EXPECT_FALSE(book_.Prove(End("10.0.0.1", port), Key(5)));  // 12 of 20, 8 are for strangers
  book_.Gone(1);
  EXPECT_TRUE(book_.Prove(End("10.0.0.1", port), Key(5)));
}

TEST_F(ConnectionBookTest, NobodyIsTakenWhereAllPlacesAreTaken) {
  for (int i = 1; i <= 20; ++i) ASSERT_TRUE(Arrive("10.0.0." + std::to_string(i), 1).number) << i;
  EXPECT_TRUE(book_.full());  // those told to end have not ended
  EXPECT_FALSE(Arrive("10.0.0.30", 1).number);
  book_.Gone(3);
  EXPECT_TRUE(Arrive("10.0.0.30", 1).number);
}

TEST_F(ConnectionBookTest, AnIpv6NetworkIsOneLine) {
  for (int i = 1; i <= 4; ++i) Arrive("[2001:db8::" + std::to_string(i) + "]", 1);
  EXPECT_EQ(Arrive("[2001:db8::9]", 1).ended, 1u);
  EXPECT_FALSE(Arrive("[2001:db8:0:1::9]", 1).ended);
}

// A stranger may have thousands of lines: those of members are not forgotten for them, and in the
// midst of a handshake they do not give way to them.
TEST_F(ConnectionBookTest, LinesOfMembersOutlastManyStrangers) {
  ConnectionLimits limits = Limits();
  limits.handshakes_of_all = 8000;
  limits.handshakes_of_all_per_second = 0;
  ConnectionBook book(limits);
  const auto arrive = [&](const std::string& host, int port) {
    return book.Arrive(End(host, port), now_);
  };
  const auto from = [&](int line) {
    const std::string host = "10." + std::to_string(2 + line / 65536) + "." +
                             std::to_string(line / 256 % 256) + "." + std::to_string(line % 256);
    return arrive(host, 1);
  };
  const auto end = [&](const ConnectionBook::Arrival& arrival) {
    if (arrival.ended) book.Gone(*arrival.ended);
  };
  arrive("10.0.0.1", 1);
  ASSERT_TRUE(book.Prove(End("10.0.0.1", 1), Key(1)));
  for (int line = 0; line < 7990; ++line) end(from(line));
  // All that strangers may begin is spent; the member comes back, and is not the one that goes.
  for (int line = 7990; line < 8100; ++line) end(from(line));
  const auto again = arrive("10.0.0.1", 2);
  ASSERT_TRUE(again.number);
  end(again);
  EXPECT_TRUE(book.Prove(End("10.0.0.1", 2), Key(1)));
}

// Ten seconds of a thousand connections each, which end at once.
TEST(ConnectionLimits, ByDefaultAFloodFromOneAddressOrManyGetsFewHandshakes) {
  for (const bool many : {false, true}) {
    ConnectionBook book{ConnectionLimits()};
    TimePoint now{seconds(1000)};
    int taken = 0;
    for (int i = 0; i < 10'000; ++i, now += milliseconds(1)) {
      const std::string host =
          "10.0." + std::to_string(many ? i / 256 : 0) + "." + std::to_string(many ? i % 256 : 1);
      const auto arrival = book.Arrive(End(host, i + 1), now);
      if (!arrival.number) continue;
      ++taken;
      book.Gone(*arrival.number);
    }
    EXPECT_LE(taken, many ? 1024 + 10 * 128 : 128 + 10 * 16);
    EXPECT_GT(taken, 200) << "nobody is shut out";
  }
}

TEST(ConnectionLimits, ByDefaultSilentOnesAndKeysHoldFewPlaces) {
  ConnectionBook book{ConnectionLimits()};
  const TimePoint now{seconds(1000)};
  for (int port = 1; port <= 100; ++port) book.Arrive(End("10.0.0.1", port), now);
  EXPECT_EQ(book.strangers(), 64u);
  ConnectionBook proven{ConnectionLimits()};
  int taken = 0;
  for (int port = 1; port <= 100; ++port) {
    proven.Arrive(End("10.0.0.1", port), now);
    taken += proven.Prove(End("10.0.0.1", port), Key(1)) ? 1 : 0;
  }
  EXPECT_EQ(taken, 64);
}

TEST_F(ConnectionBookTest, ManyLinesAreForgotten) {
  for (int i = 0; i < 3 * static_cast<int>(ConnectionLimits::kLinesMax); ++i) {
    const std::string host = "10." + std::to_string(i / 65536) + "." +
                             std::to_string(i / 256 % 256) + "." + std::to_string(i % 256);
    const auto arrival = Arrive(host, 1);
    ASSERT_TRUE(arrival.number) << host;
    book_.Gone(*arrival.number);
    now_ += milliseconds(1);
  }
}

}  // namespace
}  // namespace shoal::net
