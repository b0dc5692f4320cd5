#include "daemon/churn/lines.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace shoal::daemon {
namespace {

struct Lab {
  EventQueue events;
  Lines lines{&events};
  const TimePoint start = events.now();

  double now() const { return Seconds(events.now() - start); }
  void RunAll() {
    while (events.RunNext(TimePoint::max())) {
    }
  }
};

TEST(Lines, AFlowTakesWhatTheSlowerEndAllows) {
  Lab lab;
  const auto a = lab.lines.Add(8e6, 80e6), b = lab.lines.Add(8e6, 4e6);
  double done = 0;
  lab.lines.Start(a, b, 1e6, FlowKind::kFile, [&] { done = lab.now(); });
  EXPECT_EQ(lab.lines.StepPercent(a), 80u);
  lab.RunAll();
  EXPECT_NEAR(done, 2, 1e-6);
  EXPECT_EQ(lab.lines.StepPercent(a), 100u);
}

TEST(Lines, FlowsShareALineAndTakeWhatOthersLeave) {
  Lab lab;
  const auto a = lab.lines.Add(8e6, 80e6), b = lab.lines.Add(8e6, 2e6),
             c = lab.lines.Add(8e6, 80e6);
  std::vector<double> done(2);
  lab.lines.Start(a, b, 0.5e6, FlowKind::kFile, [&] { done[0] = lab.now(); });   // 2 Mbit/s at most
  lab.lines.Start(a, c, 1.75e6, FlowKind::kFile, [&] { done[1] = lab.now(); });  // 6, then 8
  lab.RunAll();
  EXPECT_NEAR(done[0], 2, 1e-6);
  EXPECT_NEAR(done[1], 2 + 2e6 / 8e6, 1e-6);
}

TEST(Lines, StepsGoBeforeFilesButForAFifth) {
  Lab lab;
  const auto a = lab.lines.Add(10e6, 80e6), b = lab.lines.Add(10e6, 80e6);
  double done = 0;
  lab.lines.Reserve(a, 4e6);
  lab.lines.Start(a, b, 1.5e6, FlowKind::kFile, [&] { done = lab.now(); });
  lab.events.After(std::chrono::seconds(1), [&] { lab.lines.Reserve(a, 10e6); });
  lab.RunAll();
  EXPECT_NEAR(done, 1 + 6e6 / 2e6, 1e-6);
}

TEST(Lines, StateTakesItsShareOfTheStepsAndWhatTheyLeave) {
  Lab lab;
  const auto a = lab.lines.Add(10e6, 80e6), b = lab.lines.Add(10e6, 80e6);
  const auto c = lab.lines.Add(10e6, 3e6);
  lab.lines.Reserve(a, 10e6);
  lab.lines.ShareState(a, 0.6);
  const auto all = lab.lines.Start(a, b, 1e6, FlowKind::kState, [] {});
  EXPECT_DOUBLE_EQ(lab.lines.RateOf(all), 6e6);
  EXPECT_EQ(lab.lines.StepPercent(a), 40u);
  lab.lines.Cancel(all);
  const auto some = lab.lines.Start(a, c, 1e6, FlowKind::kState, [] {});
  EXPECT_DOUBLE_EQ(lab.lines.RateOf(some), 3e6);
  EXPECT_EQ(lab.lines.StepPercent(a), 70u);
  lab.lines.Cancel(some);
  EXPECT_EQ(lab.lines.StepPercent(a), 100u);
  lab.lines.Reserve(a, 2e6);
  EXPECT_DOUBLE_EQ(lab.lines.RateOf(lab.lines.Start(a, b, 1e6, FlowKind::kState, [] {})), 8e6);
  EXPECT_EQ(lab.lines.StepPercent(a), 40u);
}

TEST(Lines, WhatIsCancelledLeavesTheRest) {
  Lab lab;
  const auto a = lab.lines.Add(8e6, 80e6), b = lab.lines.Add(8e6, 80e6);
  bool arrived = false;
  double other = 0;
  const auto flow = lab.lines.Start(a, b, 1e6, FlowKind::kFile, [&] { arrived = true; });
  lab.lines.Start(a, b, 1e6, FlowKind::kFile, [&] { other = lab.now(); });
  lab.events.After(std::chrono::seconds(1), [&] {
    EXPECT_NEAR(lab.lines.Cancel(flow), 0.5e6, 1);
    EXPECT_EQ(lab.lines.Cancel(flow), 0);
  });
  lab.RunAll();
  EXPECT_FALSE(arrived);
  EXPECT_NEAR(other, 1.5, 1e-6);
}

// Max-min: no line carries more than it can, and each flow has a full line on its way on which none
// is faster.
TEST(Lines, SharesAreMaxMin) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    Lab lab;
    std::vector<double> up, down, used_up(6), used_down(6), most_up(6), most_down(6);
    for (int i = 0; i < 6; ++i) {
      up.push_back(1e6 * (1 + random() % 9));
      down.push_back(1e6 * (1 + random() % 9));
      lab.lines.Add(up.back(), down.back());
    }
    struct Flow {
      Lines::Node from, to;
      Lines::Flow id;
    };
    std::vector<Flow> flows;
    for (int i = 0; i < 12; ++i) {
      const Lines::Node from = random() % 6, to = (from + 1 + random() % 5) % 6;
      flows.push_back({from, to, lab.lines.Start(from, to, 1e9, FlowKind::kFile, [] {})});
    }
    for (const Flow& flow : flows) {
      const double rate = lab.lines.RateOf(flow.id);
      used_up[flow.from] += rate;
      used_down[flow.to] += rate;
      most_up[flow.from] = std::max(most_up[flow.from], rate);
      most_down[flow.to] = std::max(most_down[flow.to], rate);
    }
    for (int i = 0; i < 6; ++i) {
      EXPECT_LE(used_up[i], up[i] * (1 + 1e-9));
      EXPECT_LE(used_down[i], down[i] * (1 + 1e-9));
    }
    for (const Flow& flow : flows) {
      const double rate = lab.lines.RateOf(flow.id) * (1 + 1e-9);
      const bool above =
          used_up[flow.from] >= up[flow.from] * (1 - 1e-9) && rate >= most_up[flow.from];
      const bool below =
          used_down[flow.to] >= down[flow.to] * (1 - 1e-9) && rate >= most_down[flow.to];
      EXPECT_TRUE(above || below) << round;
    }
  }
}

}  // namespace
}  // namespace shoal::daemon
