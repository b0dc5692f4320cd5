#include "daemon/churn/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/file.h"

namespace shoal::daemon {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Two stages in two pipelines, on lines that carry their state in minutes.
ChurnSettings Settings() {
  ChurnSettings settings;
  settings.stages = 2;
  settings.pipelines = 2;
  settings.micro_batches = 4;
  settings.train_rows = 64;
  settings.checkpoint_every = 10;
  settings.upload = BitsPerSecond{1'000'000'000};
  settings.download = BitsPerSecond{1'000'000'000};
  return settings;
}

// `machines` come at once; then who is named goes or a new one comes.
ChurnTrace Trace(std::uint32_t machines, const std::vector<ChurnEvent>& later, Duration length) {
  ChurnTrace trace;
  for (std::uint32_t i = 0; i < machines; ++i) trace.events.push_back({Duration::zero(), true, i});
  trace.events.insert(trace.events.end(), later.begin(), later.end());
  trace.length = length;
  trace.machines = machines;
  for (const ChurnEvent& event : later) trace.machines += event.comes;
  trace.named = machines;
  return trace;
}

ChurnResult Simulate(const ChurnTrace& trace, const ChurnSettings& settings) {
  const auto result = SimulateChurn(trace, settings, BalanceCheck::kAfterEachEvent);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? *result : ChurnResult{};
}

const ChurnTrace kBusy = Trace(5,
                               {{minutes(20), false, 1},
                                {minutes(25), true, 5},
                                {minutes(40), false, 0},
                                {minutes(40), false, 2},
                                {minutes(41), true, 6},
                                {minutes(60), false, 4},
                                {minutes(62), true, 7}},
                               hours(2));

TEST(ChurnSimulation, WithoutChurnNothingIsLost) {
  const ChurnResult result = Simulate(Trace(4, {}, hours(1)), Settings());
  EXPECT_GT(result.balance.steps, 500u);
  EXPECT_NEAR(result.goodput, 1.0, 1e-6);
  EXPECT_NEAR(result.balance.slower, 0, 1e-3);
  EXPECT_EQ(result.balance.first_visits, 0);
  EXPECT_EQ(result.plans, 0u) << "but the first one";
  EXPECT_EQ(result.deltas, result.visits);
  EXPECT_GT(result.visits, 0u);
  EXPECT_GT(result.checkpoints, 3u);
}

TEST(ChurnSimulation, ASpareIsIdleAndNothingElseIsLost) {
  const ChurnResult result = Simulate(Trace(5, {}, hours(1)), Settings());
  EXPECT_NEAR(result.goodput, 0.8, 1e-3);
  EXPECT_NEAR(result.balance.Share(result.balance.idle), 0.2, 1e-3);
}

TEST(ChurnSimulation, ThePartsAreTheWholeWhateverHappens) {
  for (const bool silent : {false, true}) {
    ChurnSettings settings = Settings();
    settings.silent = silent;
    const ChurnResult result = Simulate(kBusy, settings);
    const Balance& balance = result.balance;
    EXPECT_NEAR(balance.Parts(), balance.all, 1e-6 * balance.all);
    EXPECT_LE(balance.all, result.presence);
    EXPECT_GT(balance.steps, 100u);
    EXPECT_GT(result.plans, 1u);
    EXPECT_GT(balance.detection, 0);
    EXPECT_GT(balance.transfer, 0);
    EXPECT_GT(result.deltas, result.visits / 4);
    EXPECT_LT(result.deltas, result.visits);
    // But for first visits of the first epoch and checkpoints, which take a while without churn.
    const double least = static_cast<double>(balance.micro_batches) * settings.stages *
                         result.step_seconds / settings.micro_batches / balance.all;
    EXPECT_GT(result.goodput, 0.99 * least);
    EXPECT_LT(result.goodput, 1.1 * least);
    EXPECT_EQ(result.deaths, 4u);
    EXPECT_EQ(result.comings, 3u);
    EXPECT_LT(result.goodput,
              WholePipelines(kBusy, settings.stages, settings.pipelines, {}) + 0.01);
  }
}

TEST(ChurnSimulation, SilenceTakesLongerToNotice) {
  ChurnSettings settings = Settings();
  const ChurnTrace trace = Trace(5, {{minutes(20), false, 1}}, minutes(40));
  const double heard = Simulate(trace, settings).balance.detection;
  settings.silent = true;
  const double silent = Simulate(trace, settings).balance.detection;
  // Of at least one pipeline and its neighbours, for three heartbeats.
  EXPECT_GT(silent, heard + 2 * 3);
}

TEST(ChurnSimulation, ASeedRepeats) {
  const ChurnResult one = Simulate(kBusy, Settings()), two = Simulate(kBusy, Settings());
  EXPECT_EQ(one.goodput, two.goodput);
  EXPECT_EQ(one.balance.all, two.balance.all);
  EXPECT_EQ(one.balance.slower, two.balance.slower);
  EXPECT_EQ(one.balance.steps, two.balance.steps);
  EXPECT_EQ(one.plans, two.plans);
}

TEST(ChurnSimulation, ARunThatNeverBeginsIsIdle) {
  ChurnSettings settings = Settings();
  settings.stages = 4;
  const ChurnResult result = Simulate(Trace(3, {}, minutes(30)), settings);
  EXPECT_EQ(result.goodput, 0);
  EXPECT_NEAR(result.balance.Share(result.balance.idle), 1, 1e-9);
  EXPECT_NEAR(result.balance.all, 3 * 1800, 1e-6);
}

TEST(ChurnSimulation, WhenAllGoStepsSinceTheCheckpointAreTrainedAgain) {
  std::vector<ChurnEvent> later;
  for (std::uint32_t i = 0; i < 4; ++i) later.push_back({minutes(30), false, i});
  for (std::uint32_t i = 4; i < 8; ++i) later.push_back({minutes(35), true, i});
  const ChurnResult result = Simulate(Trace(4, later, hours(1)), Settings());
  EXPECT_GT(result.balance.repeated_steps, 0u);
  EXPECT_GT(result.balance.repeated, 0);
  EXPECT_GT(result.balance.first_visits, 0) << "nobody has m";
  EXPECT_GT(result.balance.steps, 300u);
}

TEST(ChurnSimulation, SettingsThatFitNoRunAreErrors) {
  ChurnSettings settings = Settings();
  settings.stages = 49;
  EXPECT_EQ(SimulateChurn(kBusy, settings).status().code(), StatusCode::kInvalidArgument);
  settings = Settings();
  settings.train_rows = 7;
  EXPECT_EQ(SimulateChurn(kBusy, settings).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal::daemon
