#include "model/synthetic_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace shoal::model {
namespace {

constexpr std::uint32_t kTokens = 64;
constexpr std::uint32_t kHidden = 96;
constexpr std::size_t kValues = std::size_t{kTokens} * kHidden;

// Time that moves when somebody sleeps, each time a little too far.
class FakeTime : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void SleepUntil(TimePoint when) { now_ = std::max(now_, when) + oversleep; }
  void Pass(Duration duration) { now_ += duration; }
  double elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(now_.time_since_epoch()).count();
  }
  SyntheticTime AsTime() {
    return {this, [this](TimePoint when) { SleepUntil(when); }};
  }

  Duration oversleep{};

 private:
  TimePoint now_{};
};

ModelSpec Spec() {
  ModelSpec spec;
  spec.layer_specs.resize(3);
  spec.hidden = kHidden;
  return spec;
}

std::unique_ptr<StageModel> Stage(std::uint32_t number, FakeTime* time,
                                  SyntheticOptions options = {},
                                  std::shared_ptr<SyntheticMeter> meter = nullptr) {
  StageOptions stage;
  stage.range = {number, number + 1};
  auto made = NewSyntheticStage(Spec(), stage, options, std::move(meter), time->AsTime());
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return made.ok() ? std::move(*made) : nullptr;
}

MicroBatch Batch(std::uint64_t step, std::uint64_t sample, std::span<const float> input) {
  MicroBatch batch;
  batch.id = {step, 0};
  batch.rows = 1;
  batch.tokens = kTokens;
  batch.samples = {SampleId{sample}};
  batch.input = input;
  return batch;
}

// One visit of a sample by a middle stage: what it sends forward and back.
struct Visit {
  std::vector<float> output = std::vector<float>(kValues);
  std::vector<float> gradient = std::vector<float>(kValues);
};

Visit VisitOnce(StageModel* stage, std::uint64_t step, std::uint64_t sample) {
  const std::vector<float> input(kValues, 1.0f);
  Visit visit;
  StepLoss loss;
  const MicroBatch batch = Batch(step, sample, input);
  EXPECT_TRUE(stage->Forward(batch, visit.output, &loss).ok());
  EXPECT_TRUE(stage->BackwardInput(batch.id, input, visit.gradient).ok());
  EXPECT_TRUE(stage->BackwardWeights(batch.id).ok());
  return visit;
}

double Norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  return std::sqrt(sum);
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> difference(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return Norm(difference);
}

TEST(SyntheticStage, TheSameVisitsGiveTheSameBits) {
  FakeTime time;
  const auto a = Stage(1, &time);
  const auto b = Stage(1, &time);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Visit left = VisitOnce(a.get(), step, 7);
    const Visit right = VisitOnce(b.get(), step, 7);
    EXPECT_EQ(left.output, right.output);
    EXPECT_EQ(left.gradient, right.gradient);
  }
}

TEST(SyntheticStage, SamplesAndStagesDiffer) {
  FakeTime time;
  const auto stage = Stage(1, &time);
  const auto first = Stage(0, &time);
  const Visit one = VisitOnce(stage.get(), 0, 1);
  const Visit other = VisitOnce(stage.get(), 1, 2);
  EXPECT_GT(Distance(one.output, other.output), 0.5 * Norm(one.output));
  std::vector<float> output(kValues);
  StepLoss loss;
  ASSERT_TRUE(first->Forward(Batch(0, 1, {}), output, &loss).ok());
  EXPECT_GT(Distance(one.output, output), 0.5 * Norm(one.output));
}

TEST(SyntheticStage, ActivationsChangeByTheGivenPartAndLessEachTime) {
  FakeTime time;
  SyntheticOptions options;
  options.change = 0.1;
  options.change_decay = 0.5;
  const auto stage = Stage(1, &time, options);
  std::vector<std::vector<float>> visits;
  for (std::uint64_t step = 0; step < 4; ++step) {
    visits.push_back(VisitOnce(stage.get(), step, 3).output);
  }
  double expected = 0.1 * std::sqrt((1 + 0.25) / 2);  // of the visits' independent changes
  for (std::size_t i = 1; i < visits.size(); ++i) {
    EXPECT_NEAR(Distance(visits[i], visits[i - 1]) / Norm(visits[i]), expected, 0.1 * expected);
    expected *= 0.5;
  }
}

TEST(SyntheticStage, FewTokensHoldMuchOfAGradient) {
  FakeTime time;
  const auto stage = Stage(1, &time);
  std::vector<double> energies;
  for (std::uint64_t sample = 0; sample < 32; ++sample) {
    const Visit visit = VisitOnce(stage.get(), 0, sample);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      const float* const token = visit.gradient.data() + std::size_t{t} * kHidden;
      energies.push_back(std::inner_product(token, token + kHidden, token, 0.0));
    }
  }
  std::sort(energies.rbegin(), energies.rend());
  const auto tenth = energies.begin() + static_cast<std::ptrdiff_t>(energies.size() / 10);
  const double part = std::accumulate(energies.begin(), tenth, 0.0) /
                      std::accumulate(energies.begin(), energies.end(), 0.0);
  EXPECT_GT(part, 0.38);
  EXPECT_LT(part, 0.58);
}

TEST(SyntheticStage, TimesAddUpHoweverLateASleepEnds) {
  FakeTime time;
  time.oversleep = std::chrono::microseconds(700);
  const auto stage = Stage(1, &time, {.forward_ms = 10, .backward_ms = 30, .weight_ms = 12});
  constexpr int kSteps = 100;
  for (int step = 0; step < kSteps; ++step) {
    VisitOnce(stage.get(), static_cast<std::uint64_t>(step), 0);
  }
  EXPECT_NEAR(time.elapsed_ms(), 40.0 * kSteps, 1.0);  // the last sleep's is still owed
}

TEST(SyntheticStage, WeightsInPartsTakeTheSameTimeInAll) {
  FakeTime time;
  const auto stage =
      Stage(1, &time, {.forward_ms = 10, .backward_ms = 30, .weight_ms = 12, .weight_parts = 3});
  const std::vector<float> input(kValues, 1.0f);
  std::vector<float> output(kValues);
  StepLoss loss;
  const MicroBatch batch = Batch(0, 0, input);
  ASSERT_TRUE(stage->Forward(batch, output, &loss).ok());
  ASSERT_TRUE(stage->BackwardInput(batch.id, input, output).ok());
  EXPECT_NEAR(time.elapsed_ms(), 28, 1e-3);
  for (const double until : {32.0, 36.0, 40.0}) {
    const Result<bool> more = stage->BackwardWeights(batch.id);
    ASSERT_TRUE(more.ok());
    EXPECT_EQ(*more, until < 40);
    EXPECT_NEAR(time.elapsed_ms(), until, 1e-3);
  }
  EXPECT_FALSE(stage->BackwardWeights(batch.id).ok());
}

TEST(SyntheticStage, ASleepThatIsShorterThanWhatIsOwedKeepsTheRest) {
  FakeTime time;
  const auto stage = Stage(1, &time, {.forward_ms = 1, .backward_ms = 2, .weight_ms = 1});
  time.oversleep = std::chrono::milliseconds(5);
  VisitOnce(stage.get(), 0, 0);
  time.oversleep = {};
  for (std::uint64_t step = 1; step < 20; ++step) VisitOnce(stage.get(), step, 0);
  EXPECT_NEAR(time.elapsed_ms(), 3.0 * 20, 1e-3);
}

TEST(SyntheticStage, TimeBetweenOperationsIsNotMadeUpFor) {
  FakeTime time;
  const auto stage = Stage(1, &time, {.forward_ms = 10, .backward_ms = 30, .weight_ms = 12});
  for (std::uint64_t step = 0; step < 10; ++step) {
    VisitOnce(stage.get(), step, 0);
    time.Pass(std::chrono::milliseconds(5));
  }
  EXPECT_NEAR(time.elapsed_ms(), 45.0 * 10, 1e-3);
}

TEST(SyntheticStage, WhatASleepTookTooLongIsForgottenWhileTheStageWaits) {
  FakeTime time;
  const auto stage = Stage(1, &time, {.forward_ms = 10, .backward_ms = 30, .weight_ms = 12});
  for (std::uint64_t step = 0; step < 10; ++step) {
    time.oversleep = std::chrono::milliseconds(1);
    VisitOnce(stage.get(), step, 0);
    time.Pass(std::chrono::milliseconds(5));
  }
  // Each visit ends a millisecond late, which the wait behind it absorbs.
  EXPECT_NEAR(time.elapsed_ms(), 46.0 * 10, 1e-3);
}

TEST(SyntheticStage, LastStageCountsLabelsAndLearnsNothing) {
  FakeTime time;
  const auto stage = Stage(2, &time);
  const std::vector<float> input(kValues);
  std::vector<std::int32_t> labels(kTokens, 5);
  labels.back() = -100;
  MicroBatch batch = Batch(0, 0, input);
  batch.labels = labels;
  StepLoss loss;
  ASSERT_TRUE(stage->Forward(batch, {}, &loss).ok());
  EXPECT_EQ(loss.labels, kTokens - 1);
  EXPECT_EQ(loss.sum, 0);
  EXPECT_EQ(stage->SquaredGradientNorm(1), 0);
}

TEST(SyntheticStage, RefusesWhatNeedsWeights) {
  FakeTime time;
  const auto stage = Stage(1, &time);
  EXPECT_EQ(stage->Save("x").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(stage->Load({{"layer.1", "file"}}, {}).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(stage->Load({}, {}).ok());
  EXPECT_FALSE(stage->Evaluate({}, {}, nullptr).ok());
  EXPECT_FALSE(stage->Logits({}, true, {}).ok());
}

TEST(SyntheticStage, RefusesWrongOrderAndShapes) {
  FakeTime time;
  const auto stage = Stage(1, &time);
  const std::vector<float> input(kValues);
  std::vector<float> output(kValues), small(3);
  StepLoss loss;
  EXPECT_FALSE(stage->BackwardWeights({0, 0}).ok());
  EXPECT_FALSE(stage->BackwardInput({0, 0}, input, output).ok());
  EXPECT_FALSE(stage->Forward(Batch(0, 0, input), small, &loss).ok());
  ASSERT_TRUE(stage->Forward(Batch(0, 0, input), output, &loss).ok());
  EXPECT_FALSE(stage->Forward(Batch(0, 0, input), output, &loss).ok());
  EXPECT_FALSE(stage->BackwardWeights({0, 0}).ok());
  EXPECT_FALSE(stage->BackwardInput({0, 0}, small, output).ok());
  ASSERT_TRUE(stage->BackwardInput({0, 0}, input, output).ok());
  EXPECT_TRUE(stage->BackwardWeights({0, 0}).ok());
}

TEST(SyntheticStage, CountsTheCpuOfItsValues) {
  FakeTime time;
  auto meter = std::make_shared<SyntheticMeter>();
  const auto stage = Stage(1, &time, {}, meter);
  for (std::uint64_t step = 0; step < 50; ++step) VisitOnce(stage.get(), step, 0);
  EXPECT_GT(meter->cpu_ns.load(), 0u);
}

TEST(SyntheticStage, ChecksItsOptions) {
  const auto make = [](const SyntheticOptions& options, StageRange range) {
    StageOptions stage;
    stage.range = range;
    return NewSyntheticStage(Spec(), stage, options, nullptr).status().code();
  };
  EXPECT_EQ(make({}, {0, 1}), StatusCode::kOk);
  EXPECT_EQ(make({}, {2, 4}), StatusCode::kInvalidArgument);
  EXPECT_EQ(make({.forward_ms = -1}, {0, 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(make({.forward_ms = std::nan("")}, {0, 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(make({.backward_ms = 1, .weight_ms = 2}, {0, 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(make({.change = 2}, {0, 1}), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal::model
