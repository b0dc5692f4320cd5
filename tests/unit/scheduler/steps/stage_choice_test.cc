#include "scheduler/steps/stage_choice.h"

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

Duration Ms(int ms) { return std::chrono::milliseconds(ms); }

// A step of three stages with two members each, of which the second is the slower one. All have
// their gradients at once.
void Step(StageChoice* choice, double first, double second, double third) {
  std::uint32_t stage = 0;
  for (const double ms : {first, second, third}) {
    choice->Add(stage, Ms(70), Done(ms / 2, 1000, 100));
    choice->Add(stage++, Ms(70), Done(ms, 1000, 100));
  }
  choice->EndStep();
}

// As with 1F1B: later stages end their backward earlier. All exchanges take 500 ms, 50 as factors,
// so with factors everywhere the step could be over after 1050 ms, with stage 0. Exactly, stage 1
// takes until 1300 ms, stage 2 until 1000.
TEST(StageChoice, StagesThatEndTheirBackwardEarlyStayExact) {
  StageChoice choice("powersgd:stages=auto,start=3", 3, 2);
  for (int step = 0; step < 3; ++step) {
    std::uint32_t stage = 0;
    for (const int end : {1000, 800, 500}) {
      // The member that is ready first waits for the other one, and both have the sum at once.
      choice.Add(stage, Ms(end - 300), Done(800, 1000, 100));
      choice.Add(stage++, Ms(end), Done(500, 1000, 100));
    }
    choice.EndStep();
  }
  EXPECT_EQ(choice.ExactStages(3), Stages{2});
}

// What went out during the backward is no part of what is left to save. That is 40 ms behind its
// end at stage 0, as against 300 at stage 1, which ended 100 ms before. With factors stage 0 would
// be done after 1004 ms and stage 1 after 930: both gain.
TEST(StageChoice, WhatTravelledDuringTheBackwardIsNotCounted) {
  StageChoice choice("powersgd:stages=auto,start=3", 2, 2);
  for (int step = 0; step < 3; ++step) {
    choice.Add(0, Ms(1000), Done(40, 1000, 100));
    choice.Add(1, Ms(900), Done(300, 1000, 100));
    choice.EndStep();
  }
  EXPECT_EQ(choice.ExactStages(3), Stages{});
  choice.Reset();
  for (int step = 0; step < 3; ++step) {
    choice.Add(0, Ms(1000), Done(40, 1000, 100));
    choice.Add(1, Ms(700), Done(300, 1000, 100));
    choice.EndStep();
  }
  EXPECT_EQ(choice.ExactStages(3), Stages{1}) << "over after 1000 ms";
}

// Nothing is reported of a step that was exchanged in two rounds.
TEST(StageChoice, ASecondRoundIsNoMeasure) {
  StageChoice choice("powersgd:rank=4,start=2,stages=auto", 3, 2);
  for (int step = 0; step < 2; ++step) Step(&choice, 900, 500, 80);
  for (std::uint32_t stage = 0; stage < 3; ++stage) choice.Add(stage, Ms(10), Done(0, 0, 0));
  choice.EndStep();
  EXPECT_EQ(choice.ExactStages(3), (Stages{0, 1, 2})) << "decided after two measured steps";
  Step(&choice, 900, 500, 80);
  EXPECT_EQ(choice.ExactStages(4), Stages{2});
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
  // It stays so, whatever comes.
  for (std::uint64_t step = 5; step < 40; ++step) {
    Step(&choice, 1, 1, 9000);
    EXPECT_EQ(choice.ExactStages(step + 1), Stages{2});
  }
}

TEST(StageChoice, AMemberThatIsSlowMakesItsStageSlow) {
  StageChoice choice("powersgd:stages=auto,start=3", 2, 3);
  for (int step = 0; step < 3; ++step) {
    for (const double ms : {10.0, 700.0, 20.0}) choice.Add(1, Ms(70), Done(ms, 100, 10));
    for (int member = 0; member < 3; ++member) choice.Add(0, Ms(70), Done(50, 100, 10));
    choice.EndStep();
  }
  EXPECT_EQ(choice.ExactStages(3), Stages{0});
}

TEST(StageChoice, AGenerationMeasuresForItself) {
  StageChoice choice("powersgd:rank=4,start=2,stages=auto", 3, 2);
  for (int step = 0; step < 4; ++step) Step(&choice, 900, 500, 80);
  EXPECT_EQ(choice.ExactStages(4), Stages{2});
  choice.Reset();
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
    choice.Add(0, Ms(70), Done(500, 100, 100));
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
