#include "scheduler/peers/quarantine.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shoal::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

PeerId Peer(unsigned char number) {
  PeerId peer;
  peer.key.fill(number);
  return peer;
}

struct QuarantineTest : testing::Test {
  Quarantine book{3};
  TimePoint now{hours(100)};
  // Faults of a peer, a minute apart.
  std::optional<Duration> Faults(const PeerId& peer, int count) {
    std::optional<Duration> lasts;
    for (int i = 0; i < count; ++i) {
      now += minutes(1);
      lasts = book.Add(peer, "it lies", now);
    }
    return lasts;
  }
};

TEST_F(QuarantineTest, TheThirdFaultWithinAnHourIsOneTooMany) {
  EXPECT_FALSE(Faults(Peer(1), 2));
  EXPECT_EQ(book.ReasonOf(Peer(1), now), "");
  EXPECT_FALSE(Faults(Peer(2), 2)) << "each has its own";
  EXPECT_EQ(Faults(Peer(1), 1), kQuarantineFirst);
  EXPECT_EQ(book.ReasonOf(Peer(1), now), "it lies");
  EXPECT_EQ(book.ReasonOf(Peer(2), now), "");
  EXPECT_EQ(book.ReasonOf(Peer(1), now + kQuarantineFirst - Duration(1)), "it lies");
  EXPECT_EQ(book.ReasonOf(Peer(1), now + kQuarantineFirst), "");
}

TEST_F(QuarantineTest, OldFaultsDoNotCount) {
  EXPECT_FALSE(Faults(Peer(1), 2));
  now += kFaultAge;
  EXPECT_FALSE(Faults(Peer(1), 2));
  EXPECT_TRUE(Faults(Peer(1), 1));
}

TEST_F(QuarantineTest, ItLastsTwiceAsLongEachTimeUpToADay) {
  Duration wanted = kQuarantineFirst;
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(Faults(Peer(1), 3), wanted) << i;
    now += wanted;
    wanted = std::min<Duration>(2 * wanted, kQuarantineMax);
  }
  now += kQuarantineForgotten + minutes(1);
  EXPECT_EQ(Faults(Peer(1), 3), kQuarantineFirst) << "for a day it did no harm";
}

TEST_F(QuarantineTest, AnOrderEndsIt) {
  EXPECT_FALSE(book.Release(Peer(1), now));
  EXPECT_TRUE(Faults(Peer(1), 3));
  EXPECT_TRUE(book.Release(Peer(1), now));
  EXPECT_EQ(book.ReasonOf(Peer(1), now), "");
  EXPECT_FALSE(book.Release(Peer(1), now));
  EXPECT_EQ(Faults(Peer(1), 3), kQuarantineFirst);
}

TEST_F(QuarantineTest, ZeroMeansNever) {
  Quarantine none(0);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(none.Add(Peer(1), "it lies", now));
  EXPECT_EQ(none.ReasonOf(Peer(1), now), "");
}

}  // namespace
}  // namespace shoal::scheduler
