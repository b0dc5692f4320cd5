#include "replica/collective/power_sgd_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/compression/matrix_reference.h"

namespace shoal::collective {
namespace {

namespace reference = compression::reference;
using compression::MatrixShape;
using reference::Normal;
using testing::HasSubstr;
using Values = std::vector<float>;

// A bias, a matrix, a small matrix, a tensor of three dimensions.
const std::vector<std::vector<std::size_t>> kTensors{{5}, {24, 40}, {4, 4}, {20, 5, 6}};
constexpr std::size_t kValues = 5 + 960 + 16 + 600;

replica::PowerSgdOptions Options() {
  replica::PowerSgdOptions options;
  options.rank = 3;
  options.start = 2;
  return options;
}

Values Sum(const std::vector<Values>& of) {
  Values sum(of[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (const Values& one : of) sum[i] += one[i];
  }
  return sum;
}

// The tensors' numbers, in another order in each call.
std::vector<std::size_t> Shuffled(const PowerSgdLayout& layout) {
  static std::mt19937 random(1);
  std::vector<std::size_t> order(layout.tensors().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// A round that has begun, and its first values.
struct Begun {
  PowerSgdRound round;
  Values first;
};
Begun Begin(const PowerSgdLayout& layout, std::span<const float> gradient,
            const PowerSgdMemory& memory, const PowerSgdStepKey& key) {
  Begun begun{PowerSgdRound(layout, key), {}};
  for (const std::size_t i : Shuffled(layout)) {
    // A spare of the right size has anything in it, one of a wrong size is none.
    Values spare(i % 2 == 0 ? 7 : layout.tensors()[i].shape.values(), NAN);
    EXPECT_TRUE(begun.round.Begin(i, gradient, memory, std::move(spare)).ok());
  }
  const Buffer first = begun.round.TakeFirst();
  begun.first.assign(first.floats().begin(), first.floats().end());
  return begun;
}
Values Continue(const PowerSgdLayout& layout, PowerSgdRound* round, const Values& first) {
  for (const std::size_t i : Shuffled(layout)) EXPECT_TRUE(round->Continue(i, first).ok());
  const Buffer second = round->TakeSecond();
  return {second.floats().begin(), second.floats().end()};
}

// What a group decodes that adds up; `gradients` with an empty one for a member that listens.
Values Step(const PowerSgdLayout& layout, const std::vector<Values>& gradients,
            const PowerSgdStepKey& key, std::vector<PowerSgdMemory>* memories) {
  std::vector<PowerSgdRound> rounds;
  std::vector<Values> parts;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Begun begun = Begin(layout, gradients[i], (*memories)[i], key);
    rounds.push_back(std::move(begun.round));
    parts.push_back(std::move(begun.first));
  }
  const Values first = Sum(parts);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    parts[i] = Continue(layout, &rounds[i], first);
  }
  const Values second = Sum(parts);
  std::vector<Values> decoded(gradients.size(), Values(layout.values()));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    for (const std::size_t t : Shuffled(layout)) {
      EXPECT_TRUE(rounds[i].Finish(t, first, second, decoded[i]).ok());
    }
    (*memories)[i] = rounds[i].TakeMemory();
    EXPECT_EQ(decoded[i], decoded[0]);
  }
  return decoded[0];
}

TEST(PowerSgdVector, LayoutSaysWhatTravels) {
  const PowerSgdLayout layout(Options(), kTensors);
  EXPECT_EQ(layout.values(), kValues);
  EXPECT_EQ(layout.first_values(), 5u + 3 * 24 + 16 + 3 * 20);
  EXPECT_EQ(layout.second_values(), 3u * 40 + 3 * 30);
  EXPECT_FALSE(layout.Active(1));
  EXPECT_TRUE(layout.Active(2));
  EXPECT_FALSE(PowerSgdLayout(Options(), {{5}, {4, 4}}).Active(100));
  ASSERT_EQ(layout.tensors().size(), 4u);
  EXPECT_EQ(layout.tensors()[2].rank, 0u);
  EXPECT_EQ(layout.tensors()[3].shape, (MatrixShape{20, 30}));
}

TEST(PowerSgdVector, SmallTensorsAreExactAndMatricesComeWithTime) {
  const PowerSgdLayout layout(Options(), kTensors);
  std::vector<PowerSgdMemory> memories(2);
  const std::vector<Values> gradients{Normal(kValues, 1), Normal(kValues, 2)};
  const Values want = Sum(gradients);
  std::vector<double> total(kValues);
  constexpr std::uint64_t kSteps = 80;
  for (std::uint64_t step = 2; step < 2 + kSteps; ++step) {
    const Values got = Step(layout, gradients, {7, 1, step}, &memories);
    for (std::size_t i = 0; i < 5; ++i) ASSERT_EQ(got[i], want[i]);
    for (std::size_t i = 965; i < 981; ++i) ASSERT_EQ(got[i], want[i]);
    for (std::size_t i = 0; i < kValues; ++i) total[i] += got[i];
  }
  std::vector<double> exact(want.begin(), want.end()), rest(kValues);
  for (std::size_t i = 0; i < kValues; ++i) rest[i] = total[i] / kSteps - exact[i];
  EXPECT_LT(reference::Norm(rest), 0.1 * reference::Norm(exact));
  // What is missing is in the residuals, to the last bits.
  std::size_t factor = 0;
  for (const auto& tensor : layout.tensors()) {
    if (tensor.rank == 0) continue;
    for (std::size_t i = 0; i < tensor.shape.values(); ++i) {
      const double kept = double{memories[0][factor].residual[i]} + memories[1][factor].residual[i];
      ASSERT_NEAR(-rest[tensor.at + i] * kSteps, kept, 2e-4);
    }
    ++factor;
  }
  EXPECT_EQ(factor, 2u);
}

TEST(PowerSgdVector, AMemberThatListensGetsTheSameAndKeepsItsResiduals) {
  const PowerSgdLayout layout(Options(), kTensors);
  std::vector<PowerSgdMemory> memories(3), alone(2);
  const std::vector<Values> two{Normal(kValues, 1), Normal(kValues, 2)};
  Step(layout, {two[0], two[1], Normal(kValues, 3)}, {7, 1, 2}, &memories);
  alone = {memories[0], memories[1]};
  const auto before = memories[2];
  const Values got = Step(layout, {two[0], two[1], {}}, {7, 1, 3}, &memories);
  EXPECT_EQ(Step(layout, two, {7, 1, 3}, &alone), got);
  EXPECT_EQ(memories[2][0].residual, before[0].residual);
  EXPECT_EQ(memories[2][0].q, memories[0][0].q);
}

// A retry of a smaller group from the old memories is what a first attempt would have been.
TEST(PowerSgdVector, AnAbortedRoundLeavesNothing) {
  const PowerSgdLayout layout(Options(), kTensors);
  std::vector<PowerSgdMemory> memories(3);
  Step(layout, {Normal(kValues, 1), Normal(kValues, 2), Normal(kValues, 3)}, {7, 1, 2}, &memories);
  const std::vector<Values> gradients{Normal(kValues, 4), Normal(kValues, 5)};
  std::vector<PowerSgdMemory> fresh{memories[0], memories[1]}, retried = fresh;
  const Values want = Step(layout, gradients, {7, 2, 3}, &fresh);
  for (std::size_t i = 0; i < 2; ++i) {
    // Dropped behind its first exchange.
    Begun begun = Begin(layout, gradients[i], retried[i], {7, 1, 3});
    Continue(layout, &begun.round, begun.first);
  }
  EXPECT_EQ(Step(layout, gradients, {7, 2, 3}, &retried), want);
  EXPECT_EQ(retried, fresh);
}

// A newcomer without a memory and a group that has one meet in a new generation.
TEST(PowerSgdVector, ANewGenerationBringsMembersTogether) {
  const PowerSgdLayout layout(Options(), kTensors);
  std::vector<PowerSgdMemory> memories(2);
  const std::vector<Values> two{Normal(kValues, 1), Normal(kValues, 2)};
  Step(layout, two, {7, 1, 2}, &memories);
  memories.emplace_back();
  Step(layout, {two[0], two[1], Normal(kValues, 3)}, {7, 2, 3}, &memories);  // compares members
  EXPECT_EQ(memories[2][0].q, memories[0][0].q);
  EXPECT_EQ(memories[2][1].generation, 2u);
}

TEST(PowerSgdVector, AgreedVectorsOfAWrongSizeAreRefused) {
  const PowerSgdLayout layout(Options(), kTensors);
  auto [round, first] = Begin(layout, Normal(kValues, 1), {}, {});
  EXPECT_THAT(std::string(round.Continue(1, Values(3)).message()),
              HasSubstr("first exchange gave 3 values, expected 153"));
  Continue(layout, &round, first);
  Values out(kValues);
  EXPECT_THAT(std::string(round.Finish(1, first, Values(3), out).message()),
              HasSubstr("second exchange gave 3 values, expected 210"));
}

}  // namespace
}  // namespace shoal::collective
