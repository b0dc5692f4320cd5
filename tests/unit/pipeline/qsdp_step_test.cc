// Steps with sharded optimizer state, next to plain loops over values.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <set>

#include "pipeline/replica_step.h"
#include "tests/support/memory_group.h"
#include "tests/support/tiny_stage.h"

namespace shoal::pipeline {
namespace {

using model::StateVector;
using test_support::MemoryGroup;
using test_support::SimWorld;
using test_support::TinyShape;
using test_support::TinyStage;
using Values = std::vector<float>;

constexpr double kRate = 1e-2, kClip = 1.0;
constexpr std::uint64_t kLabels = 50;
constexpr std::size_t kFirst = 3200, kBias = 176, kSmall = 100;
constexpr std::size_t kBucket = 64;

// Matrices, a bias and a matrix of few values, in the weights of a TinyStage.
class MixedStage final : public TinyStage {
 public:
  MixedStage()
      : TinyStage(TinyShape{.hidden = 32, .vocabulary = 40, .clip_norm = kClip}, {0, 4}, 5) {
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    for (float& weight : weights()) weight = normal(random);
    const auto add = [this](std::size_t size, std::vector<std::size_t> shape) {
      const std::size_t offset = layout_.empty() ? 0 : layout_.back().offset + layout_.back().size;
      layout_.push_back({"tensor", offset, size, std::move(shape)});
    };
    add(kFirst, {kFirst / 32, 32});
    add(kBias, {kBias});
    add(kSmall, {10, 10});
    const std::size_t rest = state_size() - kFirst - kBias - kSmall;
    add(rest, {1, rest});
  }
  std::span<const model::TensorLayout> layout() const override { return layout_; }

  Values Get(StateVector which) {
    Values values(state_size());
    EXPECT_TRUE(Read(which, 0, values).ok());
    return values;
  }
  bool Decays(std::size_t i) const { return i < kFirst || i >= kFirst + kBias; }
  // What travels in fp32 with raw_below=200.
  bool Raw(std::size_t i) const { return i >= kFirst && i < kFirst + kBias + kSmall; }

 private:
  std::vector<model::TensorLayout> layout_;
};

// Of a member in a step; the first row of the first tensor is never touched.
Values GradientOf(std::size_t member, std::uint64_t step, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + member));
  std::normal_distribution<float> normal;
  Values gradient(count);
  for (std::size_t i = 0; i < count; ++i) gradient[i] = i < 32 ? 0.0F : normal(random);
  return gradient;
}

// Norms as the scheduler says them; so that the clip factor of member 1 is a half.
double LocalNorm(std::size_t member) { return member == 1 ? 2 * kClip : 0.5 * kClip; }
double ClipOf(std::size_t member) { return member == 1 ? kClip / (2 * kClip + 1e-6) : 1; }

// AdamW of the summed gradients, in fp64, value by value.
struct Reference {
  explicit Reference(MixedStage* model) : stage(model) {
    const Values weights = model->Get(StateVector::kWeights);
    w.assign(weights.begin(), weights.end());
    m.assign(w.size(), 0);
    v.assign(w.size(), 0);
  }
  void Step(const std::vector<std::size_t>& members, std::uint64_t step) {
    squared_norm = 0;
    const model::OptimizerOptions& o = stage->options().optimizer;
    std::vector<double> sum(w.size());
    for (const std::size_t member : members) {
      const Values gradient = GradientOf(member, step, w.size());
      for (std::size_t i = 0; i < w.size(); ++i) sum[i] += ClipOf(member) * gradient[i];
    }
    const double count = static_cast<double>(step) + 1;
    for (std::size_t i = 0; i < w.size(); ++i) {
      squared_norm += sum[i] * sum[i];
      const double g = sum[i] / kLabels;
      if (stage->Decays(i)) w[i] -= kRate * o.weight_decay * w[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      w[i] -= kRate * (m[i] / (1 - std::pow(o.beta1, count))) /
              (std::sqrt(v[i] / (1 - std::pow(o.beta2, count))) + o.epsilon);
    }
  }
  MixedStage* stage;
  std::vector<double> w, m, v;
  double squared_norm = 0;
};

// A stage group whose members have models of their own, and steps of one generation.
class Members {
 public:
  Members(std::size_t count, const std::string& method, std::vector<std::uint32_t> lans = {})
      : method_(method), lans_(std::move(lans)) {
    for (std::size_t r = 0; r < count; ++r) models_.push_back(std::make_unique<MixedStage>());
    Open();
  }
  ~Members() { Close(); }

  // A new generation, of the first `count` members.
  void Open(std::size_t count = 0) {
    Close();
    ++generation_;
    if (count > 0) models_.resize(count);
    control_ = world_.NewExecutor("control", [](const char*) { return Duration(1000); });
    compute_ = world_.NewExecutor("compute", [](const char*) { return Duration(1000); });
    group_ = std::make_unique<MemoryGroup>(&world_, control_.get(), models_.size(), [this] {
      return Duration(1000 * (1 + random_() % 50));
    });
    const auto method = compression::ParseReplicaMethod(method_);
    ASSERT_TRUE(method.ok()) << method.status().ToString();
    for (std::size_t r = 0; r < models_.size(); ++r) {
      RunnerConfig config;
      config.seed = 3;
      config.steps = 100;
      config.generation = generation_;
      config.pipeline = static_cast<std::uint32_t>(r);
      config.pipelines = static_cast<std::uint32_t>(models_.size());
      config.lans = lans_;
      StageRunner::Dependencies deps;
      deps.control = control_.get();
      deps.compute = compute_.get();
      deps.model = models_[r].get();
      cores_.push_back(std::make_unique<RunnerCore>(config, deps));
      const auto layout = models_[r]->layout();
      ReplicaContext context{cores_.back().get(), nullptr, {}, *method};
      context.parts.push_back(
          MakeReplicaPart({layout.begin(), layout.end()}, group_->member(r), false));
      auto step = NewReplicaStep(std::move(context));
      ASSERT_TRUE(step.ok()) << step.status().ToString();
      steps_.push_back(std::move(*step));
    }
  }
  void Close() {
    steps_.clear();
    world_.RunUntil([] { return false; }, std::chrono::hours(1));  // what was posted
    group_.reset();
    cores_.clear();
  }

  ReduceOrder OrderOf(std::uint64_t step, bool checkpoint) const {
    ReduceOrder order;
    order.step = step;
    order.labels = kLabels;
    order.learning_rate = kRate;
    order.checkpoint = checkpoint;
    for (std::size_t r = 0; r < models_.size(); ++r) {
      order.local_norms.push_back(LocalNorm(r));
      if (!left_out_.contains(r)) order.pipelines.push_back(static_cast<std::uint32_t>(r));
    }
    return order;
  }
  void BeginReduce(std::uint64_t step, bool checkpoint) {
    norms_.assign(models_.size(), std::nullopt);
    for (std::size_t r = 0; r < models_.size(); ++r) {
      const Values gradient = GradientOf(r, step, models_[r]->state_size());
      ASSERT_TRUE(models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
      control_->Post("reduce", [this, r, order = OrderOf(step, checkpoint)] {
        steps_[r]->Reduce(order, [this, r](Result<double> norm) { norms_[r] = std::move(norm); });
      });
    }
  }
  // Whether all members have the result of the step.
  bool Reduced() const {
    return std::all_of(norms_.begin(), norms_.end(),
                       [](const auto& norm) { return norm.has_value(); });
  }
  void Step(std::uint64_t step, bool checkpoint = false) {
    BeginReduce(step, checkpoint);
    ASSERT_TRUE(world_.RunUntil([this] { return Reduced(); }, std::chrono::hours(1)));
    std::size_t applied = 0;
    for (std::size_t r = 0; r < models_.size(); ++r) {
      ASSERT_TRUE(norms_[r]->ok()) << norms_[r]->status().ToString();
      EXPECT_EQ(**norms_[r], **norms_[0]);
      control_->Post("apply", [&, r] {
        steps_[r]->Apply({step, 0, kRate, kLabels}, [&](const Status& status) {
          EXPECT_TRUE(status.ok()) << status.ToString();
          ++applied;
        });
      });
    }
    ASSERT_TRUE(world_.RunUntil([&] { return applied == models_.size(); }, std::chrono::hours(1)));
    for (std::size_t r = 1; r < models_.size(); ++r) {
      EXPECT_EQ(models_[r]->WeightChecksum(), models_[0]->WeightChecksum());
    }
  }
  std::vector<std::size_t> Counted() const {
    std::vector<std::size_t> counted;
    for (std::size_t r = 0; r < models_.size(); ++r) {
      if (!left_out_.contains(r)) counted.push_back(r);
    }
    return counted;
  }
  Values Get(StateVector which, std::size_t member = 0) { return models_[member]->Get(which); }

  SimWorld world_;
  std::mt19937 random_{4};
  const std::string method_;
  const std::vector<std::uint32_t> lans_;  // of the plan
  std::uint64_t generation_ = 0;
  std::vector<std::unique_ptr<MixedStage>> models_;
  std::unique_ptr<Executor> control_, compute_;
  std::unique_ptr<MemoryGroup> group_;
  std::vector<std::unique_ptr<RunnerCore>> cores_;
  std::vector<std::unique_ptr<ReplicaStep>> steps_;
  std::vector<std::optional<Result<double>>> norms_;
  std::set<std::size_t> left_out_;
};

std::string Method(const std::string& options) {
  return "qsdp:bucket=" + std::to_string(kBucket) + ",raw_below=200," + options;
}

void ExpectNear(const Values& values, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
}

struct Shape {
  std::size_t members;
  const char* lan;
};
class Exact : public testing::TestWithParam<Shape> {};

TEST_P(Exact, EqualsAdamWOfTheSumWhoeverOwnsWhat) {
  const auto& [count, lan] = GetParam();
  Members members(count, Method(std::string("weights=32,gradients=32,lan=") + lan));
  Reference reference(members.models_[0].get());
  for (std::uint64_t step = 0; step < 5; ++step) {
    const bool checkpoint = step == 2;
    // Who does not count in a step owns its shard all the same.
    members.left_out_.clear();
    if (step == 3) members.left_out_.insert(1);
    members.Step(step, checkpoint);
    reference.Step(members.Counted(), step);
    ExpectNear(members.Get(StateVector::kWeights), reference.w, 2e-6);
    EXPECT_NEAR(**members.norms_[0], reference.squared_norm, 1e-5 * reference.squared_norm);
    EXPECT_EQ(members.Get(StateVector::kGradients), Values(reference.w.size()));
    if (!checkpoint) continue;
    for (std::size_t r = 0; r < count; ++r) {
      ExpectNear(members.Get(StateVector::kFirstMoment, r), reference.m, 1e-6);
      ExpectNear(members.Get(StateVector::kSecondMoment, r), reference.v, 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Members, Exact,
                         testing::Values(Shape{2, "none"}, Shape{3, "none"}, Shape{4, "none"},
                                         Shape{7, "none"}, Shape{2, "0-1"}, Shape{3, "1-2"},
                                         Shape{5, "0-1/2-4"}));

// What the plan says counts as what the method names; nothing in it: nobody shares one.
TEST(QsdpStepTest, LansOfThePlanAreLikeNamedOnes) {
  struct Case {
    std::vector<std::uint32_t> planned;
    const char* named;
  };
  for (const Case& one : {Case{{1, 1, 2, 2, 2}, "0-1/2-4"}, Case{{0, 7, 7, 0, 0}, "1-2"},
                          Case{{}, "none"}, Case{{0, 0, 0, 0, 0}, "none"}}) {
    SCOPED_TRACE(one.named);
    const std::string bits = "weights=8,gradients=4,lan=";
    Members planned(5, Method(bits + "auto"), one.planned);
    Members named(5, Method(bits + one.named));
    for (std::uint64_t step = 0; step < 3; ++step) {
      planned.Step(step);
      named.Step(step);
      EXPECT_EQ(planned.Get(StateVector::kWeights), named.Get(StateVector::kWeights));
    }
  }
}

// The places of a vector without those that travel in fp32, as the exchange sees it.
std::vector<std::size_t> QuantisedPlaces(const MixedStage& stage) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < stage.state_size(); ++i) {
    if (!stage.Raw(i)) places.push_back(i);
  }
  return places;
}

// Calls `check` with the places of each bucket.
template <typename Check>
void ForBuckets(const MixedStage& stage, const Check& check) {
  const std::vector<std::size_t> places = QuantisedPlaces(stage);
  for (std::size_t first = 0; first < places.size(); first += kBucket) {
    const std::size_t count = std::min(kBucket, places.size() - first);
    check(std::span(places).subspan(first, count));
  }
}

// Half a step of the grid that a bucket of `sent` has.
double HalfStep(std::span<const std::size_t> bucket, const std::vector<double>& sent, int bits) {
  double low = INFINITY, high = -INFINITY;
  for (const std::size_t i : bucket) {
    low = std::min(low, sent[i]);
    high = std::max(high, sent[i]);
  }
  // Zeros fill the last bucket.
  if (bucket.size() < kBucket) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
  }
  return 0.5 * (high - low) / ((1 << bits) - 1);
}

class Shifted : public testing::TestWithParam<bool> {};

TEST_P(Shifted, WeightsAreWithinHalfAStepOfTheOwnersAndExactWhenSaved) {
  const bool delta = GetParam();
  Members members(3, Method(std::string("gradients=32,weights=4") + (delta ? ",delta=true" : "")));
  MixedStage& stage = *members.models_[0];
  Reference reference(&stage);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const Values before = members.Get(StateVector::kWeights);
    members.Step(step, step == 3);
    reference.Step(members.Counted(), step);
    const Values weights = members.Get(StateVector::kWeights);
    if (step == 3) {
      ExpectNear(weights, reference.w, 2e-6);
      continue;
    }
    std::vector<double> sent = reference.w;
    for (std::size_t i = 0; delta && i < sent.size(); ++i) sent[i] -= before[i];
    double errors = 0, most = 0, count = 0;
    ForBuckets(stage, [&](std::span<const std::size_t> bucket) {
      const double half = HalfStep(bucket, sent, 4);
      for (const std::size_t i : bucket) {
        const double error = weights[i] - reference.w[i];
        ASSERT_LE(std::abs(error), half * 1.02 + 1e-5) << i;
        errors += error;
        most = std::max(most, std::abs(error));
        ++count;
      }
      // Of mean 0 with one draw a bucket: half a step is 1.7 standard deviations.
      ASSERT_LE(std::abs(errors), 5 * half * std::sqrt(count * kBucket));
    });
    EXPECT_GT(most, 1e-4) << "nothing was quantised";
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (stage.Raw(i)) {
        ASSERT_NEAR(weights[i], reference.w[i], 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WeightsOrChanges, Shifted, testing::Bool());

TEST(QsdpStepTest, GradientsInBitsAreWithinAStepPerMemberAndZerosStayZero) {
  Members members(3, Method("gradients=8,weights=32"));
  MixedStage& stage = *members.models_[0];
  Reference reference(&stage);
  members.Step(0, true);
  reference.Step(members.Counted(), 0);
  const Values m = members.Get(StateVector::kFirstMoment),
               v = members.Get(StateVector::kSecondMoment);
  const double factor = (1 - stage.options().optimizer.beta1) / kLabels;
  double worst = 0;
  ForBuckets(stage, [&](std::span<const std::size_t> bucket) {
    double bound = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      const Values gradient = GradientOf(r, 0, m.size());
      double most = 0;
      for (const std::size_t i : bucket) most = std::max(most, std::abs(ClipOf(r) * gradient[i]));
      bound += most * (1 + 1.0 / 128) / 127;  // a scale is rounded up to bf16
    }
    for (const std::size_t i : bucket) {
      const double error = std::abs(m[i] - reference.m[i]);
      ASSERT_LE(error, factor * bound * 1.001) << i;
      worst = std::max(worst, error / (factor * bound));
    }
  });
  EXPECT_GT(worst, 0.3) << "nothing was quantised";
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(m[i], 0);
    EXPECT_EQ(v[i], 0);
  }
  for (std::size_t i = 0; i < m.size(); ++i) {
    if (stage.Raw(i)) {
      ASSERT_NEAR(m[i], reference.m[i], 1e-8);
    }
  }
}

class Methods : public testing::TestWithParam<const char*> {};

TEST_P(Methods, ANewGenerationFromACheckpointContinuesBitForBit) {
  Members members(3, Method(GetParam())), again(3, Method(GetParam()));
  for (std::uint64_t step = 0; step < 6; ++step) {
    members.Step(step, step == 2);
    again.Step(step, step == 2);
    if (step == 2) again.Open();
    ASSERT_EQ(again.models_[0]->WeightChecksum(), members.models_[0]->WeightChecksum()) << step;
  }
}

TEST_P(Methods, AnAbortAtAnyMessageLeavesTheModelsAsTheyWere) {
  Members fresh(2, Method(GetParam()));
  fresh.Step(0, true);
  fresh.Step(1, true);
  // All of three members before Apply.
  std::size_t messages = 0;
  Members whole(3, Method(GetParam()));
  whole.group_->tap = [&](MemoryGroup::Message*) { return ++messages > 0; };
  whole.BeginReduce(0, true);
  ASSERT_TRUE(whole.world_.RunUntil([&] { return whole.Reduced(); }, std::chrono::hours(1)));
  for (std::size_t last = 0; last < messages; last += 5) {
    SCOPED_TRACE("message " + std::to_string(last));
    Members members(2, Method(GetParam()));
    members.Step(0, true);
    members.models_.push_back(std::make_unique<MixedStage>());
    for (const StateVector which :
         {StateVector::kWeights, StateVector::kFirstMoment, StateVector::kSecondMoment}) {
      ASSERT_TRUE(members.models_[2]->Write(which, 0, members.Get(which)).ok());
    }
    members.Open();
    const Values weights = members.Get(StateVector::kWeights);
    std::size_t sent = 0;
    members.group_->tap = [&](MemoryGroup::Message*) { return ++sent <= last; };
    members.BeginReduce(1, true);
    members.world_.RunUntil([&] { return members.Reduced(); }, std::chrono::hours(1));
    ASSERT_GT(sent, last);
    ASSERT_FALSE(members.Reduced());
    members.group_->tap = nullptr;
    members.Open(2);
    EXPECT_EQ(members.Get(StateVector::kWeights), weights);
    members.Step(1, true);
    for (const StateVector which :
         {StateVector::kWeights, StateVector::kFirstMoment, StateVector::kSecondMoment}) {
      EXPECT_EQ(members.Get(which, 1), fresh.Get(which));
    }
  }
  EXPECT_GT(messages, 15u);
}

INSTANTIATE_TEST_SUITE_P(All, Methods,
                         testing::Values("weights=8,gradients=8", "delta=true,gradients=4",
                                         "weights=32,gradients=2",
                                         "weights=8,gradients=8,lan=0-1"));

TEST(QsdpStepTest, WhatAMemberHoldsShrinksWithTheGroup) {
  for (const std::size_t count : {2, 3, 4, 8}) {
    Members members(count, Method("weights=8,gradients=8"));
    const std::uint64_t all = members.models_[0]->state_size() * 3 * sizeof(float);
    std::uint64_t sum = 0;
    for (const auto& step : members.steps_) {
      // Two vectors, each cut at the next bucket.
      EXPECT_NEAR(static_cast<double>(step->StateBytes()), static_cast<double>(all / count),
                  2.0 * kBucket * 3 * sizeof(float));
      sum += step->StateBytes();
    }
    EXPECT_EQ(sum, all);
  }
}

TEST(QsdpStepTest, LearnedLevelsMissLess) {
  double errors[2] = {};
  for (const bool learned : {false, true}) {
    Members members(3, Method(std::string("gradients=32,weights=3") +
                              (learned ? ",levels=learned,learn=1" : "")));
    Reference reference(members.models_[0].get());
    for (std::uint64_t step = 0; step < 3; ++step) {
      members.Step(step);
      reference.Step(members.Counted(), step);
    }
    const Values weights = members.Get(StateVector::kWeights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      errors[learned] += std::pow(weights[i] - reference.w[i], 2);
    }
  }
  // Weights have a Gaussian's distribution, of which 3 bits learn a quarter and more.
  EXPECT_LT(errors[1], 0.8 * errors[0]);
}

TEST(QsdpStepTest, AGenerationBehindALearningStepLearnsAtItsFirst) {
  Members members(2, Method("weights=3,gradients=4,levels=learned,learn=1"));
  std::uint64_t counts = 0;
  const auto messages = [&](std::uint64_t step) {
    counts = 0;
    members.group_->tap = [&](MemoryGroup::Message*) { return ++counts > 0; };
    members.Step(step, step == 2);
    return counts;
  };
  const std::uint64_t plain = messages(0), learning = messages(1);
  EXPECT_GT(learning, plain);
  EXPECT_GT(messages(2), plain) << "moments are gathered";
  members.Open();
  EXPECT_EQ(messages(3), learning);
  EXPECT_EQ(messages(4), plain);
}

TEST(QsdpStepTest, AGradientThatIsNotFiniteEndsTheStepForAll) {
  for (const char* options : {"weights=8,gradients=8", "weights=32,gradients=32"}) {
    Members members(2, Method(options));
    const Values weights = members.Get(StateVector::kWeights);
    members.BeginReduce(0, false);
    ASSERT_TRUE(members.models_[1]->Write(StateVector::kGradients, 5, Values{NAN}).ok());
    members.world_.RunUntil([&] { return members.Reduced(); }, std::chrono::hours(1));
    std::size_t failed = 0;
    for (const auto& norm : members.norms_) {
      if (!norm) continue;
      EXPECT_FALSE(norm->ok());
      EXPECT_NE(norm->status().message().find("finite"), std::string::npos)
          << norm->status().ToString();
      ++failed;
    }
    EXPECT_GE(failed, 1u);
    EXPECT_EQ(members.Get(StateVector::kWeights), weights);
  }
}

}  // namespace
}  // namespace shoal::pipeline
