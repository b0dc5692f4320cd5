#include "compression/codecs/cocktail_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

// Of a program that follows docs/WIRE.md.
TEST(CocktailCodec, PlacesArePinned) {
  const std::size_t expected[] = {7, 1, 7, 6, 9, 6, 5, 6};
  for (std::uint64_t step = 0; step < 8; ++step) {
    EXPECT_EQ(SubsetOf({12, step, 0, 0, 0}, 10, 1000).first, expected[step]) << step;
    // Whoever sends it, and whatever chunk it is.
    EXPECT_EQ(SubsetOf({12, step, 5, 77, 1}, 10, 1000).first, expected[step]) << step;
  }
}

TEST(CocktailCodec, EveryPlaceComesUpAsOftenAsAnyOther) {
  std::vector<int> seen(10);
  for (std::uint64_t step = 0; step < 20000; step += 2) {
    ++seen[SubsetOf({3, step, 0, 0, 0}, 10, 1000).first];
  }
  double chi = 0;
  for (const int count : seen) chi += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi, 33.7);  // nine degrees of freedom, one in 10,000
}

// The bytes are those of topk for the subset's values alone.
TEST(CocktailCodec, IsTopKOfTheSubset) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto stride = static_cast<std::uint32_t>(1 + random() % 12);
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 4),
                            1 + static_cast<std::uint32_t>(random() % 90)};
    const std::string options = ":stride=" + std::to_string(stride) + ",";
    const std::string kept = "ratio=0.3,bits=4,bucket=8";
    const auto codec = MakeCodec("cocktail" + options + kept, shape.hidden).value();
    const auto x = reference::Gaussian(shape.values(), random());
    const RandomKey key{random(), random(), 3, 4, 1};
    const std::size_t first = SubsetOf(key, stride, x.size()).first;
    std::vector<float> part;
    for (std::size_t i = first; i < x.size(); i += stride) part.push_back(x[i]);
    ASSERT_FALSE(part.empty());
    ASSERT_EQ(part.size(), SubsetOf(key, stride, x.size()).count(x.size()));
    const SampleShape of_part{static_cast<std::uint32_t>(part.size()), 1};
    const auto topk = MakeCodec("topk:" + kept, 1).value();
    const auto payload = Encode(*codec, shape, key, x);
    ASSERT_EQ(payload, Encode(*topk, of_part, key, part));
    const auto got = Decode(*codec, shape, key, payload);
    const auto expected = Decode(*topk, of_part, key, payload);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool in = i >= first && (i - first) % stride == 0;
      ASSERT_EQ(got[i], in ? expected[(i - first) / stride] : 0.0F) << i;
    }
  }
}

TEST(CocktailCodec, TheAuthorsSettingTakesLessThan018BitsAValue) {
  const SampleShape shape{128, 1024};
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(shape.values());
  for (float& v : x) v = normal(random);
  const auto codec = MakeCodec("cocktail:stride=10,ratio=0.2,bits=4", 1024).value();
  const auto payload = Encode(*codec, shape, {1, 2, 3, 4, 0}, x);
  const double bits = 8.0 * static_cast<double>(payload.size()) / static_cast<double>(x.size());
  EXPECT_LT(bits, 0.1 * (0.2 * 4 + 1 + 0.2 * 16 / 128) * 1.005);
  EXPECT_GT(bits, 0.1 * (0.2 * 4 + 0.72));  // positions have an entropy of 0.72 bits
}

TEST(CocktailCodec, ValuesThatAreNotFiniteAreRefusedInTheSubsetAndOutside) {
  const auto codec = MakeCodec("cocktail:stride=5,ratio=0.2,bits=4", 10).value();
  for (std::size_t i = 0; i < 10; ++i) {
    std::vector<float> x(10, 1.0F);
    x[i] = std::nanf("");
    std::vector<std::byte> out(codec->EncodedBytesMax({1, 10}, 1));
    const SampleToEncode sample{x, {}};
    EXPECT_FALSE(
        codec->Encode({&sample, 1}, {1, 10}, {}, DeltaMode::kDelta, out, {}, nullptr).ok());
  }
}

TEST(CocktailCodec, SpecsAndTheirErrors) {
  EXPECT_EQ(MakeCodec("cocktail:ratio=0.2,stride=10,bits=4", 64).value()->spec(),
            "cocktail:stride=10,ratio=0.2,bits=4,bucket=128");
  for (const char* wrong : {"cocktail:ratio=0.2,bits=4", "cocktail:stride=0,ratio=0.2,bits=4",
                            "cocktail:stride=10001,ratio=0.2,bits=4", "cocktail:stride=4,bits=4",
                            "cocktail:stride=4,ratio=0.2,bits=4,feedback=on"}) {
    EXPECT_FALSE(MakeCodec(wrong, 64).ok()) << wrong;
  }
}

}  // namespace
}  // namespace shoal::compression
