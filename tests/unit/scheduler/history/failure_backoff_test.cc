#include "scheduler/history/failure_backoff.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/config/swarm_limits.h"
#include "scheduler/history/lost_artefacts.h"
#include "scheduler/steps/step_times.h"

namespace shoal::scheduler {
namespace {

TEST(FailureBackoff, WaitsTwiceAsLongEachTimeUpToTheMost) {
  FailureBackoff backoff;
  const TimePoint now{};
  Duration wait = kBackoffFirst;
  for (int i = 0; i < 8; ++i) {
    backoff.CountFailure(0, now);
    EXPECT_FALSE(backoff.MayPlan(now + wait - Duration(1))) << i;
    EXPECT_TRUE(backoff.MayPlan(now + wait)) << i;
    wait = std::min(kBackoffMax, 2 * wait);
  }
}

TEST(FailureBackoff, GivesUpWithoutProgressOnly) {
  FailureBackoff backoff;
  const TimePoint now{};
  for (std::uint64_t step = 1; step < 20; ++step) {
    backoff.CountFailure(step, now);
    EXPECT_FALSE(backoff.exhausted());
  }
  for (std::uint32_t i = 1; i < kFailuresMax; ++i) backoff.CountFailure(19, now);
  EXPECT_TRUE(backoff.exhausted());
  EXPECT_EQ(backoff.failures(), kFailuresMax);
  backoff.Reset(now);
  EXPECT_FALSE(backoff.exhausted());
  EXPECT_TRUE(backoff.MayPlan(now));
  backoff.Wait(now);
  EXPECT_FALSE(backoff.MayPlan(now));
  EXPECT_EQ(backoff.failures(), 0u);
  backoff.PlanAt(now);
  EXPECT_TRUE(backoff.MayPlan(now));
}

TEST(LostArtefacts, AsksAllAgainWhenMoreAreLost) {
  LostArtefacts lost;
  PeerId peer;
  peer.key[0] = 1;
  control::v1::ArtefactRef file;
  file.set_name("wte");
  lost.Add({{"h1", file}});
  lost.Offered(peer);
  EXPECT_TRUE(lost.HasOffered(peer));
  lost.Add({{"h2", file}});
  EXPECT_FALSE(lost.HasOffered(peer));
  EXPECT_EQ(lost.Describe(), "2 artefacts are damaged or gone at the scheduler (wte, wte)");
  EXPECT_FALSE(lost.Found("h3"));
  EXPECT_FALSE(lost.Found("h1"));  // one is left
  EXPECT_EQ(lost.Describe(), "1 artefact is damaged or gone at the scheduler (wte)");
  EXPECT_TRUE(lost.Found("h2"));
  EXPECT_FALSE(lost.Found("h2"));
  lost.Add({{"h1", file}, {"h2", file}});
  lost.KeepOnly({{"h2", file}});
  EXPECT_FALSE(lost.Contains("h1"));
  EXPECT_TRUE(lost.Contains("h2"));
}

TEST(LostArtefacts, NamesFourAtMost) {
  LostArtefacts lost;
  ArtefactMap files;
  for (const char* name : {"a", "b", "c", "d", "e"}) files[name].set_name(name);
  lost.Add(files);
  EXPECT_EQ(lost.Describe(), "5 artefacts are damaged or gone at the scheduler (a, b, c, d, ...)");
}

TEST(StepTimes, AveragesAndKeepsTheLast) {
  StepTimes times;
  EXPECT_EQ(times.seconds(), 0);
  times.Add(std::chrono::seconds(10), std::chrono::milliseconds(500));
  EXPECT_EQ(times.seconds(), 10);
  EXPECT_EQ(times.control_seconds(), 0.5);
  times.Add(std::chrono::seconds(20), Duration::zero());
  EXPECT_DOUBLE_EQ(times.seconds(), 13);
  for (std::size_t i = 0; i < StepTimes::kKept; ++i) times.Add(std::chrono::seconds(1), {});
  EXPECT_EQ(times.last(), std::vector<double>(StepTimes::kKept, 1.0));
  times.Reset();
  EXPECT_EQ(times.seconds(), 0);
  EXPECT_TRUE(times.last().empty());
}

TEST(StepTimes, KnowsMicroBatchesBeyondAGeneration) {
  StepTimes times;
  times.AddReady(std::chrono::seconds(10), 0);
  EXPECT_EQ(times.micro_batch_seconds(), 0);
  times.AddReady(std::chrono::seconds(10), 5);
  times.Reset();
  EXPECT_EQ(times.micro_batch_seconds(), 2);
  times.AddReady(std::chrono::seconds(3), 1);
  EXPECT_DOUBLE_EQ(times.micro_batch_seconds(), 2.3);
}

}  // namespace
}  // namespace shoal::scheduler
