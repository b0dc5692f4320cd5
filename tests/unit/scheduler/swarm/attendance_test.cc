#include "scheduler/swarm/attendance.h"

#include <gtest/gtest.h>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

std::vector<StoredEvent> Stored(SwarmParts* swarm) {
  std::vector<StoredEvent> events;
  for (const Persist& persist : swarm->Take<Persist>()) {
    events.push_back(*DecodeEvent(persist.event));
  }
  return events;
}

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

TEST(Attendance, StoresWhoComesAndWhoGoesAndWhy) {
  SwarmParts swarm(1, 1);
  Stored(&swarm);
  const Member& member = *swarm.Join(1);
  swarm.attendance.Came(member);
  swarm.attendance.Gone(member, "its line\nbroke");
  const auto events = Stored(&swarm);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::get<MemberCame>(events[0]).peer, SimPeerId(1));
  EXPECT_EQ(std::get<MemberCame>(events[0]).name, "peer1");
  EXPECT_EQ(std::get<MemberGone>(events[1]).reason, "its line broke");
}

TEST(Attendance, AMemberThatFlapsDoesNotFillTheLogNorHideOthers) {
  SwarmParts swarm(1, 1);
  const Member& flaps = *swarm.Join(1);
  const Member& other = *swarm.Join(2);
  Stored(&swarm);
  for (int i = 0; i < 10'000; ++i) swarm.attendance.Came(flaps);
  EXPECT_EQ(Stored(&swarm).size(), kAttendanceOfMemberMax);
  swarm.attendance.Came(other);
  const auto events = Stored(&swarm);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<MemberCame>(events[0]).unstored, 10'000 - kAttendanceOfMemberMax);
  swarm.Wait(kAttendanceOfMemberEvery);
  swarm.attendance.Gone(flaps, "");
  swarm.attendance.Gone(flaps, "");
  const auto later = Stored(&swarm);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(std::get<MemberGone>(later[0]).unstored, 0u);
}

TEST(Attendance, ManyMembersDoNotFillTheLog) {
  SwarmParts swarm(1, 1);
  std::size_t stored = 0;
  for (std::uint32_t number = 1; number <= 1000; ++number) {
    const Member& member = *swarm.Join(number);
    swarm.Take<Persist>();
    swarm.attendance.Came(member);
    stored += Stored(&swarm).size();
  }
  EXPECT_EQ(stored, kAttendanceMax);
}

TEST(Attendance, ASchedulerThatIsStartedAgainSaysSoOnce) {
  SwarmParts swarm(1, 1);
  Stored(&swarm);
  swarm.attendance.Begin();
  EXPECT_TRUE(Stored(&swarm).empty()) << "the run is new";
  const auto starts = [&](const StoredEvent& newest) {
    Attendance attendance(&swarm.journal, swarm.reaction);
    attendance.Restored(RunStarted{});
    attendance.Restored(newest);
    attendance.Begin();
    attendance.Begin();
    return Stored(&swarm).size();
  };
  EXPECT_EQ(starts(PlanMade{}), 1u);
  EXPECT_EQ(starts(SchedulerStarted{}), 0u);
}

TEST(Membership, StoresAMemberOnceForEachConnection) {
  SwarmParts swarm(1, 1);
  control::v1::Hello hello;
  hello.set_protocol(net::kProtocolVersion);
  hello.set_name("anna");
  hello.set_join_secret(kSecret);
  hello.set_listen_port(4000);
  const auto admit = [&](ConnectionId connection) {
    swarm.membership.OnConnected({connection, SimPeerId(1), "10.0.0.1"});
    return swarm.membership.Admit(connection, hello);
  };
  Stored(&swarm);
  ASSERT_NE(admit(1), nullptr);
  EXPECT_EQ(Stored(&swarm).size(), 1u);
  ASSERT_NE(swarm.membership.Admit(1, hello), nullptr) << "a second hello";
  EXPECT_TRUE(Stored(&swarm).empty());
  ASSERT_NE(admit(2), nullptr) << "the older connection hangs";
  const auto again = Stored(&swarm);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(std::get<MemberGone>(again[0]).reason, "the same peer connected again");
  EXPECT_TRUE(std::holds_alternative<MemberCame>(again[1]));
  swarm.membership.OnLeaving(*swarm.members.Find(SimPeerId(1)), "holiday");
  swarm.membership.OnDisconnected({2, "closed"});
  const auto gone = Stored(&swarm);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(std::get<MemberGone>(gone[0]).reason, "it leaves, holiday");
}

}  // namespace
}  // namespace shoal::scheduler
