#include "scheduler/swarm/member_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

struct Faults : SwarmParts {
  Faults(std::uint32_t stages, std::uint32_t pipelines, std::uint32_t peers)
      : SwarmParts(stages, pipelines) {
    JoinAll(peers);
    Train();
  }
  void Complain(const Member& by, const Member& of, bool refused = false) {
    control::v1::LinkBroken broken;
    broken.set_refused(refused);
    broken.set_generation(history.generation());
    broken.set_peer(std::string(of.peer.key.begin(), of.peer.key.end()));
    broken.set_error("reset");
    faults.OnLinkBroken(by, broken);
  }
  void Refuse(const Member& by, const Status& why) {
    control::v1::PlanFailed failed;
    failed.set_generation(history.generation());
    failed.set_error(why.ToString());
    faults.OnPlanFailed(by, failed);
  }
  // Stored so far and not asked for yet.
  std::vector<std::string> FaultsStored() {
    std::vector<std::string> stored;
    for (const Persist& persist : Take<Persist>()) {
      if (persist.event.find("\"fault\"") != std::string::npos) stored.push_back(persist.event);
    }
    return stored;
  }
  // That count, stored so far and not asked for yet.
  std::ptrdiff_t Failures() {
    return std::ranges::count_if(Take<Persist>(), [](const Persist& persist) {
      return persist.event.find("\"failures\"") != std::string::npos;
    });
  }
};

TEST(MemberFaults, AComplaintThatBothEndsShareBlamesNobody) {
  Faults parts(2, 1, 3);
  parts.Complain(parts.At(0, 0), parts.At(0, 1));
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("only peer1"));
  parts.Complain(parts.At(0, 1), parts.At(0, 0));
  EXPECT_EQ(*parts.plan.Propose(parts.config.pipelines), parts.plan.positions());
}

// A peer that sends what cannot be right is known by several, whatever it says of them.
TEST(MemberFaults, WhatSeveralRefuseIsAFaultOfWhoSentIt) {
  Faults parts(1, 3, 4);
  Member& member = parts.At(1, 0);
  const PeerId liar = member.peer;
  parts.Complain(parts.At(1, 0), parts.At(0, 0));
  EXPECT_FALSE(parts.lifecycle.active());
  parts.Complain(parts.At(0, 0), parts.At(1, 0), true);
  parts.Complain(parts.At(1, 0), parts.At(2, 0), true);
  EXPECT_TRUE(parts.FaultsStored().empty());
  parts.Complain(parts.At(2, 0), parts.At(1, 0), true);
  const std::vector<std::string> faults = parts.FaultsStored();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0], HasSubstr(liar.ToHex()));
  EXPECT_THAT(faults[0], HasSubstr("several say so"));
  EXPECT_EQ(parts.plan.At(1, 0), nullptr) << "its place is free";
  // Of the same event, whose sender has no place any more.
  parts.Complain(parts.At(0, 0), member, true);
  parts.Complain(parts.At(2, 0), member, true);
  EXPECT_TRUE(parts.FaultsStored().empty());
}

// Also of one that has left the scheduler meanwhile.
TEST(MemberFaults, WhoGoesAwayIsRefusedAllTheSame) {
  Faults parts(1, 3, 4);
  Member& liar = parts.At(1, 0);
  liar.connected = false;
  parts.Complain(parts.At(0, 0), liar, true);
  parts.Complain(parts.At(2, 0), liar, true);
  EXPECT_EQ(parts.FaultsStored().size(), 1u);
}

TEST(MemberFaults, OneWordAloneOrBrokenLinksAreNoFault) {
  Faults parts(1, 3, 4);
  parts.Complain(parts.At(0, 0), parts.At(1, 0), true);
  parts.Complain(parts.At(0, 0), parts.At(1, 0), true);
  parts.Complain(parts.At(2, 0), parts.At(1, 0));
  EXPECT_TRUE(parts.FaultsStored().empty());
  EXPECT_NE(parts.plan.At(1, 0), nullptr);
}

TEST(MemberFaults, WithoutALinkThereIsNoComplaint) {
  Faults parts(4, 1, 4);
  parts.Complain(parts.At(0, 0), parts.At(0, 2));
  EXPECT_TRUE(parts.lifecycle.active());
}

TEST(MemberFaults, WhoComplainsAgainAndAgainLosesItsPositionToASpare) {
  Faults parts(2, 1, 3);
  const PeerId complainer = parts.At(0, 0).peer;
  for (std::size_t i = 0; i < kUnconfirmedMax; ++i) {
    EXPECT_EQ(parts.At(0, 0).peer, complainer);
    parts.Complain(parts.At(0, 0), parts.At(0, 1));
    EXPECT_FALSE(parts.lifecycle.active());
    parts.Train();
  }
  EXPECT_EQ(parts.At(0, 0).peer, SimPeerId(3));
}

TEST(MemberFaults, WhomTwoAccuseLosesItsPositionToASpare) {
  Faults parts(3, 1, 4);
  const PeerId accused = parts.At(0, 1).peer;
  parts.Complain(parts.At(0, 0), parts.At(0, 1));
  parts.Train();
  EXPECT_EQ(parts.At(0, 1).peer, accused);
  parts.Complain(parts.At(0, 2), parts.At(0, 1));
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("of whom several complain"));
  parts.Train();
  EXPECT_EQ(parts.At(0, 1).peer, SimPeerId(4));
}

TEST(MemberFaults, ADoubtedComplaintEndsOnlyAStepThatHangs) {
  Faults parts(2, 1, 2);
  for (std::size_t i = 0; i < kUnconfirmedMax; ++i) {
    parts.Complain(parts.At(0, 0), parts.At(0, 1));
    parts.Train();
  }
  EXPECT_FALSE(parts.faults.doubt());
  parts.Complain(parts.At(0, 0), parts.At(0, 1));
  EXPECT_TRUE(parts.lifecycle.active()) << "without a spare it is not believed any more";
  ASSERT_TRUE(parts.faults.doubt());
  parts.Wait(TimeoutsOf(kPeerTimeoutDefault).doubt);
  parts.faults.EndDoubtfulStep(0);
  EXPECT_TRUE(parts.lifecycle.active());
  parts.Wait(Duration(1));
  parts.faults.EndDoubtfulStep(60);
  EXPECT_TRUE(parts.lifecycle.active()) << "slow steps get longer";
  parts.faults.EndDoubtfulStep(0);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("the step did not end"));
  EXPECT_FALSE(parts.faults.doubt());

  parts.Train();
  parts.Complain(parts.At(0, 0), parts.At(0, 1));
  ASSERT_TRUE(parts.faults.doubt());
  parts.Apply(1);
  parts.Wait(2 * TimeoutsOf(kPeerTimeoutDefault).doubt);
  parts.faults.EndDoubtfulStep(0);
  EXPECT_TRUE(parts.lifecycle.active()) << "the step ended, so nothing was broken";
  EXPECT_FALSE(parts.faults.doubt());
}

TEST(MemberFaults, AReplacedMemberCountsAsFailureTheSecondTime) {
  Faults parts(1, 1, 2);
  const Member& member = parts.At(0, 0);
  parts.faults.Replace(member, "it is ill");
  parts.Wait(kBackoffFirst);
  EXPECT_TRUE(parts.lifecycle.MayPlan());
  parts.Train();
  EXPECT_EQ(parts.At(0, 0).peer, SimPeerId(2));
  parts.faults.Replace(parts.At(0, 0), "it is ill, too");
  parts.Train();
  ASSERT_EQ(parts.At(0, 0).peer, member.peer);
  for (std::uint32_t i = 0; i < kFailuresMax; ++i) {  // nobody is new
    EXPECT_FALSE(parts.history.held());
    parts.faults.Replace(parts.At(0, 0), "again");
    parts.Train();
  }
  EXPECT_TRUE(parts.history.held());
}

TEST(MemberFaults, ARunFailsOnlyWhereAllCallThePlanInvalid) {
  Faults parts(2, 1, 3);
  parts.Refuse(parts.At(0, 0), InvalidArgument("no such codec"));
  EXPECT_EQ(parts.lifecycle.state(), RunState::kPaused);
  parts.Train();
  parts.Refuse(parts.At(0, 0), InvalidArgument("no such codec"));
  EXPECT_EQ(parts.lifecycle.state(), RunState::kPaused);
  parts.Train();
  for (const std::uint32_t stage : {0u, 1u}) {
    if (parts.lifecycle.state() == RunState::kFailed) break;
    parts.Refuse(parts.At(0, stage), Unimplemented("no such codec"));
  }
  EXPECT_EQ(parts.lifecycle.state(), RunState::kFailed);
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("cannot do its part"));
}

TEST(MemberFaults, WhatHasTrainedIsNotInvalid) {
  Faults parts(1, 1, 1);
  parts.Apply(1);
  parts.Refuse(parts.At(0, 0), InvalidArgument("no such codec"));
  EXPECT_EQ(parts.lifecycle.state(), RunState::kPaused);
}

TEST(MemberFaults, AFailureCountsOnceOthersHaveDoneTheStep) {
  Faults parts(2, 1, 3);
  const PeerId ill = parts.At(0, 1).peer;
  parts.Refuse(parts.At(0, 1), InvalidArgument("a value is not finite"));
  parts.faults.Look();
  EXPECT_EQ(parts.Failures(), 0) << "nobody has done it yet";
  parts.Train();
  EXPECT_NE(parts.At(0, 1).peer, ill);
  parts.journal.AddLoss(2);
  parts.faults.Look();
  parts.faults.Look();
  EXPECT_EQ(parts.Failures(), 1);
}

TEST(MemberFaults, WhoAloneFailsAtAStepAgainIsToBlame) {
  Faults parts(2, 2, 4);
  const PeerId ill = parts.At(0, 1).peer;
  const auto fail = [&](std::uint32_t pipeline) {
    parts.Refuse(parts.At(pipeline, 1), InvalidArgument("a value is not finite"));
    parts.Train();
    return parts.Failures();
  };
  EXPECT_EQ(fail(0), 0);
  ASSERT_EQ(parts.At(0, 1).peer, ill) << "there is nobody else";
  EXPECT_EQ(fail(0), 1);
  EXPECT_EQ(fail(1), 0);
  EXPECT_EQ(fail(1), 0) << "others fail, too: it is the run's fault";
}

TEST(MemberFaults, WhoIsTheOnlyOneOfItsStageIsNotToBlame) {
  Faults parts(2, 1, 2);
  for (int i = 0; i < 3; ++i) {
    parts.Refuse(parts.At(0, 1), InvalidArgument("a value is not finite"));
    parts.Train();
  }
  EXPECT_EQ(parts.Failures(), 0);
}

TEST(MemberFaults, AFailureThatTheMemberMendsItselfDoesNotCount) {
  Faults parts(2, 1, 2);
  parts.Refuse(parts.At(0, 1), Internal("out of memory"));
  parts.Train();
  parts.journal.AddLoss(2);
  parts.faults.Look();
  EXPECT_EQ(parts.Failures(), 0);
}

}  // namespace
}  // namespace shoal::scheduler
