#include "compression/codecs/shifted_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "common/bytes.h"
#include "compression/api/message_noise.h"
#include "compression/codecs/range_codec.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kHead = 16;

std::vector<float> RoundTrip(const MessageCodec& codec, SampleShape shape, const RandomKey& key,
                             std::span<const float> values) {
  return Decode(codec, shape, key, Encode(codec, shape, key, values));
}

BucketBounds BoundsAt(std::span<const std::byte> payload, std::size_t bucket) {
  const std::byte* const at = payload.data() + kHead + 8 * bucket;
  return {std::bit_cast<float>(LoadLittle<std::uint32_t>(at)),
          std::bit_cast<float>(LoadLittle<std::uint32_t>(at + 4))};
}

const std::vector<float> kValues = {1.0F,  -1.0F, 0.5F,  -0.25F, 0.1F,     0.0F,
                                    0.75F, -0.6F, 3.01F, -0.3F,  2.0F,     -3.0F,
                                    0.0F,  0.0F,  0.0F,  0.0F,   70000.0F, 1e-3F};

// Made from docs/WIRE.md by a program of its own.
TEST(ShiftedCodec, BytesAndValuesArePinned) {
  const struct {
    const char* spec;
    const char* payload;
  } cases[] = {
      {"shifted:bits=8,bucket=3",
       "09020801030000001200000000000000000080bf00000040000080be3433b33e9a9919bf3e0a6740000040c0"
       "0000a04000000000000000000000000001b88847ff00bf00ffb65f00ff8aff0000000000ff00000000000000"},
      {"shifted:bits=4,bucket=6",
       "09020401060000001200000000000000000080bf00000040000040c0ec51c0400000000001b888470f5b7869"
       "6f0c00000f000000"},
      {"shifted:bits=1,bucket=3",
       "09020101030000001200000000000000000080bf00000040000080be3433b33e9a9919bf3e0a6740000040c0"
       "0000a04000000000000000000000000000b88847110501"},
      {"shifted:bits=3,bucket=2",
       "09020301020000001200000000000000000080bf00000040000080be0000403f00000000cecccc3d9a9919bf"
       "cdccac3f9a9999be0bd75340000040c00000a040000000000000000000000000000000006f12833a00b88847"
       "c7711cc70100070000"}};
  for (const auto& c : cases) {
    const auto codec = MakeCodec(c.spec, 6).value();
    std::string hex;
    for (const std::byte b : Encode(*codec, {3, 6}, {}, kValues)) {
      constexpr char kDigits[] = "0123456789abcdef";
      hex += kDigits[std::to_integer<unsigned>(b) >> 4];
      hex += kDigits[std::to_integer<unsigned>(b) & 15];
    }
    EXPECT_EQ(hex, c.payload) << c.spec;
  }
  const std::vector<float> expected = {
      1.0480444431304932F,  -0.9519555568695068F,   0.5147111415863037F, -0.28528887033462524F,
      0.11471116542816162F, -0.018622159957885742F, 0.7394871711730957F, -0.4625129699707031F,
      3.1434872150421143F,  -0.4625129699707031F,   1.9414870738983154F, -2.8665130138397217F,
      1773.345947265625F,   1773.345947265625F,     1773.345947265625F,  1773.345947265625F,
      71773.3515625F,       1773.345947265625F};
  EXPECT_EQ(RoundTrip(*MakeCodec("shifted:bits=4,bucket=6", 6).value(), {3, 6}, {}, kValues),
            expected);
}

// The definition, value by value and in double: the nearest point of the shifted grid.
TEST(ShiftedCodec, EveryValueBecomesTheNearestPointOfItsBucketsGrid) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const int bits = 1 + round % 8;
    const std::uint32_t bucket = 1 + static_cast<std::uint32_t>(random() % 60);
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 3),
                            bucket * (1 + static_cast<std::uint32_t>(random() % 4))};
    const char* const coder = round % 5 == 0 ? "+rans" : round % 5 == 1 ? "+zstd" : "";
    const auto codec = MakeCodec("shifted" + std::string(coder) + ":bits=" + std::to_string(bits) +
                                     ",bucket=" + std::to_string(bucket),
                                 shape.hidden)
                           .value();
    auto x = reference::Gaussian(shape.values(), random(),
                                 std::ldexp(1.0F, static_cast<int>(random() % 60) - 30));
    const RandomKey key{random(), random(), 1, 2, 1};
    const auto payload = Encode(*codec, shape, key, x);
    const auto got = Decode(*codec, shape, key, payload);
    std::vector<float> shifts(x.size() / bucket);
    FillUniform(key, 9, 0, shifts);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const BucketBounds bounds = BoundsAt(payload, i / bucket);
      const double step = double{bounds.width} / ((1 << bits) - 1);
      const double u = double{shifts[i / bucket]} - 0.5;
      const double slack = 4e-7 * (std::fabs(bounds.low) + bounds.width);
      ASSERT_LE(std::fabs(x[i] - got[i]), step / 2 + slack) << bits << " bits, round " << round;
      const double place = step == 0 ? 0 : (double{got[i]} - bounds.low) / step - u;
      ASSERT_NEAR(place, std::round(place), step == 0 ? 1 : slack / step + 1e-4);
    }
  }
}

// A bucket of these, over and over, with draws of their own. Both ends and points of the grid
// (multiples of 2 / 3, 2 / 15, 2 / 255) are among them.
std::vector<float> Probes(std::size_t buckets) {
  const float bucket[16] = {-1.0F,         1.0F,    -1.0F / 3.0F, 1.0F / 3.0F, 1.0F / 15.0F, 0.2F,
                            1.0F / 255.0F, 0.0F,    0.1F,         -0.123456F,  0.777F,       0.5F,
                            -0.5F,         0.0019F, -0.99F,       0.96F};
  std::vector<float> values;
  for (std::size_t b = 0; b < buckets; ++b) values.insert(values.end(), bucket, bucket + 16);
  return values;
}

struct Moments {
  std::vector<double> sum = std::vector<double>(16), squares = std::vector<double>(16);
  double most = 0;
};

constexpr std::size_t kBuckets = 500, kSteps = 240, kDraws = kBuckets * kSteps;  // 1.2e5 draws

Moments ErrorsOf(const std::string& spec) {
  const auto codec = MakeCodec(spec, 16).value();
  const SampleShape shape{kBuckets, 16};
  const std::vector<float> x = Probes(kBuckets);
  Moments moments;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const auto got = RoundTrip(*codec, shape, {12, step, 0, 0, 0}, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = double{got[i]} - x[i];
      moments.sum[i % 16] += error;
      moments.squares[i % 16] += error * error;
      moments.most = std::max(moments.most, std::fabs(error));
    }
  }
  return moments;
}

TEST(ShiftedCodec, IsUnbiasedWithAVarianceOfATwelfthOfTheSquaredStepOnAndOffTheGrid) {
  for (const int bits : {2, 4, 8}) {
    const double step = 2.0 / ((1 << bits) - 1);
    const Moments moments = ErrorsOf("shifted:bits=" + std::to_string(bits) + ",bucket=16");
    for (std::size_t i = 0; i < 16; ++i) {
      const double variance = moments.squares[i] / kDraws;
      // z-test; 4.5 deviations.
      EXPECT_LT(std::fabs(moments.sum[i]), 4.5 * std::sqrt(variance * kDraws)) << bits << " " << i;
      // The estimate's own deviation is 0.26 %.
      EXPECT_NEAR(variance / (step * step / 12), 1, 0.012) << bits << " bits, value " << i;
    }
    EXPECT_LE(moments.most, step / 2 * 1.0001);
  }
}

// A level of the grid is an fp32 number, not a multiple of 1 / 15.
constexpr double kUlp = 1.2e-7;

TEST(StochasticRounding, IsUnbiasedWithTheVarianceOfItsPlaceBetweenTwoLevels) {
  const std::vector<float> x = Probes(1);
  for (const int bits : {2, 4, 8}) {
    const double step = 2.0 / ((1 << bits) - 1);
    const Moments moments = ErrorsOf("direct:bits=" + std::to_string(bits) +
                                     ",bucket=16,levels=affine,rounding=stochastic");
    for (std::size_t i = 0; i < 16; ++i) {
      const double place = (double{x[i]} + 1) / step, f = place - std::floor(place);
      const double expected = step * step * f * (1 - f);
      const double variance = moments.squares[i] / kDraws;
      EXPECT_LT(std::fabs(moments.sum[i]), 4.5 * std::sqrt(variance * kDraws) + kUlp * kDraws)
          << bits << " bits, value " << i;
      EXPECT_NEAR(variance, expected, 0.03 * expected + 2e-4 * step * step)
          << bits << " bits, value " << i;
    }
    EXPECT_LE(moments.most, step * 1.0001);
  }
}

std::vector<float> Normal(std::size_t n, float scale) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

// Half the variance of stochastic rounding, on average over places.
TEST(ShiftedCodec, HasHalfTheErrorOfStochasticRounding) {
  const SampleShape shape{64, 1024};
  const auto x = Normal(shape.values(), 1);
  const auto error = [&](const std::string& spec) {
    const auto got = RoundTrip(*MakeCodec(spec, 1024).value(), shape, {1, 2, 3, 4, 0}, x);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += (double{got[i]} - x[i]) * (double{got[i]} - x[i]);
    }
    return sum;
  };
  for (const char* bits : {"2", "4", "8"}) {
    const double ratio = error("shifted:bits=" + std::string(bits) + ",bucket=1024") /
                         error("direct:bits=" + std::string(bits) +
                               ",bucket=1024,levels=affine,rounding=stochastic");
    EXPECT_NEAR(ratio, 0.5, 0.04) << bits;
  }
}

TEST(ShiftedCodec, DrawsDifferBetweenBucketsStepsAndSamplesAndRepeat) {
  const auto codec = MakeCodec("shifted:bits=2,bucket=16", 16).value();
  const std::vector<float> x = Probes(2);
  const auto a = RoundTrip(*codec, {2, 16}, {1, 1, 0, 0, 0}, x);
  EXPECT_EQ(a, RoundTrip(*codec, {2, 16}, {1, 1, 0, 0, 0}, x));
  EXPECT_NE(a, RoundTrip(*codec, {2, 16}, {1, 2, 0, 0, 0}, x));
  EXPECT_NE(a, RoundTrip(*codec, {2, 16}, {2, 1, 0, 0, 0}, x));
  EXPECT_NE(std::vector<float>(a.begin(), a.begin() + 16),
            std::vector<float>(a.begin() + 16, a.end()));
}

// Bucket sizes that are no power of two, of which an implementation with trees of 64 threads
// missed the extremes.
TEST(ShiftedCodec, BoundsAreTheBucketsOwnWhateverItsSize) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (const std::uint32_t bucket : {1U, 3U, 5U, 17U, 48U, 63U, 65U, 100U, 513U, 1000U}) {
    std::vector<float> x(bucket * 7);
    for (float& v : x) v = normal(random);
    const auto codec =
        MakeCodec("shifted:bits=5,bucket=" + std::to_string(bucket), bucket * 7).value();
    const auto payload = Encode(*codec, {1, bucket * 7}, {}, x);
    for (std::size_t b = 0; b < 7; ++b) {
      const auto [low, high] = std::minmax_element(x.begin() + static_cast<long>(b * bucket),
                                                   x.begin() + static_cast<long>((b + 1) * bucket));
      const BucketBounds bounds = BoundsAt(payload, b);
      EXPECT_EQ(bounds.low, *low);
      EXPECT_GE(double{bounds.low} + bounds.width, *high);
      EXPECT_LE(double{bounds.low} + bounds.width, *high + 1e-6);
    }
  }
}

TEST(ShiftedCodec, BoundsAreRoundedOutward) {
  std::mt19937 random(11);
  for (int round = 0; round < 200000; ++round) {
    const auto draw = [&] {
      const float v = std::ldexp(static_cast<float>(random() % 16777216) - 8388608.0F,
                                 static_cast<int>(random() % 40) - 140 + (round % 4) * 60);
      return std::fabs(v) <= 0x1p118F ? v : 0.0F;
    };
    float low = draw(), high = round % 3 == 0 ? low + std::fabs(low) * 0x1p-22F : draw();
    if (low > high) std::swap(low, high);
    const int top = (1 << (1 + random() % 8)) - 1;
    const BucketBounds bounds = BoundsOf(low, high, top);
    const float step = bounds.width / static_cast<float>(top);
    ASSERT_LE(bounds.low, low);
    ASSERT_GE(double{bounds.low} + double{step} * top, double{high}) << low << " " << high;
    ASSERT_LE(double{bounds.width}, std::max((double{high} - bounds.low) * (1 + 1e-6), 0x1p-92));
  }
}

TEST(ShiftedCodec, ABucketOfOneValueComesBackExactly) {
  const auto codec = MakeCodec("shifted:bits=4,bucket=8", 8).value();
  for (const float value : {0.0F, 1.0F, -3.25F, 1e-20F, -1e-20F, 0x1p118F}) {
    const std::vector<float> x(24, value);
    EXPECT_EQ(RoundTrip(*codec, {3, 8}, {7, 7, 0, 0, 0}, x), x) << value;
  }
}

// An absolute floor of 1e-10 would make one value of each bucket.
TEST(ShiftedCodec, TinyValuesKeepTheirRelativeError) {
  const auto codec = MakeCodec("shifted:bits=8,bucket=64", 64).value();
  for (const float scale : {1.0F, 1e-10F, 1e-15F, 1e-25F}) {
    const auto x = Normal(64 * 64, scale);
    const auto got = RoundTrip(*codec, {64, 64}, {7, 7, 0, 0, 0}, x);
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      error += (double{got[i]} - x[i]) * (double{got[i]} - x[i]);
      norm += double{x[i]} * x[i];
    }
    EXPECT_NEAR(std::sqrt(error / norm), 0.0055, 0.0003) << scale;
  }
}

// Where steps would be subnormal they are 2^-92 / top: machines that flush differ in nothing.
TEST(ShiftedCodec, ValuesNearTheLimitsOfFp32StayWithinAStep) {
  for (const int bits : {1, 8}) {
    const auto codec = MakeCodec("shifted:bits=" + std::to_string(bits) + ",bucket=6", 6).value();
    const std::vector<float> x = {1e-38F,  -1e-40F, 0.0F,     -0.0F,     1e-30F, 0x1p-126F,
                                  -1e-33F, 1e-45F,  0x1p118F, -0x1p118F, 0.0F,   1.0F};
    const auto payload = Encode(*codec, {2, 6}, {}, x);
    const auto got = Decode(*codec, {2, 6}, {}, payload);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double step = double{BoundsAt(payload, i / 6).width} / ((1 << bits) - 1);
      EXPECT_LE(std::fabs(double{x[i]} - got[i]), step * 0.5001) << i;
      EXPECT_TRUE(got[i] == 0 || std::fpclassify(got[i]) == FP_NORMAL);
    }
  }
}

TEST(ShiftedCodec, UniformNumbersAreNeverOne) {
  std::vector<float> draws(1 << 22);
  FillUniform({5, 6, 7, 8, 1}, 9, 3, draws);
  EXPECT_LT(*std::max_element(draws.begin(), draws.end()), 1.0F);
  EXPECT_GT(*std::max_element(draws.begin(), draws.end()), 1 - 1e-5F);
  EXPECT_GE(*std::min_element(draws.begin(), draws.end()), 0.0F);
  EXPECT_EQ(static_cast<float>(0xffffffffU >> 8) * 0x1p-24F, 1 - 0x1p-24F);  // the largest
}

TEST(ShiftedCodec, EverySimdLevelGivesTheSame) {
  const auto codec = MakeCodec("shifted:bits=5,bucket=77", 77).value();
  const auto x = reference::Gaussian(31 * 77, 8, 1.0F);
  const auto first = Encode(*codec, {31, 77}, {4, 4, 4, 4, 1}, x);
  const auto values = Decode(*codec, {31, 77}, {4, 4, 4, 4, 1}, first);
  AtEveryLevel([&] {
    EXPECT_EQ(Encode(*codec, {31, 77}, {4, 4, 4, 4, 1}, x), first);
    EXPECT_EQ(Decode(*codec, {31, 77}, {4, 4, 4, 4, 1}, first), values);
  });
}

TEST(ShiftedCodec, ForeignBoundsAreChecked) {
  const auto codec = MakeCodec("shifted:bits=3,bucket=4", 4).value();
  const auto good = Encode(*codec, {1, 4}, {}, std::vector<float>{1, 2, 3, 4});
  const auto accepts = [&](std::size_t at, float value) {
    auto payload = good;
    StoreLittle(payload.data() + kHead + at, std::bit_cast<std::uint32_t>(value));
    std::vector<float> values(4);
    const SampleToDecode sample{values, false, {}};
    const bool ok = codec->Decode(payload, {&sample, 1}, {1, 4}, {}, {}).ok();
    for (const float v : values) EXPECT_TRUE(!ok || std::isfinite(v));
    return ok;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float low : {0.0F, -0x1p118F, 0x1p118F, 0x1p-100F}) EXPECT_TRUE(accepts(0, low));
  for (const float low : {infinity, -infinity, std::nanf(""), 0x1.1p118F, 0x1p-101F, -0.0F}) {
    EXPECT_FALSE(accepts(0, low)) << low;
  }
  for (const float width : {0.0F, 0x1p-92F, 0x1p120F}) EXPECT_TRUE(accepts(4, width));
  for (const float width : {-1.0F, infinity, std::nanf(""), 0x1.1p120F, 0x1p-93F, -0.0F}) {
    EXPECT_FALSE(accepts(4, width)) << width;
  }
}

TEST(ShiftedCodec, SpecsAndTheirErrors) {
  const auto canonical = [](const char* spec, std::uint32_t hidden) {
    const auto codec = MakeCodec(spec, hidden);
    return codec.ok() ? (*codec)->spec() : codec.status().message();
  };
  EXPECT_EQ(canonical("shifted:bits=8", 1024), "shifted:bits=8,bucket=1024");
  EXPECT_EQ(canonical("shifted:bits=8", 1600), "shifted:bits=8,bucket=800");
  EXPECT_EQ(canonical("shifted+rans:bucket=4,bits=3", 16), "shifted+rans:bits=3,bucket=4");
  EXPECT_NE(canonical("shifted:bits=9", 16).find("bits=1 to bits=8"), std::string::npos);
  EXPECT_NE(canonical("shifted:bits=4,bucket=5", 16).find("allowed are 1, 2, 4, 8, 16"),
            std::string::npos);
  EXPECT_NE(canonical("shifted:bits=4,feedback=on", 16).find("leave feedback out"),
            std::string::npos);
  EXPECT_NE(canonical("shifted:bits=4,levels=affine", 16).find("unknown option"),
            std::string::npos);
}

}  // namespace
}  // namespace shoal::compression
