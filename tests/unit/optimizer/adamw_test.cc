#include "optimizer/adamw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "optimizer/adamw_shard.h"

namespace shoal::optimizer {
namespace {

// AdamW as torch.optim.AdamW documents it, one value at a time in fp64.
struct SlowAdamW {
  double m = 0;
  double v = 0;
  double Step(double value, double gradient, const AdamWOptions& o) {
    const double g = gradient * o.gradient_factor;
    value -= o.learning_rate * o.weight_decay * value;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double count = static_cast<double>(o.step) + 1;
    const double m_hat = m / (1 - std::pow(o.beta1, count));
    const double v_hat = v / (1 - std::pow(o.beta2, count));
    return value - o.learning_rate * m_hat / (std::sqrt(v_hat) + o.epsilon);
  }
};

TEST(FrozenVariance, CountsItsUpdatesNotTheSteps) {
  // The authors of AQ-SGD's code let the bias correction go on while v is frozen: after 70 of 700
  // steps every update is 2.73 times too large.
  AdamWOptions options;
  options.step = 699;
  const AdamWStep frozen = MakeFrozenStep(options, 70), going_on = MakeAdamWStep(options);
  EXPECT_NEAR(frozen.inverse_root_correction2 / going_on.inverse_root_correction2, 2.73, 0.01);
  EXPECT_EQ(frozen.step_size, going_on.step_size);  // the momentum goes on
}

TEST(FrozenVariance, FoldAndUpdateAreTheTwoHalvesOfAStep) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> gradient(1000), value(1000), m(1000), v(1000);
  for (auto* all : {&gradient, &value, &m}) {
    for (float& x : *all) x = normal(random);
  }
  for (float& x : v) x = std::abs(normal(random)) + 0.1f;
  for (auto* all : {&gradient, &m}) {
    for (float& x : *all) x *= 0.02f;  // no ratio reaches its bound
  }
  AdamWOptions options{0.9, 1.0, 1e-8, 0.01, 1e-3, 0.5, 40};  // beta2 of 1 freezes v
  AdamWStep whole = MakeAdamWStep(options);
  whole.inverse_root_correction2 = 1.25f;
  std::vector<float> value2 = value, m2 = m, v2 = v;
  AdamWUpdate(whole, gradient, value2, m2, v2);
  FoldMomentum(whole, gradient, m);
  FrozenUpdate(whole, m, v, value);
  EXPECT_EQ(v2, v);
  EXPECT_EQ(m, m2);
  EXPECT_EQ(value, value2);
}

TEST(FrozenVariance, AFoldThatIsScaledIsAFoldByAsMuch) {
  AdamWOptions options;
  options.gradient_factor = 0.5;
  const std::vector<float> m{0.25f, -3, 0, 1e3f}, gradient{2, -0.5f, 1e-3f, 7};
  std::vector<float> scaled = m, direct = m;
  FoldMomentum(MakeAdamWStep(options), gradient, scaled);
  ScaleFold(MakeAdamWStep(options), 0.125f, m, scaled);
  options.gradient_factor = 0.5 * 0.125;
  FoldMomentum(MakeAdamWStep(options), gradient, direct);
  for (std::size_t i = 0; i < m.size(); ++i) {
    EXPECT_NEAR(scaled[i], direct[i], 2e-7 * std::abs(direct[i]) + 1e-9) << i;
  }
}

TEST(FrozenVariance, NoiseDoesNotMoveWhatHasNoVarianceNorFarWhatHasLittle) {
  AdamWOptions options;
  options.learning_rate = 0.125;
  options.step = 1000000;  // no bias is left
  const std::vector<float> m{1e-4f, -1e-4f, 1e-4f, -1e-4f}, v{0, 0, 1e-12f, 1};
  std::vector<float> value{2, 2, 2, 2};
  FrozenUpdate(MakeFrozenStep(options, 1000000), m, v, value);
  EXPECT_EQ(value[0], 2);
  EXPECT_EQ(value[1], 2);
  EXPECT_NEAR(value[2], 2 - 0.125 * 0.1 / std::sqrt(0.001), 1e-5);  // 3.16 steps, not 100
  EXPECT_NEAR(value[3], 2 + 0.125 * 1e-4, 1e-6);
}

// With betas .9 and .95 the other bound would be .447: equal gradients must still step by one rate.
TEST(FrozenVariance, ABoundBelowOneDoesNotCutTheStepsOfEqualGradients) {
  AdamWOptions options;
  options.beta1 = 0.9;
  options.beta2 = 0.95;
  options.learning_rate = 0.1;
  options.step = 1000000;  // no bias is left
  options.weight_decay = 0;
  const std::vector<float> m = {2, -2, 2}, v = {4, 4, 1};
  std::vector<float> value = {0, 0, 0};
  FrozenUpdate(MakeFrozenStep(options, 1000000), m, v, value);
  EXPECT_NEAR(value[0], -0.1, 1e-5);
  EXPECT_NEAR(value[1], 0.1, 1e-5);
  EXPECT_NEAR(value[2], -0.1, 1e-5) << "not more than one rate";
}

TEST(FrozenVariance, RefreshesAreASlowCountOfGrowingIntervals) {
  const VarianceSchedule plain{20, false}, refreshed{20, true};
  std::uint64_t updates = 0, since = 0, in_interval = 0, interval = 1;
  for (std::uint64_t step = 0; step < 5000; ++step) {
    EXPECT_EQ(UpdatesVariance(plain, step), step < 20);
    EXPECT_EQ(VarianceUpdates(plain, step), std::min<std::uint64_t>(step + 1, 20));
    bool update = step < 20;
    if (!update && ++since == interval) {
      update = true;
      since = 0;
      if (++in_interval == 16) {
        in_interval = 0;
        interval *= 2;
      }
    }
    updates += update ? 1 : 0;
    ASSERT_EQ(UpdatesVariance(refreshed, step), update) << step;
    ASSERT_EQ(VarianceUpdates(refreshed, step), updates) << step;
  }
  EXPECT_LT(updates, 200u);
}

TEST(FrozenVariance, ADirectionIsTheUpdateWithoutItsRate) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> values(77), before(77), m(77), v(77), direction(77);
  for (std::size_t i = 0; i < 77; ++i) {
    before[i] = values[i] = normal(random);
    m[i] = normal(random);
    v[i] = i == 0 ? 0 : std::abs(normal(random));
  }
  const AdamWStep step = MakeFrozenStep({0.9, 0.99, 1e-8, 0, 0.02, 1, 40}, 20);
  AdamDirection(step, m, v, direction);
  FrozenUpdate(step, m, v, values);
  for (std::size_t i = 0; i < 77; ++i) {
    EXPECT_EQ(values[i], before[i] - direction[i] * step.step_size) << i;
    const double root = std::sqrt(v[i] / (1 - std::pow(0.99, 20)));
    const double ratio = std::clamp(m[i] / (root + 1e-8), -1.0, 1.0);  // 0.1 / sqrt(0.01)
    EXPECT_NEAR(direction[i], i == 0 ? 0 : ratio, 1e-5) << i;
  }
  const std::vector<float> once = direction;
  AdamDirection(step, m, v, direction, 4);
  EXPECT_NE(direction, once);
  for (std::size_t i = 1; i < 77; ++i) {
    const double root = std::sqrt(v[i] / (1 - std::pow(0.99, 20)));
    EXPECT_NEAR(direction[i], std::clamp(m[i] / (root + 1e-8), -4.0, 4.0), 1e-5) << i;
  }
}

TEST(AdamW, FollowsTheSlowReference) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr std::size_t kCount = 133;
  std::vector<float> values(kCount), first(kCount), second(kCount), gradients(kCount);
  std::vector<double> want(kCount);
  std::vector<SlowAdamW> slow(kCount);
  for (std::size_t i = 0; i < kCount; ++i) want[i] = values[i] = normal(random);
  for (std::uint64_t step = 0; step < 50; ++step) {
    const AdamWOptions options{0.9,  0.95, 1e-8, 0.1, 1e-2 / (1 + static_cast<double>(step)),
                               0.37, step};
    for (std::size_t i = 0; i < kCount; ++i) {
      gradients[i] = normal(random);
      want[i] = slow[i].Step(want[i], gradients[i], options);
    }
    AdamWUpdate(MakeAdamWStep(options), gradients, values, first, second);
  }
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(values[i], want[i], 2e-6) << i;
}

TEST(AdamW, DoesNotDependOnWhereAValueLies) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::vector<float> gradients(100), values(100);
  for (auto& g : gradients) g = normal(random);
  for (auto& v : values) v = normal(random);
  const AdamWStep step = MakeAdamWStep({0.9, 0.999, 1e-8, 0.01, 1e-3, 1, 7});
  std::vector<float> whole = values, first(100), second(100);
  AdamWUpdate(step, gradients, whole, first, second);
  for (std::size_t i = 0; i < 100; ++i) {
    std::vector<float> value = {values[i]}, m(1), v(1);
    AdamWUpdate(step, std::vector<float>{gradients[i]}, value, m, v);
    EXPECT_EQ(value[0], whole[i]) << i;
    EXPECT_EQ(m[0], first[i]);
    EXPECT_EQ(v[0], second[i]);
  }
}

TEST(AdamW, ClipsByTheGlobalNorm) {
  EXPECT_EQ(ClipFactor(0, 1e9), 1);
  EXPECT_EQ(ClipFactor(1, 0.5), 1);
  EXPECT_DOUBLE_EQ(ClipFactor(1, 4), 1 / (4 + 1e-6));
  EXPECT_EQ(ClipFactor(1, 0), 1);
}

TEST(AdamW, SumsSquaresInFp64) {
  std::vector<float> values = {1e20f, 3, -4, 1e-20f};
  EXPECT_DOUBLE_EQ(SumOfSquares(std::span(values).subspan(1, 2)), 25);
  const double large = static_cast<double>(1e20f) * static_cast<double>(1e20f);
  EXPECT_DOUBLE_EQ(SumOfSquares(values), large);
  std::vector<float> many(1003, 0.5f);
  EXPECT_EQ(SumOfSquares(many), 1003 * 0.25);
}

TEST(AdamWShard, PiecesInAnyOrderMakeTheStepOfTheWhole) {
  constexpr std::size_t kFirst = 40, kValues = 500;
  // Borders of decay inside of pieces, at their edges, and before the shard.
  const std::vector<DecayRun> runs = {
      {0, true}, {90, false}, {100, true}, {140, false}, {530, true}};
  const auto decays = [](std::size_t i) { return i < 90 || (i >= 100 && i < 140) || i >= 530; };
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  AdamWShard shard(kFirst, kValues, runs);
  std::vector<float> gradient(kValues), w(kValues), m(kValues), v(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    gradient[i] = normal(random);
    w[i] = shard.weights()[i] = normal(random);
    m[i] = shard.first_moment()[i] = normal(random);
    v[i] = shard.second_moment()[i] = std::abs(normal(random));
  }
  const AdamWOptions options{0.9, 0.99, 1e-8, 0.1, 1e-2, 0.5, 7};
  AdamWOptions undecayed = options;
  undecayed.weight_decay = 0;
  std::vector<float> answers = gradient;
  for (const auto& [begin, end] : {std::pair{140, 300}, {0, 60}, {300, 500}, {60, 140}}) {
    shard.Update(options, kFirst + begin, std::span(answers).subspan(begin, end - begin));
  }
  for (std::size_t i = 0; i < kValues; ++i) {
    const AdamWStep step = MakeAdamWStep(decays(kFirst + i) ? options : undecayed);
    AdamWUpdate(step, {&gradient[i], 1}, {&w[i], 1}, {&m[i], 1}, {&v[i], 1});
  }
  EXPECT_EQ(answers, w);
  EXPECT_TRUE(std::ranges::equal(shard.weights(), w));
  EXPECT_TRUE(std::ranges::equal(shard.first_moment(), m));
  EXPECT_TRUE(std::ranges::equal(shard.second_moment(), v));
}

}  // namespace
}  // namespace shoal::optimizer
