#include "dataset/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

namespace shoal::dataset {
namespace {

Sampler Make(std::uint64_t seed, std::uint64_t rows, std::uint32_t micro_batches,
             std::uint32_t samples) {
  auto sampler = Sampler::Make({seed, rows, micro_batches, samples});
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return *sampler;
}

// Philox4x32-10, written out from the paper.
std::array<std::uint32_t, 4> SlowPhilox(std::array<std::uint32_t, 4> c, std::uint32_t k0,
                                        std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// The whole order of a class by a complete Fisher-Yates shuffle.
std::vector<std::uint64_t> SlowOrder(std::uint64_t seed, std::uint64_t epoch, std::uint32_t j,
                                     std::uint64_t rows, std::uint32_t micro_batches) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t row = 0; row < rows; ++row) {
    if (row % micro_batches == j) order.push_back(row);
  }
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    const auto block = SlowPhilox(
        {static_cast<std::uint32_t>(i / 2), j, static_cast<std::uint32_t>(epoch),
         static_cast<std::uint32_t>(epoch >> 32)},
        static_cast<std::uint32_t>(seed) ^ 0x53414d50, static_cast<std::uint32_t>(seed >> 32));
    const std::uint64_t draw = i % 2 == 0 ? block[0] | std::uint64_t{block[1]} << 32
                                          : block[2] | std::uint64_t{block[3]} << 32;
    __extension__ using Wide = unsigned __int128;
    const auto below =
        static_cast<std::uint64_t>((static_cast<Wide>(draw) * (order.size() - i)) >> 64);
    std::swap(order[i], order[i + below]);
  }
  return order;
}

TEST(Sampler, CountsTheSamplesOfEachPipeline) {
  for (const std::uint64_t rows : {0ull, 1ull, 12ull, 61ull, 100ull}) {
    for (const std::uint32_t micro_batches : {1u, 4u, 6u, 7u}) {
      for (const std::uint32_t pipelines : {1u, 2u, 3u, 9u}) {
        std::vector<std::uint64_t> expected(pipelines);
        for (std::uint64_t row = 0; row < rows; ++row) ++expected[row % micro_batches % pipelines];
        for (std::uint32_t p = 0; p < pipelines; ++p) {
          EXPECT_EQ(SamplesOfPipeline(rows, micro_batches, p, pipelines), expected[p])
              << rows << " rows, " << micro_batches << " micro-batches, pipeline " << p << " of "
              << pipelines;
          EXPECT_LE(expected[p], expected[0]);
        }
      }
    }
  }
  EXPECT_EQ(SamplesOfPipeline(10, 0, 0, 1), 0u);
  EXPECT_EQ(SamplesOfPipeline(10, 4, 0, 0), 0u);
}

TEST(Sampler, VisitsInTimeWhatIsCountedForAPipeline) {
  const Sampler sampler = Make(3, 29, 4, 2);  // 29 rows do not fill 4 steps of 8
  std::map<std::uint32_t, std::set<std::uint64_t>> visited;
  for (std::uint64_t step = 0; step < 60 * sampler.steps_per_epoch(); ++step) {
    for (const MicroBatchSamples& taken : sampler.Step(step)) {
      for (const SampleId sample : taken.samples) {
        visited[taken.global_index % 3].insert(sample.value);
      }
    }
  }
  for (std::uint32_t p = 0; p < 3; ++p) {
    EXPECT_EQ(visited[p].size(), SamplesOfPipeline(29, 4, p, 3)) << p;
  }
}

TEST(Sampler, PhiloxReferenceHasTheKnownAnswer) {
  // From Random123's known-answer tests.
  EXPECT_EQ(SlowPhilox({0, 0, 0, 0}, 0, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Sampler, EqualsAWholeShuffleOfEachClass) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x123456789abcdef0}}) {
    const std::uint64_t rows = 103;
    const Sampler sampler = Make(seed, rows, 4, 3);
    ASSERT_EQ(sampler.steps_per_epoch(), 8U);
    for (std::uint64_t step = 0; step < 40; ++step) {
      const auto micro_batches = sampler.Step(step);
      ASSERT_EQ(micro_batches.size(), 4U);
      for (std::uint32_t j = 0; j < 4; ++j) {
        EXPECT_EQ(micro_batches[j].global_index, j);
        const auto order = SlowOrder(seed, step / 8, j, rows, 4);
        for (std::size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(micro_batches[j].samples.at(i).value, order[step % 8 * 3 + i]);
        }
        EXPECT_EQ(micro_batches[j].samples.size(), 3U);
      }
    }
  }
}

TEST(Sampler, AnEpochAtOnceIsItsStepsInTurn) {
  const Sampler sampler = Make(7, 61, 4, 3);  // 5 steps, one row is left over
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (std::uint32_t j = 0; j < 4; ++j) {
      std::vector<SampleId> expected;
      for (std::uint64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
        const auto batch = sampler.Step(epoch * sampler.steps_per_epoch() + step).at(j);
        expected.insert(expected.end(), batch.samples.begin(), batch.samples.end());
      }
      EXPECT_EQ(sampler.OfEpoch(epoch, j), expected);
    }
  }
}

TEST(Sampler, EachSampleOnceAnEpochInItsClass) {
  const Sampler sampler = Make(42, 96, 6, 2);
  std::vector<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::uint64_t> seen;
    orders.emplace_back();
    for (std::uint64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      for (const auto& batch : sampler.Step(epoch * sampler.steps_per_epoch() + step)) {
        for (const SampleId sample : batch.samples) {
          EXPECT_EQ(sample.value % 6, batch.global_index);
          EXPECT_LT(sample.value, 96U);
          EXPECT_TRUE(seen.insert(sample.value).second) << sample.value << " came twice";
          orders.back().push_back(sample.value);
        }
      }
    }
    EXPECT_EQ(seen.size(), 96U);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

// The tail that is dropped is another one each epoch, so all rows are seen in the end.
TEST(Sampler, DroppedRowsChange) {
  const Sampler sampler = Make(1, 11, 1, 4);
  EXPECT_EQ(sampler.steps_per_epoch(), 2U);
  std::map<std::uint64_t, int> seen;
  for (std::uint64_t step = 0; step < 40; ++step) {
    const auto micro_batches = sampler.Step(step);
    for (const SampleId sample : micro_batches[0].samples) ++seen[sample.value];
  }
  EXPECT_EQ(seen.size(), 11U);
}

TEST(Sampler, OrderIsPinned) {
  const Sampler sampler = Make(7, 1000, 2, 4);
  const auto values = [](const MicroBatchSamples& batch) {
    std::vector<std::uint64_t> out;
    for (const SampleId sample : batch.samples) out.push_back(sample.value);
    return out;
  };
  EXPECT_THAT(values(sampler.Step(0)[0]), ::testing::ElementsAre(82, 422, 594, 696));
  EXPECT_THAT(values(sampler.Step(0)[1]), ::testing::ElementsAre(815, 109, 551, 235));
  EXPECT_THAT(values(sampler.Step(1000)[0]), ::testing::ElementsAre(4, 140, 706, 990));
}

TEST(Sampler, StepDependsOnNothingBefore) {
  const Sampler one = Make(3, 500, 8, 2);
  const Sampler other = Make(3, 500, 8, 2);
  for (const std::uint64_t step : {99U, 5U, 31U, 99U}) {
    for (std::size_t j = 0; j < 8; ++j) {
      EXPECT_EQ(one.Step(step)[j].samples, other.Step(step)[j].samples);
    }
  }
  EXPECT_NE(Make(4, 500, 8, 2).Step(5)[0].samples, one.Step(5)[0].samples);
}

TEST(Sampler, FirstPlacesAreEvenlySpread) {
  const std::uint64_t rows = 10;
  std::map<std::uint64_t, int> first;
  const int rounds = 5000;
  for (int seed = 0; seed < rounds; ++seed) {
    ++first[Make(static_cast<std::uint64_t>(seed), rows, 1, 1).Step(0)[0].samples[0].value];
  }
  for (std::uint64_t row = 0; row < rows; ++row) {
    EXPECT_NEAR(first[row], rounds / 10, 100) << row;  // 100 is 4.7 standard deviations
  }
}

TEST(Sampler, RefusesWhatFillsNoStep) {
  for (const SamplerOptions& bad :
       {SamplerOptions{1, 10, 0, 1}, SamplerOptions{1, 10, 1, 0}, SamplerOptions{1, 10, 4, 3},
        SamplerOptions{1, 0, 1, 1}, SamplerOptions{1, std::uint64_t{1} << 33, 1, 1},
        SamplerOptions{1, 10, 0xffffffff, 0xffffffff}}) {
    EXPECT_EQ(Sampler::Make(bad).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace shoal::dataset
