#include "model/blocks/dropout.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/blocks/dropout_mask.h"

namespace shoal::model {
namespace {

std::vector<std::uint8_t> Mask(const DropoutKey& key, double probability, std::size_t count) {
  std::vector<std::uint8_t> mask(count, 7);
  FillDropoutMask(key, probability, 0, mask);
  return mask;
}

TEST(Dropout, DependsOnEveryPartOfTheKeyAndOnNothingElse) {
  const DropoutKey key{1, {2}, 3, DropoutSite::kAttention};
  const auto want = Mask(key, 0.5, 256);
  EXPECT_EQ(Mask(key, 0.5, 256), want);
  // A shorter mask is a prefix.
  EXPECT_EQ(Mask(key, 0.5, 101), std::vector(want.begin(), want.begin() + 101));
  EXPECT_NE(Mask({9, {2}, 3, DropoutSite::kAttention}, 0.5, 256), want);
  EXPECT_NE(Mask({1, {9}, 3, DropoutSite::kAttention}, 0.5, 256), want);
  EXPECT_NE(Mask({1, {2}, 9, DropoutSite::kAttention}, 0.5, 256), want);
  EXPECT_NE(Mask({1, {2}, 3, DropoutSite::kMlpOutput}, 0.5, 256), want);
  EXPECT_NE(Mask({1, {2 + (1ull << 32)}, 3, DropoutSite::kAttention}, 0.5, 256), want);
}

TEST(Dropout, AnyPartIsThatOfTheWhole) {
  const DropoutKey key{1, {2}, 3, DropoutSite::kAttention};
  const auto whole = Mask(key, 0.5, 64);
  for (std::uint64_t first = 0; first < 9; ++first) {
    for (std::size_t count = 0; count < 20; ++count) {
      std::vector<std::uint8_t> part(count, 7);
      FillDropoutMask(key, 0.5, first, part);
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(first);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), begin)) << first << " " << count;
    }
  }
}

TEST(Dropout, DropsTheFractionItWasTold) {
  for (double probability : {0.0, 0.1, 0.5, 0.9}) {
    const auto mask = Mask({5, {6}, 0, DropoutSite::kEmbedding}, probability, 100000);
    EXPECT_THAT(mask, ::testing::Each(::testing::AnyOf(0, 1)));
    // Five standard deviations of a binomial with 10^5 draws are below 0.008.
    EXPECT_NEAR(std::accumulate(mask.begin(), mask.end(), 0.0) / 100000, 1 - probability, 0.008);
  }
}

TEST(Dropout, IsPinned) {
  // By a Philox written apart from Random123. Another mask would break resumed runs.
  const auto mask = Mask({42, {7}, 1, DropoutSite::kAttentionOutput}, 0.5, 16);
  std::string text;
  for (std::uint8_t keep : mask) text += keep ? '1' : '0';
  EXPECT_EQ(text, "0101010110101101");
}

at::Tensor Random(std::int64_t rows, std::int64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 3.5F;
  return at::from_blob(values.data(), {rows, columns}, at::kFloat).clone();
}

TEST(Dropout, PackedMasksDropTheSame) {
  BatchContext context;
  context.rows = 3;
  context.samples = {{5}, {1}, {1ULL << 40}};
  context.seed = 8;
  const MaskPlace place{2, AdapterSite(1), 0.3};
  // Rows that end within a byte and within a draw, and one that is longer than a piece.
  for (const std::int64_t per_sample : {1, 7, 8, 13, 1024, 5003}) {
    const at::Tensor x = Random(3, per_sample);
    const at::Tensor packed = PackedMask(context, place, per_sample);
    EXPECT_EQ(packed.numel(), 3 * ((per_sample + 7) / 8));
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor given = x.to(dtype);
      const at::Tensor mask = DropoutMask(context, place, per_sample, given);
      EXPECT_TRUE(at::equal(ApplyPacked(given, packed, place.probability),
                            ApplyDropout(given, mask, place.probability)))
          << per_sample;
    }
  }
  EXPECT_FALSE(PackedMask(context, {2, AdapterSite(1), 0}, 8).defined());
}

}  // namespace
}  // namespace shoal::model
