#include "scheduler/stage_choice.h"

#include <gtest/gtest.h>

namespace shoal::scheduler {
namespace {

using Stages = std::vector<std::uint32_t>;

control::v1::SyncDone Done(double ms, std::uint64_t values, std::uint64_t factors) {
  control::v1::SyncDone done;
  done.set_exchange_ms(ms);
  done.set_exact_values(values);
  done.set_factor_values(factors);
  return done;
}

// A step of three stages with two members each, of which the second is the slower one.
void Step(StageChoice* choice, double first, double second, double third) {
  std::uint32_t stage = 0;
  for (const double ms : {first, second, third}) {
    choice->Add(stage, Done(ms / 2, 1000, 100));
    choice->Add(stage++, Done(ms, 1000, 100));
  }
  choice->EndStep();
}

TEST(StageChoice, SlowStagesCompressFromTheStartOn) {
  StageChoice choice("powersgd:rank=4,start=5,stages=auto", 3, 2);
  for (std::uint64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(choice.ExactStages(step), (Stages{0, 1, 2})) << step;
    // The first step is no measure of the others.
    if (step == 0) Step(&choice, 1, 1, 9000);
    if (step > 0) Step(&choice, 900, 500, 80);
  }
  // Factors take stages 0 and 1 to 90 and 50 ms, so stage 2 is no longer than the longest.
  EXPECT_EQ(choice.ExactStages(5), Stages{2});
  EXPECT_TRUE(choice.decided());
  // It stays so, whatever comes.
  for (std::uint64_t step = 5; step < 40; ++step) {
    Step(&choice, 1, 1, 9000);
    EXPECT_EQ(choice.ExactStages(step + 1), Stages{2});
  }
}

TEST(StageChoice, AMemberThatIsSlowMakesItsStageSlow) {
  StageChoice choice("powersgd:stages=auto,start=3", 2, 3);
  for (int step = 0; step < 3; ++step) {
    for (const double ms : {10.0, 700.0, 20.0}) choice.Add(1, Done(ms, 100, 10));
    for (int member = 0; member < 3; ++member) choice.Add(0, Done(50, 100, 10));
    choice.EndStep();
  }
  EXPECT_EQ(choice.ExactStages(3), Stages{0});
}

TEST(StageChoice, AGenerationMeasuresForItself) {
  StageChoice choice("powersgd:rank=4,start=2,stages=auto", 3, 2);
  for (int step = 0; step < 4; ++step) Step(&choice, 900, 500, 80);
  EXPECT_EQ(choice.ExactStages(4), Stages{2});
  choice.Reset();
  EXPECT_FALSE(choice.decided());
  // Behind the start, but nothing is known of the new members yet.
  for (std::uint64_t step = 4; step < 7; ++step) {
    EXPECT_EQ(choice.ExactStages(step), (Stages{0, 1, 2}));
    Step(&choice, 80, 90, 900);
  }
  EXPECT_EQ(choice.ExactStages(7), (Stages{0, 1}));
}

TEST(StageChoice, FactorsThatAreNoSmallerAreNotTaken) {
  StageChoice choice("powersgd:stages=auto,start=3", 1, 2);
  for (int step = 0; step < 3; ++step) {
    choice.Add(0, Done(500, 100, 100));
    choice.EndStep();
  }
  EXPECT_EQ(choice.ExactStages(3), Stages{0});
}

TEST(StageChoice, OtherMethodsAreLeftAlone) {
  for (const char* method : {"average", "powersgd:stages=all", "powersgd:stages=0", "qadam"}) {
    StageChoice choice(method, 3, 2);
    Step(&choice, 1, 2, 3);
    EXPECT_TRUE(choice.ExactStages(100).empty()) << method;
  }
  StageChoice single("powersgd:stages=auto", 3, 1);
  EXPECT_TRUE(single.ExactStages(0).empty());
}

}  // namespace
}  // namespace shoal::scheduler
