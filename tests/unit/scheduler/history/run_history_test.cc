#include "scheduler/history/run_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kHash = 77;

CheckpointMade Checkpoint(std::uint64_t step, const std::string& name) {
  CheckpointMade made{step, {}};
  made.files.emplace_back().set_name(name);
  return made;
}

RunHistory Begun() {
  RunHistory history(kHash);
  EXPECT_TRUE(history.Apply(RunBegan{RunId{}, kHash}).ok());
  return history;
}

TEST(RunHistory, BeginsWithItsRunAndItsConfiguration) {
  RunHistory history(kHash);
  EXPECT_EQ(history.Apply(RunStarted{}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(history.Apply(RunBegan{RunId{}, kHash + 1}).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(history.began());
  EXPECT_TRUE(history.Apply(RunBegan{RunId{}, kHash}).ok());
  EXPECT_EQ(history.Apply(RunBegan{RunId{}, kHash}).code(), StatusCode::kDataLoss);
}

TEST(RunHistory, APlanGoesBackToItsStepAndForgetsTheLossesBehindIt) {
  RunHistory history = Begun();
  for (const double loss : {3.0, 2.0, 1.0}) history.AddLoss(loss);
  ASSERT_TRUE(history.Apply(PlanMade{4, 2}).ok());
  EXPECT_EQ(history.generation(), 4u);
  EXPECT_EQ(history.step(), 2u);
  EXPECT_EQ(history.losses(), (std::vector<double>{3, 2}));
  EXPECT_EQ(history.Apply(PlanMade{5, 3}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(history.generation(), 4u);
}

TEST(RunHistory, TheOrderOfSamplesIsConstant) {
  RunHistory history = Begun();
  EXPECT_FALSE(history.sample_order());
  ASSERT_TRUE(history.Apply(SampleOrder{1, 100, 8, 2, 3}).ok());
  EXPECT_TRUE(history.Apply(SampleOrder{1, 100, 8, 2, 3}).ok());
  EXPECT_EQ(history.Apply(SampleOrder{2, 100, 8, 2, 3}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(history.sample_order()->seed, 1u);
}

TEST(RunHistory, AGenerationGoesOnAtTheNewestStep) {
  RunHistory history = Begun();
  EXPECT_EQ(history.Apply(GenerationGoesOn{0}).code(), StatusCode::kDataLoss);
  ASSERT_TRUE(history.Apply(PlanMade{1, 0}).ok());
  history.AddLoss(2);
  EXPECT_EQ(history.Apply(GenerationGoesOn{0}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(history.Apply(GenerationGoesOn{2}).code(), StatusCode::kDataLoss);
  ASSERT_TRUE(history.Apply(GenerationGoesOn{1}).ok());
  EXPECT_EQ(history.step(), 1u);
  EXPECT_EQ(history.losses().size(), 1u);
  EXPECT_FALSE(history.ended());
  ASSERT_TRUE(history.Apply(GenerationEnded{1, "why"}).ok());
  EXPECT_TRUE(history.ended());
  EXPECT_EQ(history.Apply(GenerationGoesOn{1}).code(), StatusCode::kDataLoss);
  ASSERT_TRUE(history.Apply(PlanMade{2, 1}).ok());
  EXPECT_FALSE(history.ended());
}

TEST(RunHistory, TheEndOfAGenerationChangesNothing) {
  RunHistory history = Begun();
  history.AddLoss(2);
  ASSERT_TRUE(history.Apply(GenerationEnded{1, "why", 20}).ok());
  EXPECT_EQ(history.Apply(GenerationEnded{2, "why", 20}).code(), StatusCode::kDataLoss);
  ASSERT_TRUE(history.Apply(SchedulerStarted{}).ok());
  ASSERT_TRUE(history.Apply(MemberCame{}).ok());
  ASSERT_TRUE(history.Apply(MemberGone{}).ok());
  EXPECT_EQ(history.step(), 1u);
}

TEST(RunHistory, AllPipelinesOfAPlanCountUntilItIsSaidWhich) {
  RunHistory history = Begun();
  EXPECT_EQ(history.Apply(PipelinesCount{0, {0}}).code(), StatusCode::kDataLoss) << "no plan";
  ASSERT_TRUE(history.Apply(PlanMade{1, 0, {PeerId{{1}}, PeerId{{2}}, PeerId{{3}}}}).ok());
  EXPECT_TRUE(history.counting().pipelines.empty());
  for (const double loss : {3.0, 2.0, 1.0}) history.AddLoss(loss);
  EXPECT_EQ(history.Apply(PipelinesCount{2, {0}}).code(), StatusCode::kDataLoss) << "applied";
  EXPECT_EQ(history.Apply(PipelinesCount{3, {3}}).code(), StatusCode::kDataLoss) << "no host";
  EXPECT_EQ(history.Apply(PipelinesCount{3, {}}).code(), StatusCode::kDataLoss);
  ASSERT_TRUE(history.Apply(PipelinesCount{5, {0, 2}}).ok()) << "may come ahead";
  EXPECT_EQ(history.counting().step, 5u);
  EXPECT_EQ(history.counting().pipelines, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(history.Apply(PipelinesCount{4, {0}}).code(), StatusCode::kDataLoss) << "goes back";
  ASSERT_TRUE(history.Apply(PlanMade{2, 1}).ok());
  EXPECT_EQ(history.counting().step, 1u);
  EXPECT_TRUE(history.counting().pipelines.empty());
}

// Two stages. An older log says of pipelines that they are gone as a whole, or only who counts.
TEST(RunHistory, WhoeverIsLostIsNoHostAnyMore) {
  const PeerId nobody;
  const std::vector<PeerId> hosts = {PeerId{{1}}, PeerId{{2}}, PeerId{{3}},
                                     PeerId{{4}}, PeerId{{5}}, PeerId{{6}}};
  struct Case {
    PipelinesCount count;
    std::vector<PeerId> left;
  };
  const Case cases[] = {
      {{0, {0}, 3, "", {{1, 1}, {2, 0}}}, {hosts[0], hosts[1], hosts[2], nobody, nobody, hosts[5]}},
      {{0, {0}, 3, "", {}, {2}}, {hosts[0], hosts[1], hosts[2], hosts[3], nobody, nobody}},
      {{0, {0}, 3}, {hosts[0], hosts[1], nobody, nobody, nobody, nobody}},
      {{0, {0}}, hosts},
  };
  for (const Case& one : cases) {
    RunHistory history = Begun();
    SampleOrder order;
    order.stages = 2;
    ASSERT_TRUE(history.Apply(order).ok());
    ASSERT_TRUE(history.Apply(PlanMade{1, 0, hosts}).ok());
    for (const Position& nowhere : {Position(3, 0), Position(0, 2)}) {
      EXPECT_EQ(history.Apply(PipelinesCount{0, {0}, 3, "", {nowhere}}).code(),
                StatusCode::kDataLoss);
    }
    ASSERT_TRUE(history.Apply(one.count).ok());
    EXPECT_EQ(history.hosts(), one.left);
  }
}

TEST(RunHistory, NewLossesAreTakenOnceAndReadBackInOrder) {
  RunHistory history = Begun(), again = Begun();
  EXPECT_FALSE(history.TakeNewLosses());
  history.AddLoss(2);
  history.AddLoss(1);
  EXPECT_EQ(history.new_losses(), 2u);
  const auto known = history.TakeNewLosses();
  ASSERT_TRUE(known);
  EXPECT_EQ(history.new_losses(), 0u);
  EXPECT_FALSE(history.TakeNewLosses());
  ASSERT_TRUE(again.Apply(*known).ok());
  EXPECT_EQ(again.losses(), history.losses());
  EXPECT_EQ(again.step(), 2u);
  EXPECT_EQ(again.Apply(*known).code(), StatusCode::kDataLoss);  // of steps that are there
}

TEST(RunHistory, HeldOutLossesGoBackWithThePlanAndAreMeasuredAgain) {
  RunHistory history = Begun();
  const auto steps = [&] {
    std::vector<std::uint64_t> all;
    for (const HeldOutMeasured& measured : history.held_out()) all.push_back(measured.step);
    return all;
  };
  for (int i = 0; i < 30; ++i) history.AddLoss(1);
  for (const std::uint64_t step : {0u, 10u, 20u}) {
    ASSERT_TRUE(history.Apply(HeldOutMeasured{step, 3}).ok());
  }
  ASSERT_TRUE(history.Apply(PlanMade{2, 10}).ok());
  // The weights after ten steps are those of the checkpoint.
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{0, 10}));
  ASSERT_TRUE(history.Apply(HeldOutMeasured{10, 2.5}).ok());
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{0, 10}));
  EXPECT_EQ(history.held_out().back().loss, 2.5);
}

TEST(RunHistory, KnowsWhichOfItsLastStepsWereSkipped) {
  RunHistory history = Begun();
  const auto skip = [&history](const std::string& cause) {
    EXPECT_TRUE(history.Apply(StepSkipped{history.step(), cause}).ok());
    history.AddLoss(1);
  };
  history.AddLoss(1);
  EXPECT_EQ(history.skipped_in_a_row(), 0u);
  skip("a");
  EXPECT_EQ(history.skipped_in_a_row(), 1u);
  history.AddLoss(1);
  EXPECT_EQ(history.skipped_in_a_row(), 0u);
  skip("b");
  skip("c");
  EXPECT_EQ(history.skipped_in_a_row(), 2u);
  EXPECT_EQ(history.skipped(), (std::vector<std::uint64_t>{1, 3, 4}));
  EXPECT_EQ(history.last_skipped(), "c");
  for (const std::uint64_t step : {0, 4, 6}) {
    EXPECT_EQ(history.Apply(StepSkipped{step, "d"}).code(), StatusCode::kDataLoss) << step;
  }
  ASSERT_TRUE(history.Apply(PlanMade{2, 4}).ok()) << "the last of them is void";
  EXPECT_EQ(history.skipped(), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(history.skipped_in_a_row(), 1u);
  EXPECT_EQ(history.last_skipped(), "");
  ASSERT_TRUE(history.Apply(PlanMade{3, 1}).ok());
  EXPECT_TRUE(history.skipped().empty());
}

TEST(RunHistory, KeepsTheCheckpointBeforeUntilTheRunGoesBackToIt) {
  RunHistory history = Begun();
  EXPECT_EQ(history.Apply(Checkpoint(1, "a")).code(), StatusCode::kDataLoss);
  for (int i = 0; i < 4; ++i) history.AddLoss(1);
  ASSERT_TRUE(history.Apply(Checkpoint(2, "a")).ok());
  EXPECT_EQ(history.older().step, 0u);
  ASSERT_TRUE(history.Apply(Checkpoint(4, "b")).ok());
  EXPECT_EQ(history.checkpoint().step, 4u);
  EXPECT_TRUE(history.checkpoint().files.contains("b"));
  EXPECT_FALSE(history.checkpoint().files.contains("a"));
  EXPECT_EQ(history.older().step, 2u);
  EXPECT_TRUE(history.older().files.contains("a"));
  ASSERT_TRUE(history.Apply(Checkpoint(2, "a")).ok());
  EXPECT_EQ(history.checkpoint().step, 2u);
  EXPECT_EQ(history.older().step, 0u);
  EXPECT_TRUE(history.older().files.empty());
}

TEST(RunHistory, GoesOnAboveTheGenerationsOfACopy) {
  RunHistory history = Begun();
  ASSERT_TRUE(history.Apply(PlanMade{3, 0, {PeerId{}, PeerId{}}}).ok());
  for (int i = 0; i < 4; ++i) history.AddLoss(1);
  ASSERT_TRUE(history.Apply(Checkpoint(2, "a")).ok());
  EXPECT_EQ(history.Apply(RunRestored{2, 3}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(history.Apply(RunRestored{4, 9}).code(), StatusCode::kDataLoss);
  ASSERT_TRUE(history.Apply(RunRestored{2, 1003}).ok());
  EXPECT_EQ(history.generation(), 1003u);
  EXPECT_TRUE(history.hosts().empty()) << "who comes back is not believed to hold later steps";
  EXPECT_EQ(history.checkpoint().step, 2u);
  ASSERT_TRUE(history.Apply(PlanMade{1004, 2}).ok());
  EXPECT_EQ(history.step(), 2u);
}

TEST(RunHistory, IsHeldUntilItIsReleased) {
  RunHistory history = Begun();
  ASSERT_TRUE(history.Apply(RunHeld{"why"}).ok());
  EXPECT_TRUE(history.held());
  ASSERT_TRUE(history.Apply(RunReleased{}).ok());
  EXPECT_FALSE(history.held());
  EXPECT_FALSE(history.started());
  ASSERT_TRUE(history.Apply(RunStarted{}).ok());
  EXPECT_TRUE(history.started());
}

}  // namespace
}  // namespace shoal::scheduler
