// Steps with sharded optimizer state, next to plain loops over values.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/unit/replica/qsdp_members.h"

namespace shoal::replica {
namespace {

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
    reference.Step(members.Counted(), step, members.Clip());
    ExpectNear(members.Get(StateVector::kWeights), reference.w, 2e-6);
    EXPECT_NEAR(**members.norms_[0], reference.squared_norm, 1e-5 * reference.squared_norm);
    EXPECT_LT(members.Clip(), 0.7) << "the norm of the mean is not above what is allowed";
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
  Members members(
      3, Method(std::string("gradients=32,weights=4") + (delta ? ",delta=true" : ",delta=false")));
  MixedStage& stage = *members.models_[0];
  Reference reference(&stage);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const Values before = members.Get(StateVector::kWeights);
    members.Step(step, step == 3);
    reference.Step(members.Counted(), step, members.Clip());
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
  reference.Step(members.Counted(), 0, members.Clip());
  const Values m = members.Get(StateVector::kFirstMoment),
               v = members.Get(StateVector::kSecondMoment);
  const double factor = (1 - stage.options().optimizer.beta1) * members.Clip() / kLabels;
  double worst = 0;
  ForBuckets(stage, [&](std::span<const std::size_t> bucket) {
    double bound = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      const Values gradient = GradientOf(r, 0, m.size());
      double most = 0;
      for (const std::size_t i : bucket) most = std::max(most, std::abs(double{gradient[i]}));
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
    Members members(3, Method(std::string("gradients=32,weights=3,delta=false") +
                              (learned ? ",levels=learned,learn=1" : "")));
    Reference reference(members.models_[0].get());
    for (std::uint64_t step = 0; step < 3; ++step) {
      members.Step(step);
      reference.Step(members.Counted(), step, members.Clip());
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
  Members members(2, Method("weights=3,gradients=4,delta=false,levels=learned,learn=1"));
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

TEST(QsdpStepTest, AGradientThatIsNotFiniteMarksItsMemberAndEndsNothing) {
  for (const char* options : {"weights=8,gradients=8", "weights=32,gradients=32"}) {
    Members members(2, Method(options));
    const Values weights = members.Get(StateVector::kWeights);
    members.BeginReduce(0, false);
    ASSERT_TRUE(members.models_[1]->Write(StateVector::kGradients, 5, Values{NAN}).ok());
    members.world_.RunUntil([&] { return members.Reduced(); }, std::chrono::hours(1));
    for (std::size_t r = 0; r < 2; ++r) {
      ASSERT_TRUE(members.norms_[r].has_value() && members.norms_[r]->ok());
      EXPECT_TRUE(std::isfinite(**members.norms_[r]));
      EXPECT_EQ(**members.norms_[r], **members.norms_[0]);
      EXPECT_EQ(members.members_[r]->mark->lost(), r == 1);
    }
    EXPECT_EQ(members.Get(StateVector::kWeights), weights);
  }
}

TEST(QsdpStepTest, AGradientAMillionTimesTooLargeIsBlamedOnItsSender) {
  for (const char* options : {"weights=8,gradients=8", "weights=32,gradients=32"}) {
    for (const float factor : {1e3F, 1e6F}) {
      Members members(3, Method(options));
      members.BeginReduce(0, false);
      Values gradient = GradientOf(1, 0, members.models_[1]->state_size());
      for (float& value : gradient) value *= factor;
      ASSERT_TRUE(members.models_[1]->Write(StateVector::kGradients, 0, gradient).ok());
      members.Settle();
      std::set<std::size_t> blamed;
      for (const MemoryGroup::Blame& blame : members.group_->blamed) blamed.insert(blame.of);
      EXPECT_EQ(blamed, factor > 1e5F ? std::set<std::size_t>{1} : std::set<std::size_t>{})
          << options;
      EXPECT_EQ(members.Reduced(), factor < 1e5F);
    }
  }
}

}  // namespace
}  // namespace shoal::replica
