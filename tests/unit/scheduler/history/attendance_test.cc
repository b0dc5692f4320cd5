#include "scheduler/history/attendance.h"

#include <gtest/gtest.h>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

TEST(EventBudget, GivesSoManyAtOnceThenOneInEveryWhile) {
  EventBudget budget(3, std::chrono::seconds(10));
  TimePoint now(std::chrono::hours(1));
  EXPECT_TRUE(budget.Full(now));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(budget.Any(now));
    budget.Take(now);
  }
  EXPECT_FALSE(budget.Any(now + std::chrono::seconds(9)));
  now += std::chrono::seconds(19);
  EXPECT_TRUE(budget.Any(now));
  budget.Take(now);
  EXPECT_FALSE(budget.Any(now));
  EXPECT_TRUE(budget.Any(now + std::chrono::seconds(1))) << "what began to grow again is kept";
  EXPECT_FALSE(budget.Full(now + std::chrono::seconds(20)));
  EXPECT_TRUE(budget.Full(now + std::chrono::seconds(21)));
}

const PeerId kAnna = PeerId{{1}}, kBerta = PeerId{{2}};
constexpr TimePoint kNow(std::chrono::hours(1));

TEST(Attendance, StoresWhoComesAndWhoGoesAndWhy) {
  Attendance attendance;
  const auto came = attendance.Came(kAnna, "anna", kNow);
  ASSERT_TRUE(came);
  EXPECT_EQ(came->peer, kAnna);
  EXPECT_EQ(came->name, "anna");
  const auto gone = attendance.Gone(kAnna, "anna", "its line broke", kNow);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->reason, "its line broke");
}

TEST(Attendance, AMemberThatFlapsDoesNotFillTheLogNorHideOthers) {
  Attendance attendance;
  std::uint32_t stored = 0;
  for (int i = 0; i < 10'000; ++i) stored += attendance.Came(kAnna, "anna", kNow) ? 1 : 0;
  EXPECT_EQ(stored, kAttendanceOfMemberMax);
  const auto other = attendance.Came(kBerta, "berta", kNow);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->unstored, 10'000 - kAttendanceOfMemberMax);
  const TimePoint later = kNow + kAttendanceOfMemberEvery;
  const auto gone = attendance.Gone(kAnna, "anna", "", later);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->unstored, 0u);
  EXPECT_FALSE(attendance.Gone(kAnna, "anna", "", later));
}

TEST(Attendance, ManyMembersDoNotFillTheLog) {
  Attendance attendance;
  std::uint32_t stored = 0;
  for (std::uint32_t number = 0; number < 1000; ++number) {
    const PeerId peer{{static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8)}};
    stored += attendance.Came(peer, "", kNow) ? 1 : 0;
  }
  EXPECT_EQ(stored, kAttendanceMax);
  EXPECT_TRUE(attendance.Came(kAnna, "anna", kNow + kAttendanceEvery));
}

TEST(Attendance, ASchedulerThatIsStartedAgainSaysSoOnce) {
  EXPECT_FALSE(Attendance().Begin()) << "the run is new";
  Attendance attendance;
  attendance.Restored(RunStarted{});
  attendance.Restored(PlanMade{});
  EXPECT_TRUE(attendance.Begin());
  EXPECT_FALSE(attendance.Begin());
  Attendance again;
  again.Restored(PlanMade{});
  again.Restored(SchedulerStarted{});
  EXPECT_FALSE(again.Begin());
}

}  // namespace
}  // namespace shoal::scheduler
