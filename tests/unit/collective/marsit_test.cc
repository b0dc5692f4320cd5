#include "collective/marsit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "collective/one_bit.h"

namespace shoal::collective {
namespace {

using Floats = std::vector<float>;

// The ring in one place: every segment's members merged in the order of its hops.
Buffer MergeAround(std::vector<Buffer>& vectors, const RingMerge& merge, std::uint64_t round) {
  const std::size_t members = vectors.size(), size = merge.element_bytes();
  Buffer all(vectors[0].size());
  for (std::size_t s = 0; s < members; ++s) {
    const Extent extent = SegmentOf(all.size() / size, s, members);
    const auto part = [&](std::size_t member) {
      return vectors[member].bytes().subspan(extent.begin * size, extent.size() * size);
    };
    for (std::size_t place = 1; place < members; ++place) {
      merge.Merge({.round = round,
                   .phase = RingPhase::kRowReduce,
                   .place = place,
                   .member = (s + place) % members,
                   .segment = s,
                   .in_segment = 0,
                   .in_vector = extent.begin,
                   .received = static_cast<std::uint32_t>(place),
                   .own = 1},
                  part((s + place - 1) % members), part((s + place) % members));
    }
    const auto last = part((s + members - 1) % members);
    std::ranges::copy(last, all.data() + extent.begin * size);
  }
  return all;
}

// Members' memories and rounds, without messages.
class Workers {
 public:
  Workers(std::size_t members, std::size_t values, MarsitOptions options)
      : options_(std::move(options)), memories(members, Floats(values)) {}

  // The update of a round.
  Floats Round(const std::vector<Floats>& inputs, const MarsitRates& rates, bool exact) {
    std::vector<MarsitRound> rounds;
    std::vector<Buffer> vectors;
    for (std::size_t m = 0; m < memories.size(); ++m) {
      rounds.push_back(*OpenMarsitRound(options_, rates, exact, memories[m], inputs[m]));
      vectors.push_back(std::move(rounds[m].vector));
    }
    const auto merge = MarsitMerge(options_, memories[0].size(), exact);
    const Buffer merged = MergeAround(vectors, *merge, ++number_);
    Floats update;
    for (std::size_t m = 0; m < memories.size(); ++m) {
      const Buffer g =
          *CloseMarsitRound(options_, Buffer::CopyOf(merged.bytes()),
                            static_cast<std::uint32_t>(memories.size()), true, &rounds[m]);
      update.assign(g.floats().begin(), g.floats().end());
      const auto next = std::as_const(rounds[m].compensation).floats();
      memories[m].assign(next.begin(), next.end());
    }
    return update;
  }

 private:
  const MarsitOptions options_;
  std::uint64_t number_ = 0;

 public:
  std::vector<Floats> memories;  // c
};

Floats Normal(std::mt19937* random, std::size_t count, float sigma) {
  std::normal_distribution<float> normal(0, sigma);
  Floats values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

TEST(MarsitTest, BitsPerValueAreThoseOfThePaper) {
  EXPECT_NEAR(MarsitBitsPerValue(1), 32, 1e-9);
  EXPECT_NEAR(MarsitBitsPerValue(50), 1.62, 1e-9);
  EXPECT_NEAR(MarsitBitsPerValue(100), 1.31, 1e-9);
  EXPECT_NEAR(MarsitBitsPerValue(200), 1.155, 1e-9);
}

TEST(MarsitTest, WrongOptionsAreRefused) {
  EXPECT_TRUE(CheckMarsitOptions({}, 10).ok());
  EXPECT_TRUE(CheckMarsitOptions({.masked = {{0, 2, 3}, {6, 4, 1}}}, 10).ok());
  EXPECT_FALSE(CheckMarsitOptions({.every = 0}, 10).ok());
  const std::size_t huge = std::numeric_limits<std::size_t>::max();
  for (const std::vector<RowRange>& masked :
       std::vector<std::vector<RowRange>>{{{0, 2, 6}},
                                          {{5, 2, 3}},
                                          {{0, 2, 3}, {5, 1, 1}},
                                          {{6, 1, 1}, {0, 1, 1}},
                                          {{0, 1, 0}},
                                          {{11, 0, 1}},
                                          {{1, huge, huge}},
                                          {{1, huge, 2}},
                                          {{huge, 1, 1}}}) {
    EXPECT_FALSE(CheckMarsitOptions({.masked = masked}, 10).ok()) << masked[0].first;
  }
  EXPECT_TRUE(CheckMarsitRates({1, 0.1F}).ok());
  EXPECT_FALSE(CheckMarsitRates({1, 0}).ok());
  EXPECT_FALSE(CheckMarsitRates({1, -1}).ok());
  EXPECT_FALSE(CheckMarsitRates({INFINITY, 1}).ok());
  EXPECT_FALSE(CheckMarsitRates({1, NAN}).ok());
}

TEST(MarsitTest, UpdateAndMemoryOfOneMemberFollowThePaper) {
  Workers worker(1, 4, {});
  worker.memories[0] = {0, 0, 0.5F, -1};
  const std::vector<Floats> x = {{0.25F, -0.0F, -0.5F, 0.5F}};
  EXPECT_EQ(worker.Round(x, {2, 0.125F}, false), (Floats{0.125F, 0.125F, -0.125F, 0.125F}));
  EXPECT_EQ(worker.memories[0], (Floats{0.375F, -0.125F, -0.375F, -0.125F}));
  EXPECT_EQ(worker.Round(x, {2, 0.125F}, true), (Floats{0.875F, -0.125F, -1.375F, 0.875F}));
  EXPECT_EQ(worker.memories[0], Floats(4));
}

TEST(MarsitTest, AnExactRoundAveragesTheCompensatedVectors) {
  Workers workers(4, 3, {});
  for (std::size_t m = 0; m < 4; ++m) workers.memories[m] = Floats(3, static_cast<float>(m));
  std::vector<Floats> x(4, Floats{1, 2, 3});
  EXPECT_EQ(workers.Round(x, {1, 1}, true), (Floats{2.5F, 3.5F, 4.5F}));
  for (const Floats& c : workers.memories) EXPECT_EQ(c, Floats(3));
}

TEST(MarsitTest, AValueThatIsNotFiniteIsRefused) {
  for (const bool exact : {false, true}) {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      const Floats c(100), x = [&] {
        Floats values(100, 1.0F);
        values[70] = bad;
        return values;
      }();
      EXPECT_FALSE(OpenMarsitRound({}, {1, 1}, exact, c, x).ok());
      EXPECT_FALSE(OpenMarsitRound({}, {1, 1}, exact, x, c).ok());
    }
  }
  // Finite members whose sum is not: all of them refuse the outcome.
  MarsitRound round = *OpenMarsitRound({}, {1, 1}, true, Floats(1), Floats(1, 3e38F));
  Floats sum(1, INFINITY);
  EXPECT_FALSE(
      CloseMarsitRound({}, Buffer::CopyOf(std::as_bytes(std::span(sum))), 2, true, &round).ok());
}

TEST(MarsitTest, UntouchedRowsGetNoUpdateAndKeepTheirMemory) {
  // Values 5 to 22: six rows of three. Members touch rows 1 and 4; row 2 has -0 only.
  const MarsitOptions options = {.masked = {{5, 6, 3}}};
  Workers workers(3, 70, options);
  std::vector<Floats> x(3, Floats(70));
  x[0][5 + 3 + 1] = 0.5F;
  x[2][5 + 12] = -0.5F;
  x[1][5 + 6] = -0.0F;
  for (Floats& c : workers.memories) c[6] = c[12] = 0.75F;
  const Floats update = workers.Round(x, {1, 0.25F}, false);
  for (std::size_t i = 0; i < 70; ++i) {
    const std::size_t row = (i - 5) / 3;
    const bool masked = i >= 5 && i < 23 && row != 1 && row != 4;
    EXPECT_EQ(std::abs(update[i]), masked ? 0 : 0.25F) << i;
    for (std::size_t m = 0; m < 3; ++m) {
      const float before = x[m][i] + (i == 6 || i == 12 ? 0.75F : 0);
      EXPECT_EQ(workers.memories[m][i], before - update[i]) << i;
    }
  }
  // An exact round takes what untouched rows' memories hold.
  EXPECT_EQ(workers.Round(std::vector(3, Floats(70)), {1, 0.25F}, true)[6], 0.75F);
}

TEST(MarsitTest, AListenersMemoryStays) {
  for (const bool exact : {false, true}) {
    const Floats c = {1, 2, 3};
    MarsitRound round = OpenMarsitListener({}, {1, 0.5F}, exact, c);
    const Floats sum = {2, 4, -6};
    const Buffer update = *CloseMarsitRound(
        {}, exact ? Buffer::CopyOf(std::as_bytes(std::span(sum))) : std::move(round.vector), 2,
        false, &round);
    EXPECT_EQ(update.floats()[2], exact ? -3.0F : -0.5F);
    const auto next = std::as_const(round.compensation).floats();
    EXPECT_EQ(Floats(next.begin(), next.end()), c);
  }
}

TEST(MarsitTest, UpdatesAndMemoriesTelescope) {
  // Sum of updates + mean memory = sum of eta_l x mean input, whatever the draws were.
  constexpr std::size_t kMembers = 5, kValues = 200, kRounds = 230;
  std::mt19937 random(3);
  Workers workers(kMembers, kValues, {.every = 50, .seed = 4});
  std::vector<double> expected(kValues), reached(kValues);
  std::vector<double> own_updates(kValues), own_inputs(kValues);
  for (std::size_t t = 0; t < kRounds; ++t) {
    const MarsitRates rates = {0.01F + 0.0001F * static_cast<float>(t), 0.002F};
    std::vector<Floats> x;
    for (std::size_t m = 0; m < kMembers; ++m) {
      x.push_back(Normal(&random, kValues, 1));
      for (float& value : x.back()) value += 0.3F;
    }
    const Floats update = workers.Round(x, rates, t % 50 == 49);
    for (std::size_t i = 0; i < kValues; ++i) {
      reached[i] += update[i];
      for (const Floats& of_member : x) {
        expected[i] += static_cast<double>(rates.local) * of_member[i] / kMembers;
      }
      if (t >= 200) {  // one-bit rounds since an exact one: each memory telescopes by itself
        own_updates[i] += update[i];
        own_inputs[i] += static_cast<double>(rates.local) * x[0][i];
      }
    }
  }
  double error = 0, size = 0, own_error = 0, own_size = 0;
  for (std::size_t i = 0; i < kValues; ++i) {
    double mean = 0;
    for (const Floats& c : workers.memories) mean += c[i] / static_cast<double>(kMembers);
    error += std::pow(reached[i] + mean - expected[i], 2);
    size += std::pow(expected[i], 2);
    own_error += std::pow(own_updates[i] + workers.memories[0][i] - own_inputs[i], 2);
    own_size += std::pow(own_inputs[i], 2);
  }
  EXPECT_LT(std::sqrt(error / size), 1e-6);
  EXPECT_LT(std::sqrt(own_error / own_size), 1e-6);
  EXPECT_GT(size, 0);
}

// Final squared distance per value to the common optimum: 8 members with optima of their own.
double Quadratic(std::uint64_t every, float spread) {
  constexpr std::size_t kMembers = 8, kValues = 64, kRounds = 2000;
  std::mt19937 random(5);
  std::vector<Floats> optima;
  for (std::size_t m = 0; m < kMembers; ++m) optima.push_back(Normal(&random, kValues, spread));
  Floats x(kValues, 1.0F), target(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    for (const Floats& optimum : optima) target[i] += optimum[i] / kMembers;
    x[i] += target[i];
  }
  Workers workers(kMembers, kValues, {.every = every, .seed = 6});
  const MarsitRates rates = {0.02F, 0.01F};
  double distance = 0;
  for (std::size_t t = 0; t < kRounds; ++t) {
    std::vector<Floats> gradients;
    for (std::size_t m = 0; m < kMembers; ++m) {
      gradients.push_back(Normal(&random, kValues, 0.1F));
      for (std::size_t i = 0; i < kValues; ++i) gradients[m][i] += x[i] - optima[m][i];
    }
    const Floats update = workers.Round(gradients, rates, t % every == every - 1);
    double now = 0;
    for (std::size_t i = 0; i < kValues; ++i) {
      x[i] -= update[i];
      now += std::pow(x[i] - target[i], 2) / kValues;
    }
    if (t >= kRounds / 2) distance += now / (kRounds / 2.0);
  }
  return distance;
}

TEST(MarsitTest, MembersOfDifferentDataDriftWithoutExactRounds) {
  const std::uint64_t never = 1ull << 60;
  EXPECT_LT(Quadratic(50, 0), 0.001);
  EXPECT_LT(Quadratic(never, 0), 0.002);  // equal data do without
  EXPECT_LT(Quadratic(1, 2), 0.001);
  EXPECT_LT(Quadratic(50, 2), 0.02);
  EXPECT_GT(Quadratic(never, 2), 0.2);
}

}  // namespace
}  // namespace shoal::collective
