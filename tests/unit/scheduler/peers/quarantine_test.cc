#include "scheduler/peers/quarantine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  std::vector<std::pair<TimePoint, StoredEvent>> stored;
  // Faults of a peer, a minute apart.
  std::optional<Duration> Faults(const PeerId& peer, int count) {
    std::optional<Duration> lasts;
    for (int i = 0; i < count; ++i) {
      now += minutes(1);
      lasts = book.Add(peer, FaultKind::kValues, "it lies", now);
      const auto ms = lasts.value_or(Duration{}) / std::chrono::milliseconds(1);
      stored.emplace_back(
          now, MemberFault{peer, FaultKind::kValues, "it lies", static_cast<std::uint64_t>(ms)});
    }
    return lasts;
  }
  // Why `peer` is in quarantine; empty: it is not.
  std::string Cause(const PeerId& peer, TimePoint at) const {
    const auto term = book.TermOf(peer, at);
    return term ? term->cause : "";
  }
  // What the next scheduler makes of what is stored.
  Quarantine Again() const {
    Quarantine again(3);
    for (const auto& [at, event] : stored) again.Restore(event, at);
    return again;
  }
};

TEST_F(QuarantineTest, TheThirdFaultWithinAnHourIsOneTooMany) {
  EXPECT_FALSE(Faults(Peer(1), 2));
  EXPECT_EQ(Cause(Peer(1), now), "");
  EXPECT_FALSE(Faults(Peer(2), 2)) << "each has its own";
  EXPECT_EQ(Faults(Peer(1), 1), kQuarantineFirst);
  EXPECT_EQ(Cause(Peer(1), now), "it lies");
  EXPECT_EQ(Cause(Peer(2), now), "");
  EXPECT_EQ(Cause(Peer(1), now + kQuarantineFirst - Duration(1)), "it lies");
  EXPECT_EQ(Cause(Peer(1), now + kQuarantineFirst), "");
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
  EXPECT_EQ(Cause(Peer(1), now), "");
  EXPECT_FALSE(book.Release(Peer(1), now));
  EXPECT_EQ(Faults(Peer(1), 3), kQuarantineFirst);
}

TEST_F(QuarantineTest, TellsHowLongItLastsAndWhatLedToIt) {
  EXPECT_TRUE(Faults(Peer(1), 3));
  EXPECT_FALSE(Faults(Peer(2), 2));
  const auto term = book.TermOf(Peer(1), now);
  ASSERT_TRUE(term);
  EXPECT_EQ(term->left, kQuarantineFirst - minutes(2));
  EXPECT_EQ(term->kind, FaultKind::kValues);
  EXPECT_EQ(term->faults, 3u);
  ASSERT_EQ(book.Terms(now).size(), 1u);
  EXPECT_EQ(book.Terms(now).begin()->first, Peer(1));
  EXPECT_TRUE(book.Terms(now + hours(1)).empty());
}

TEST_F(QuarantineTest, TheNextSchedulerKnowsAllOfIt) {
  EXPECT_TRUE(Faults(Peer(1), 3));
  now += kQuarantineFirst;
  EXPECT_TRUE(Faults(Peer(1), 3));
  EXPECT_FALSE(Faults(Peer(2), 2));
  EXPECT_TRUE(Faults(Peer(3), 3));
  EXPECT_TRUE(book.Release(Peer(3), now));
  stored.emplace_back(now, MemberPardoned{Peer(3)});
  Quarantine again = Again();
  for (const auto number : {1, 2, 3}) {
    const PeerId peer = Peer(static_cast<unsigned char>(number));
    const auto one = book.TermOf(peer, now), other = again.TermOf(peer, now);
    ASSERT_EQ(one.has_value(), other.has_value()) << number;
    EXPECT_EQ(one ? one->left : Duration{}, other ? other->left : Duration{});
    EXPECT_EQ(one ? one->faults : 0, other ? other->faults : 0);
    EXPECT_EQ(again.Add(peer, FaultKind::kWeights, "more", now),
              book.Add(peer, FaultKind::kWeights, "more", now));
  }
  EXPECT_EQ(again.TermOf(Peer(2), now)->left, kQuarantineFirst) << "its third fault";
}

TEST_F(QuarantineTest, NoStoredQuarantineLastsLongerThanTheLongest) {
  stored.emplace_back(now, MemberFault{Peer(1), FaultKind::kWeights, "why",
                                       std::numeric_limits<std::uint64_t>::max()});
  EXPECT_EQ(Again().TermOf(Peer(1), now)->left, kQuarantineMax);
  EXPECT_FALSE(Again().TermOf(Peer(1), now + kQuarantineMax));
}

TEST_F(QuarantineTest, ZeroMeansNever) {
  Quarantine none(0);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(none.Add(Peer(1), FaultKind::kValues, "it lies", now));
  none.Restore(MemberFault{Peer(1), FaultKind::kValues, "it lies", 60'000}, now);
  EXPECT_FALSE(none.TermOf(Peer(1), now));
}

}  // namespace
}  // namespace shoal::scheduler
