#include "replica/collective/power_sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/compression/matrix_reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::collective {
namespace {

namespace reference = compression::reference;
using compression::AtEveryLevel;
using compression::MatrixShape;
using reference::Normal;
using testing::HasSubstr;
using Values = std::vector<float>;

constexpr MatrixShape kShape{36, 28};
constexpr std::uint32_t kRank = 4;
constexpr FactorKey kKey{5, 2, 1};

Values Mean(const std::vector<Values>& of) {
  Values mean(of[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const Values& one : of) sum += one[i];
    mean[i] = static_cast<float>(sum / static_cast<double>(of.size()));
  }
  return mean;
}

// A stage group of equal weights that exchanges one tensor.
struct Group {
  explicit Group(std::size_t members, MatrixShape shape = kShape)
      : states(members, NewPowerSgdState(shape, kRank, kKey)) {}

  // What every member decodes.
  Values Step(const std::vector<Values>& gradients, std::uint64_t step) {
    std::vector<PowerSgdStep> steps;
    std::vector<Values> factors, decoded(states.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      steps.push_back(PowerSgdStep::Begin(gradients[i], states[i], kKey, step).value());
      factors.emplace_back(steps[i].p().begin(), steps[i].p().end());
    }
    mean_p = Mean(factors);
    for (std::size_t i = 0; i < states.size(); ++i) factors[i] = steps[i].Continue(mean_p).value();
    mean_q = Mean(factors);
    for (std::size_t i = 0; i < states.size(); ++i) {
      decoded[i].resize(gradients[i].size());
      states[i] = steps[i].Finish(mean_q, decoded[i]).value();
      EXPECT_EQ(decoded[i], decoded[0]);
      EXPECT_EQ(states[i].q, states[0].q);
    }
    return decoded[0];
  }

  Values MeanResidual() const {
    std::vector<Values> residuals;
    for (const auto& state : states) residuals.push_back(state.residual);
    return Mean(residuals);
  }

  std::vector<PowerSgdState> states;
  Values mean_p, mean_q;
};

std::vector<Values> Gradients(std::size_t members, std::uint64_t seed, float size = 1) {
  std::vector<Values> gradients;
  for (std::size_t i = 0; i < members; ++i) {
    gradients.push_back(Normal(kShape.values(), seed * 10 + i));
    for (std::size_t v = 0; v < kShape.values(); ++v) {
      gradients[i][v] *= size / static_cast<float>(1 + v % kShape.columns);
    }
  }
  return gradients;
}

double Norm(const Values& values) {
  return reference::Norm(std::vector<double>(values.begin(), values.end()));
}

TEST(PowerSgd, OneStepIsTheProjectionOfTheMeanInDouble) {
  Group group(3);
  const auto gradients = Gradients(3, 1);
  // Q as drawn spans the same as Q made orthonormal, so that no such step is needed here.
  const reference::Matrix mean(Mean(gradients), kShape.rows);
  const reference::Matrix q(NewPowerSgdState(kShape, kRank, kKey).q, kShape.columns);
  const reference::Matrix p = reference::Orthonormal(Product(mean, q));
  const auto want = Product(p, Product(Transposed(p), mean));
  EXPECT_LT(reference::RelativeDistance(group.Step(gradients, 10), want), 2e-6);
}

TEST(PowerSgd, AMeanOfLowRankArrivesAsItIsAlthoughTheMembersDiffer) {
  const auto u = Normal(kShape.rows * kRank, 1), v = Normal(kShape.columns * kRank, 2);
  const auto apart = Normal(kShape.values(), 3);
  std::vector<Values> gradients(2, Values(kShape.values()));
  for (std::size_t i = 0; i < kShape.values(); ++i) {
    float x = 0;
    for (std::size_t k = 0; k < kRank; ++k) {
      x += u[i / kShape.columns * kRank + k] * v[i % kShape.columns * kRank + k];
    }
    gradients[0][i] = x + apart[i];
    gradients[1][i] = x - apart[i];
  }
  Group group(2);
  const Values want = Mean(gradients);
  const auto got = group.Step(gradients, 10);
  EXPECT_LT(reference::RelativeDistance(got, reference::Matrix(want, kShape.rows)), 1e-5);
  // Each member keeps what is its own.
  EXPECT_GT(Norm(group.states[0].residual), 10);
  EXPECT_LT(Norm(group.MeanResidual()), 1e-3);
}

// Over the steps of one group the sum of what was decoded is that of the mean gradients, less the
// growth of the mean residual. A group that shrinks goes on from what is left.
TEST(PowerSgd, NothingIsLostOverTheStepsNorWhenAMemberLeaves) {
  for (const float size : {1.0F, 1e-7F, 1e7F}) {
    Group group(3);
    std::uint64_t step = 10;
    for (const std::size_t members : {3, 2}) {
      group.states.resize(members);
      std::vector<double> missing(kShape.values()), put_in(kShape.values());
      if (members == 2) {
        const Values before = group.MeanResidual();
        for (std::size_t v = 0; v < missing.size(); ++v) missing[v] += before[v];
      }
      for (int i = 0; i < 50; ++i, ++step) {
        const auto gradients = Gradients(members, step, size);
        const Values mean = Mean(gradients), got = group.Step(gradients, step);
        for (std::size_t v = 0; v < missing.size(); ++v) {
          put_in[v] += mean[v];
          missing[v] += double{mean[v]} - got[v];
        }
      }
      const Values after = group.MeanResidual();
      EXPECT_GT(reference::Norm(missing), 0.1 * size);
      for (std::size_t v = 0; v < missing.size(); ++v) missing[v] -= after[v];
      EXPECT_LT(reference::Norm(missing), 1e-6 * reference::Norm(put_in)) << members;
    }
  }
}

TEST(PowerSgd, TheSameGradientArrivesInFullWithTime) {
  Group group(2);
  const auto gradients = Gradients(2, 1);
  const Values mean = Mean(gradients);
  std::vector<double> sum(kShape.values());
  double error[2];
  for (std::uint64_t step = 0; step < 64; ++step) {
    const auto got = group.Step(gradients, step);
    for (std::size_t v = 0; v < sum.size(); ++v) sum[v] += got[v];
    if (step != 7 && step != 63) continue;
    std::vector<double> rest(sum.size());
    for (std::size_t v = 0; v < sum.size(); ++v) {
      rest[v] = sum[v] / static_cast<double>(step + 1) - mean[v];
    }
    error[step == 63] = reference::Norm(rest) / Norm(mean);
  }
  EXPECT_LT(error[1], error[0] / 4);
  EXPECT_LT(error[1], 0.05);
}

TEST(PowerSgd, ZerosAreExactAndDirectionsComeBack) {
  Group group(2);
  const std::vector<Values> zeros(2, Values(kShape.values()));
  EXPECT_EQ(group.Step(zeros, 10), zeros[0]);
  EXPECT_EQ(group.states[0].q, Values(kShape.columns * kRank));
  EXPECT_EQ(group.Step(zeros, 11), zeros[0]);
  const auto gradients = Gradients(2, 1);
  EXPECT_GT(Norm(group.Step(gradients, 12)), 0.5 * Norm(Mean(gradients)));
}

TEST(PowerSgd, AMemberWithoutAGradientFollows) {
  Group group(3);
  group.Step(Gradients(3, 1), 10);
  const PowerSgdState before = group.states[2];
  PowerSgdStep listener = PowerSgdStep::Listen(before);
  group.states.pop_back();
  const auto got = group.Step(Gradients(2, 2), 11);
  EXPECT_EQ(Values(listener.p().begin(), listener.p().end()), Values(kShape.rows * kRank));
  EXPECT_EQ(listener.Continue(group.mean_p).value(), Values(kShape.columns * kRank));
  Values followed(kShape.values());
  const auto next = listener.Finish(group.mean_q, followed).value();
  EXPECT_EQ(followed, got);
  EXPECT_EQ(next.q, group.states[0].q);
  EXPECT_EQ(next.residual, before.residual);
}

TEST(PowerSgd, AnAbortedStepIsTheSameAgain) {
  Group group(2);
  group.Step(Gradients(2, 1), 10);
  const PowerSgdState before = group.states[0];
  const auto gradients = Gradients(2, 2);
  auto first = PowerSgdStep::Begin(gradients[0], before, kKey, 11).value();
  const Values p(first.p().begin(), first.p().end());
  const auto q = first.Continue(p).value();
  Values mean(kShape.values());
  const auto next = first.Finish(q, mean).value();
  EXPECT_EQ(before, group.states[0]);
  auto second = PowerSgdStep::Begin(gradients[0], before, kKey, 11).value();
  EXPECT_EQ(Values(second.p().begin(), second.p().end()), p);
  EXPECT_EQ(second.Continue(p).value(), q);
  EXPECT_EQ(second.Finish(q, mean).value(), next);
}

TEST(PowerSgd, SameBitsAtEveryLevel) {
  Values first;
  AtEveryLevel([&] {
    Group group(2, {37, 29});
    std::vector<Values> gradients{Normal(37 * 29, 1), Normal(37 * 29, 2)};
    group.Step(gradients, 10);
    const Values got = group.Step(gradients, 11);
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  });
}

TEST(PowerSgd, WhatCannotBeAveragedIsRefused) {
  const PowerSgdState state = NewPowerSgdState(kShape, kRank, kKey);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 0x1p97F}) {
    Values gradient(kShape.values(), 1.0F);
    gradient[9] = bad;
    EXPECT_FALSE(PowerSgdStep::Begin(gradient, state, kKey, 10).ok());
    gradient[9] = 1;
    auto step = PowerSgdStep::Begin(gradient, state, kKey, 10).value();
    Values p(step.p().begin(), step.p().end());
    Values short_p(p.begin(), p.end() - 1);
    EXPECT_THAT(std::string(step.Continue(short_p).status().message()),
                HasSubstr("mean P has 143 values, expected 144"));
    p[3] = bad == 0x1p97F ? 0x1p117F : bad;
    EXPECT_THAT(std::string(step.Continue(p).status().message()), HasSubstr("not finite or too"));
    Values mean(kShape.values());
    p[3] = 0;
    Values q = step.Continue(p).value();
    EXPECT_FALSE(step.Finish(Values(3), mean).ok());
    q[5] = bad == 0x1p97F ? 0x1p117F : bad;
    EXPECT_FALSE(step.Finish(q, mean).ok());
  }
}

TEST(PowerSgd, AnotherGroupBeginsWithAFreshQAndKeepsResiduals) {
  Group group(2);
  group.Step(Gradients(2, 1), 10);
  const PowerSgdState& old = group.states[0];
  EXPECT_EQ(AtGeneration(old, kKey), old);
  const FactorKey next{kKey.seed, kKey.tensor, kKey.generation + 1};
  const PowerSgdState moved = AtGeneration(old, next);
  EXPECT_EQ(moved.residual, old.residual);
  EXPECT_EQ(moved.q, NewPowerSgdState(kShape, kRank, next).q);
  EXPECT_NE(moved.q, NewPowerSgdState(kShape, kRank, kKey).q);
  EXPECT_NE(NewPowerSgdState(kShape, kRank, {5, 3, 1}).q, NewPowerSgdState(kShape, kRank, kKey).q);
}

TEST(PowerSgd, TensorsThatFactorsWouldNotHalveStayExact) {
  replica::PowerSgdOptions options;
  options.rank = 4;
  const auto uses = [&](std::vector<std::size_t> dimensions, std::uint64_t step = 10) {
    return UsesFactors(options, dimensions, step);
  };
  EXPECT_TRUE(uses({64, 64}));
  EXPECT_FALSE(uses({64, 64}, 9));
  EXPECT_FALSE(uses({4096}));
  EXPECT_FALSE(uses({}));
  EXPECT_FALSE(uses({16, 16}));  // 256 values, 128 in factors
  EXPECT_TRUE(uses({16, 17}));   // 272, 132
  EXPECT_TRUE(uses({16, 4, 16}));
  EXPECT_FALSE(uses({0, 64}));
  EXPECT_FALSE(uses({1, 4096}));
  const std::size_t cube[] = {3, 4, 5};
  EXPECT_EQ(MatrixOf(cube), (MatrixShape{3, 20}));
}

TEST(PowerSgd, SpecsSayWhatIsAllowed) {
  const auto spec = [](const char* text) {
    const auto options = replica::ParsePowerSgd(text);
    return options.ok() ? options->Spec() : std::string(options.status().message());
  };
  EXPECT_EQ(spec("powersgd"), "powersgd:rank=16,start=10,stages=all");
  EXPECT_EQ(spec("powersgd:stages=0-1/3,rank=4"), "powersgd:rank=4,start=10,stages=0-1/3");
  EXPECT_EQ(replica::ParsePowerSgd("powersgd:stages=0-1/3")->stages, "0-1,3");
  EXPECT_THAT(spec("powersgd:start=1"), HasSubstr("allowed are start=2 to"));
  EXPECT_THAT(spec("powersgd:rank=0"), HasSubstr("allowed are rank=1 to rank=256"));
  EXPECT_THAT(spec("powersgd:ranks=4"), HasSubstr("powersgd knows rank, start, stages"));
  EXPECT_THAT(spec("power:rank=4"), HasSubstr("unknown method 'power'"));
}

}  // namespace
}  // namespace shoal::collective
