#include "replica/collective/ring/marsit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "tests/unit/replica/collective/ring/marsit_reference.h"

namespace shoal::collective {
namespace {

using reference::Floats;

std::shared_ptr<const Buffer> Shared(const Floats& values) {
  return std::make_shared<const Buffer>(Buffer::CopyOf(std::as_bytes(std::span(values))));
}
Floats FloatsOf(const Buffer& buffer) { return {buffer.floats().begin(), buffer.floats().end()}; }

MarsitRound RoundOf(const MarsitOptions& options, const MarsitRates& rates, bool exact,
                    std::uint32_t contributors, const Floats& c, const Floats* x) {
  return MarsitRound({.options = std::make_shared<const MarsitOptions>(options),
                      .rates = rates,
                      .exact = exact,
                      .contributors = contributors,
                      .compensation = Shared(c),
                      .input = x == nullptr ? nullptr : Shared(*x)});
}

// The first elements of chunks of random sizes, and the number of all.
std::vector<std::size_t> Chunks(std::size_t elements, std::mt19937* random) {
  std::vector<std::size_t> first = {0};
  while (first.back() < elements) {
    first.push_back(std::min(elements, first.back() + 1 + (*random)() % 60));
  }
  return first;
}

// Opens a round chunk by chunk, the last one first; what it sends.
Result<Buffer> Open(MarsitRound* round, std::mt19937* random) {
  const std::size_t size = round->exact() ? sizeof(float) : sizeof(std::uint64_t);
  Buffer vector(round->vector_bytes());
  if (!vector.empty()) std::memset(vector.data(), 0xa5, vector.size());
  const auto chunks = Chunks(vector.size() / size, random);
  for (std::size_t k = chunks.size() - 1; k-- > 0;) {
    const auto own = vector.bytes().subspan(chunks[k] * size, (chunks[k + 1] - chunks[k]) * size);
    SHOAL_RETURN_IF_ERROR(round->Open(chunks[k], own));
  }
  return vector;
}

Status Close(MarsitRound* round, Buffer* vector, std::mt19937* random) {
  const std::size_t size = round->exact() ? sizeof(float) : sizeof(std::uint64_t);
  const auto chunks = Chunks(vector->size() / size, random);
  for (std::size_t k = 0; k + 1 < chunks.size(); ++k) {
    SHOAL_RETURN_IF_ERROR(round->Close(chunks[k], chunks[k + 1] - chunks[k], vector->bytes()));
  }
  return Status::Ok();
}

// Members' memories and rounds, without messages.
class Workers {
 public:
  Workers(std::size_t members, std::size_t values, MarsitOptions options)
      : options_(std::move(options)), memories(members, Floats(values)) {}

  // The update of a round.
  Floats Round(const std::vector<Floats>& inputs, const MarsitRates& rates, bool exact) {
    const auto members = static_cast<std::uint32_t>(memories.size());
    std::vector<MarsitRound> rounds;
    std::vector<Buffer> vectors;
    for (std::size_t m = 0; m < members; ++m) {
      rounds.push_back(RoundOf(options_, rates, exact, members, memories[m], &inputs[m]));
      vectors.push_back(*Open(&rounds[m], &random_));
    }
    const auto merge = MarsitMerge(options_, memories[0].size(), exact);
    const std::uint64_t all = (std::uint64_t{1} << members) - 1;
    const Buffer merged = reference::MergeAround(vectors, *merge, ++number_, all);
    Floats update;
    for (std::size_t m = 0; m < members; ++m) {
      Buffer vector = Buffer::CopyOf(merged.bytes());
      EXPECT_TRUE(Close(&rounds[m], &vector, &random_).ok());
      update = FloatsOf(rounds[m].TakeUpdate(std::move(vector)));
      memories[m] = FloatsOf(*rounds[m].TakeCompensation());
    }
    return update;
  }

 private:
  const MarsitOptions options_;
  std::uint64_t number_ = 0;
  std::mt19937 random_{7};

 public:
  std::vector<Floats> memories;  // c
};

std::vector<std::uint32_t> BitsOf(const Floats& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

Floats Normal(std::mt19937* random, std::size_t count, float sigma) {
  std::normal_distribution<float> normal(0, sigma);
  Floats values(count);
  for (float& value : values) value = normal(*random);
  return values;
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
  std::mt19937 random(1);
  for (const bool exact : {false, true}) {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      const Floats c(100), x = [&] {
        Floats values(100, 1.0F);
        values[70] = bad;
        return values;
      }();
      for (const bool in_memory : {false, true}) {
        MarsitRound round = RoundOf({}, {1, 1}, exact, 2, in_memory ? x : c, in_memory ? &c : &x);
        const Status status = Open(&round, &random).status();
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
        EXPECT_NE(status.message().find("value 70 of"), std::string::npos) << status.message();
      }
    }
  }
  // Finite members whose sum is not: all of them refuse the outcome.
  const Floats large(1, 3e38F);
  MarsitRound round = RoundOf({}, {1, 1}, true, 2, Floats(1), &large);
  ASSERT_TRUE(Open(&round, &random).ok());
  const Floats sum(1, INFINITY);
  Buffer vector = Buffer::CopyOf(std::as_bytes(std::span(sum)));
  EXPECT_FALSE(Close(&round, &vector, &random).ok());
}

TEST(MarsitTest, SignsOfZerosArePlusAndUnusedBitsAreZero) {
  Floats x(70, -1.0F);
  x[1] = 0.0F;
  x[2] = -0.0F;
  x[3] = std::numeric_limits<float>::denorm_min();
  x[4] = -std::numeric_limits<float>::denorm_min();
  x[64] = std::numeric_limits<float>::max();
  x[69] = 2.0F;
  std::mt19937 random(1);
  const Floats c(70, -0.0F);
  MarsitRound round = RoundOf({.masked = {{60, 5, 2}}}, {1, 0.25F}, false, 1, c, &x);
  const Buffer vector = *Open(&round, &random);
  std::uint64_t words[3];
  ASSERT_EQ(vector.size(), sizeof(words));
  std::memcpy(words, vector.data(), sizeof(words));
  EXPECT_EQ(words[0], 0b01110u);
  EXPECT_EQ(words[1], 0b100001u);
  EXPECT_EQ(words[2], 0b11111u);
}

// Rows begin and end anywhere, within words of signs and of marks, and within chunks.
TEST(MarsitTest, ChunksMakeTheBitsOfTheWholeVector) {
  constexpr std::size_t kValues = 9003, kMembers = 3;
  const std::vector<std::vector<RowRange>> masks = {
      {}, {{0, 3001, 3}}, {{5, 100, 7}, {705, 0, 9}, {705, 1, 4099}, {8000, 1003, 1}}};
  std::mt19937 random(11);
  for (const auto& masked : masks) {
    const MarsitOptions options = {.every = 50, .seed = 3, .masked = masked};
    for (const bool exact : {false, true}) {
      for (const std::uint64_t contributors : {0b111u, 0b101u}) {
        std::vector<Floats> c, x;
        std::vector<Buffer> vectors;
        std::vector<MarsitRound> rounds;
        const MarsitRates rates = {0.3F, 0.7F};
        for (std::size_t m = 0; m < kMembers; ++m) {
          c.push_back(Normal(&random, kValues, 1));
          x.push_back(Normal(&random, kValues, 1));
          for (float& value : x.back()) {
            if (random() % 3 != 0) value = 0;
          }
          const bool counts = (contributors >> m & 1) != 0;
          rounds.push_back(RoundOf(options, rates, exact, std::popcount(contributors), c[m],
                                   counts ? &x[m] : nullptr));
          vectors.push_back(*Open(&rounds[m], &random));
          if (!counts) x[m].clear();
          const Buffer whole = counts ? reference::Open(options, rates, exact, c[m], x[m])
                                      : Buffer::CopyOf(std::vector<std::byte>(vectors[m].size()));
          ASSERT_TRUE(std::ranges::equal(vectors[m].bytes(), whole.bytes()));
        }
        const auto merge = MarsitMerge(options, kValues, exact);
        const Buffer merged = reference::MergeAround(vectors, *merge, 5, contributors);
        for (std::size_t m = 0; m < kMembers; ++m) {
          const auto expected = reference::Close(options, rates, exact, std::popcount(contributors),
                                                 c[m], x[m], merged);
          Buffer vector = Buffer::CopyOf(merged.bytes());
          ASSERT_TRUE(Close(&rounds[m], &vector, &random).ok());
          EXPECT_EQ(BitsOf(FloatsOf(rounds[m].TakeUpdate(std::move(vector)))),
                    BitsOf(expected.update));
          const auto next = rounds[m].TakeCompensation();
          ASSERT_EQ(next != nullptr, !x[m].empty());
          if (next == nullptr) continue;
          EXPECT_EQ(BitsOf(FloatsOf(*next)), BitsOf(expected.compensation));
        }
      }
    }
  }
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
  std::mt19937 random(1);
  for (const bool exact : {false, true}) {
    const Floats c = {1, 2, 3};
    MarsitRound round = RoundOf({}, {1, 0.5F}, exact, 2, c, nullptr);
    Buffer vector = *Open(&round, &random);
    for (const std::byte byte : std::as_const(vector).bytes()) EXPECT_EQ(byte, std::byte{0});
    const Floats sum = {2, 4, -6};
    if (exact) vector = Buffer::CopyOf(std::as_bytes(std::span(sum)));
    ASSERT_TRUE(Close(&round, &vector, &random).ok());
    EXPECT_EQ(FloatsOf(round.TakeUpdate(std::move(vector)))[2], exact ? -3.0F : -0.5F);
    EXPECT_EQ(round.TakeCompensation(), nullptr);
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
