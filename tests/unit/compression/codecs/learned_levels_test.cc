#include "compression/codecs/learned_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "common/bytes.h"
#include "common/checksum.h"
#include "compression/api/codec.h"
#include "compression/codecs/learned_codec.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kBucket = 1024;

std::vector<float> Normal(std::size_t n, unsigned seed = 7) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

const LevelHistogram& NormalHistogram() {
  static const LevelHistogram histogram = HistogramOf(Normal(400 * kBucket), kBucket);
  return histogram;
}

std::vector<float> RoundTrip(const std::string& spec, std::span<const float> x) {
  const auto codec = MakeCodec(spec, kBucket).value();
  const SampleShape shape{static_cast<std::uint32_t>(x.size() / kBucket), kBucket};
  std::vector<std::byte> out(codec->EncodedBytesMax(shape, 1));
  const SampleToEncode sample{x, {}};
  const auto bytes = codec->Encode({&sample, 1}, shape, {}, DeltaMode::kDelta, out, {}, nullptr);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  std::vector<float> got(x.size());
  const SampleToDecode wanted{got, false, {}};
  const Status status =
      codec->Decode(std::span(out).first(bytes.value()), {&wanted, 1}, shape, {}, {});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return got;
}

double SquaredError(std::span<const float> x, std::span<const float> got) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += (double{x[i]} - got[i]) * (double{x[i]} - got[i]);
  }
  return sum;
}

// Value by value: where in the range of its bucket.
TEST(LearnedLevels, AHistogramCountsPlacesInEachBucketsOwnRange) {
  const auto x = Normal(10 * 96 + 50);
  std::vector<double> expected(kLevelBins);
  for (std::size_t first = 0; first < x.size(); first += 96) {
    const std::size_t end = std::min(first + 96, x.size());
    const double low = *std::min_element(&x[first], &x[end - 1] + 1);
    const double high = *std::max_element(&x[first], &x[end - 1] + 1);
    for (std::size_t i = first; i < end; ++i) {
      const double bin = std::floor((x[i] - low) / (high - low) * 256);
      expected[static_cast<std::size_t>(std::min(bin, 255.0))] += 1;
    }
  }
  const LevelHistogram histogram = HistogramOf(x, 96);
  EXPECT_EQ(std::vector<double>(histogram.begin(), histogram.end()), expected);
  const LevelHistogram none = HistogramOf(std::vector<float>(100, 3.0F), 32);
  EXPECT_EQ(std::accumulate(none.begin(), none.end(), 0.0F), 0.0F);
}

// What a quantiser with levels at equal distances loses against one that learned them, measured on
// values of other buckets: a table of reference figures for Gaussian values in buckets of 1024.
TEST(LearnedLevels, GainsOverEqualDistancesAreThoseOfLloydsOptimum) {
  const auto x = Normal(200 * kBucket, 99);
  const double gains[] = {0, 0, 3.13, 1.97, 1.62, 1.53};
  for (int bits = 2; bits <= 5; ++bits) {
    const std::string spec = "learned:bits=" + std::to_string(bits);
    const LevelTable levels = LearnLevels(NormalHistogram(), bits).value();
    const double learned = SquaredError(x, RoundTrip(spec + ",levels=" + LevelText(levels), x));
    const double uniform = SquaredError(x, RoundTrip(spec, x));
    EXPECT_NEAR(uniform / learned, gains[bits], 0.03 * gains[bits]) << bits;
  }
}

// The mean squared error of rounding to the nearest point, in units of the squared range; values of
// a bin count as spread over it.
double LevelError(std::span<const float> counts, std::span<const std::uint16_t> levels) {
  double error = 0, mass = 0;
  for (std::size_t i = 0; i < kLevelBins; ++i) {
    const double low = static_cast<double>(i) / kLevelBins, high = low + 1.0 / kLevelBins;
    mass += counts[i];
    for (std::size_t k = 0; k < levels.size(); ++k) {
      const double point = levels[k] / 65535.0;
      const double from = k == 0 ? 0 : (levels[k - 1] / 65535.0 + point) / 2;
      const double to = k + 1 == levels.size() ? 1 : (levels[k + 1] / 65535.0 + point) / 2;
      const double a = std::max(low, from) - point, b = std::min(high, to) - point;
      if (a < b) error += counts[i] * kLevelBins * (b * b * b - a * a * a) / 3;
    }
  }
  return error / mass;
}

// The best points for a histogram, by dynamic programming over all borders between bins.
double BestError(const LevelHistogram& counts, std::size_t points) {
  constexpr std::size_t kN = kLevelBins;
  const auto error = [&](std::size_t from, std::size_t to) {
    double mass = 0, first = 0, second = 0;
    for (std::size_t i = from; i < to; ++i) {
      const double a = static_cast<double>(i) / kN, b = a + 1.0 / kN, w = counts[i];
      mass += w;
      first += w * (a + b) / 2;
      second += w * (a * a + a * b + b * b) / 3;
    }
    return mass == 0 ? 0 : second - first * first / mass;
  };
  std::vector<std::vector<double>> cost(kN + 1, std::vector<double>(kN + 1));
  for (std::size_t from = 0; from < kN; ++from) {
    for (std::size_t to = from + 1; to <= kN; ++to) cost[from][to] = error(from, to);
  }
  std::vector<double> best(kN + 1, 1e300);
  best[0] = 0;
  for (std::size_t p = 0; p < points; ++p) {
    std::vector<double> next(kN + 1, 1e300);
    next[0] = 0;
    for (std::size_t to = 1; to <= kN; ++to) {
      for (std::size_t from = 0; from < to; ++from) {
        next[to] = std::min(next[to], best[from] + cost[from][to]);
      }
    }
    best = next;
  }
  return best[kN] / std::accumulate(counts.begin(), counts.end(), 0.0);
}

TEST(LearnedLevels, ComeWithinTwoPercentOfTheBestThereIs) {
  std::mt19937_64 random(3);
  std::gamma_distribution<float> skew(2);
  std::vector<float> skewed(100 * kBucket);
  for (float& v : skewed) v = skew(random);
  for (const LevelHistogram& histogram :
       {NormalHistogram(), HistogramOf(skewed, kBucket), HistogramOf(Normal(4096), 16)}) {
    for (int bits = 1; bits <= 4; ++bits) {
      const LevelTable levels = LearnLevels(histogram, bits).value();
      EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end(), std::less_equal<>()));
      const double error = LevelError(histogram, levels);
      EXPECT_LE(error, 1.02 * BestError(histogram, std::size_t{1} << bits)) << bits;
      EXPECT_LT(error, LevelError(histogram, UniformLevels(bits)));
    }
  }
}

TEST(LearnedLevels, TheErrorOfAHistogramIsThatOfItsValues) {
  // Values spread over [0, 1] with a density that grows: t^2 of a uniform t has density 1/(2 sqrt).
  std::vector<float> counts(kLevelBins);
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> uniform;
  const LevelTable levels = LearnLevels(NormalHistogram(), 3).value();
  double sum = 0;
  constexpr int kDraws = 400000;
  for (int i = 0; i < kDraws; ++i) {
    const double t = uniform(random), x = t * t;
    ++counts[static_cast<std::size_t>(x * 256)];
    double nearest = 1;
    for (const std::uint16_t level : levels) {
      nearest = std::min(nearest, std::fabs(x - level / 65535.0));
    }
    sum += nearest * nearest;
  }
  EXPECT_NEAR(LevelError(counts, levels) / (sum / kDraws), 1, 0.01);
}

// Each member counts its own part; what they add up gives all of them the same table as one that
// saw everything, whatever the order.
TEST(LearnedLevels, AddedHistogramsOfMembersGiveTheTableOfAllValues) {
  auto x = Normal(64 * kBucket);
  const LevelHistogram all = HistogramOf(x, kBucket);
  LevelHistogram sum{};
  for (const std::size_t part : {3U, 0U, 2U, 1U}) {
    const LevelHistogram own =
        HistogramOf(std::span(x).subspan(part * 16 * kBucket, 16 * kBucket), kBucket);
    for (std::size_t i = 0; i < kLevelBins; ++i) sum[i] += own[i];
  }
  EXPECT_EQ(sum, all);
  for (std::size_t b = 0; b < 64; ++b) {
    std::shuffle(x.begin() + static_cast<long>(b * kBucket),
                 x.begin() + static_cast<long>((b + 1) * kBucket), std::mt19937(1));
  }
  EXPECT_EQ(HistogramOf(x, kBucket), all);
  for (int bits = 1; bits <= 5; ++bits) {
    EXPECT_EQ(LearnLevels(sum, bits).value(), LearnLevels(all, bits).value());
  }
}

TEST(LearnedLevels, HistogramsThatSayLittleGiveTablesAllTheSame) {
  std::vector<float> counts(kLevelBins);
  EXPECT_EQ(LearnLevels(counts, 4).value(), UniformLevels(4));
  counts[17] = 1;  // everything in one bin
  for (int bits = 1; bits <= 5; ++bits) {
    const LevelTable levels = LearnLevels(counts, bits).value();
    EXPECT_EQ(levels.size(), std::size_t{1} << bits);
    for (std::size_t k = 1; k < levels.size(); ++k) EXPECT_GT(levels[k], levels[k - 1]);
    EXPECT_LE(LevelError(counts, levels), 1.01 * LevelError(counts, UniformLevels(bits)));
  }
  for (const std::size_t end : {std::size_t{0}, kLevelBins - 1}) {
    std::fill(counts.begin(), counts.end(), 0.0F);
    counts[end] = 0x1p100F;
    EXPECT_TRUE(LearnLevels(counts, 5).ok());
  }
}

TEST(LearnedLevels, WrongHistogramsAndBitsAreRefused) {
  std::vector<float> counts(kLevelBins, 1.0F);
  EXPECT_FALSE(LearnLevels(counts, 0).ok());
  EXPECT_FALSE(LearnLevels(counts, 6).ok());
  EXPECT_FALSE(LearnLevels(std::span(counts).first(255), 4).ok());
  for (const float wrong : {-1.0F, std::nanf(""), INFINITY, 0x1.1p100F}) {
    counts[3] = wrong;
    EXPECT_FALSE(LearnLevels(counts, 4).ok()) << wrong;
  }
}

TEST(LearnedLevels, TextsComeBack) {
  EXPECT_EQ(LevelText(UniformLevels(2)), "00005555aaaaffff");
  for (int bits = 1; bits <= 5; ++bits) {
    const LevelTable levels = LearnLevels(NormalHistogram(), bits).value();
    EXPECT_EQ(ParseLevels(LevelText(levels), bits).value(), levels);
  }
  for (const char* wrong :
       {"", "0000", "00005555aaaafff", "00005555aaaaffff0", "00005555aaaaaaaa", "00005555aaaa9999",
        "0000 555aaaaffff", "0000-555aaaaffff", "0x005555aaaaffff", "00005555aaaagggg"}) {
    EXPECT_FALSE(ParseLevels(wrong, 2).ok()) << wrong;
  }
}

// Bytes of a program that follows docs/WIRE.md.
TEST(LearnedCodec, BytesAndValuesArePinned) {
  const std::vector<float> x = {1.0F,  -1.0F, 0.5F,  -0.25F, 0.1F, 0.0F, 0.75F, -0.6F,    3.01F,
                                -0.3F, 2.0F,  -3.0F, 0.0F,   0.0F, 0.0F, 0.0F,  70000.0F, 1e-3F};
  const auto codec = MakeCodec("learned:bits=2,bucket=6,levels=080050009000f000", 6).value();
  std::vector<std::byte> out(codec->EncodedBytesMax({3, 6}, 1));
  const SampleToEncode sample{x, {}};
  ASSERT_EQ(codec->Encode({&sample, 1}, {3, 6}, {}, DeltaMode::kDelta, out, {}, nullptr).value(),
            out.size());
  std::string hex;
  for (const std::byte b : out) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[std::to_integer<unsigned>(b) >> 4];
    hex += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  EXPECT_EQ(hex.substr(0, 32), "0a020201060000001200000000000000");
  constexpr unsigned char kTable[] = {0x00, 0x08, 0x00, 0x50, 0x00, 0x90, 0x00, 0xf0};
  EXPECT_EQ(LoadLittle<std::uint64_t>(out.data() + 16),
            Checksum64(std::as_bytes(std::span(kTable))));
  EXPECT_EQ(hex.substr(48), "000080bf00000040000040c0ec51c0400000000000b88847636a3b000300");
  std::vector<float> got(18);
  const SampleToDecode wanted{got, false, {}};
  ASSERT_TRUE(codec->Decode(out, {&wanted, 1}, {3, 6}, {}, {}).ok());
  const std::vector<float> expected = {0.8750286102294922F,
                                       -0.9374990463256836F,
                                       0.1250171661376953F,
                                       -0.37499046325683594F,
                                       0.1250171661376953F,
                                       0.1250171661376953F,
                                       0.3806767463684082F,
                                       -1.121846318244934F,
                                       2.6344614028930664F,
                                       0.3806767463684082F,
                                       2.6344614028930664F,
                                       -2.8121845722198486F,
                                       2187.533447265625F,
                                       2187.533447265625F,
                                       2187.533447265625F,
                                       2187.533447265625F,
                                       65626.0F,
                                       2187.533447265625F};
  EXPECT_EQ(got, expected);
}

TEST(LearnedCodec, EveryValueBecomesTheNearestPointOfTheTable) {
  const auto x = Normal(8 * kBucket, 12);
  for (int bits = 1; bits <= 5; ++bits) {
    for (const std::string coder : {"", "+rans"}) {
      const LevelTable levels = LearnLevels(NormalHistogram(), bits).value();
      const auto got = RoundTrip(
          "learned" + coder + ":bits=" + std::to_string(bits) + ",levels=" + LevelText(levels), x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto bucket = std::span(x).subspan(i / kBucket * kBucket, kBucket);
        const double low = *std::min_element(bucket.begin(), bucket.end());
        const double width = *std::max_element(bucket.begin(), bucket.end()) - low;
        double nearest = 1e9;
        for (const std::uint16_t level : levels) {
          nearest = std::min(nearest, std::fabs(low + width * (level / 65535.0) - x[i]));
        }
        ASSERT_NEAR(std::fabs(double{got[i]} - x[i]), nearest, 2e-6);
      }
    }
  }
}

TEST(LearnedCodec, AnotherTableIsAnError) {
  const LevelTable a = UniformLevels(3);
  LevelTable b = a;
  ++b[3];
  const auto one = MakeCodec("learned:bits=3,bucket=8,levels=" + LevelText(a), 8).value();
  const auto two = MakeCodec("learned:bits=3,bucket=8,levels=" + LevelText(b), 8).value();
  EXPECT_NE(one->spec(), two->spec());
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<std::byte> out(one->EncodedBytesMax({1, 8}, 1));
  const SampleToEncode sample{x, {}};
  ASSERT_TRUE(one->Encode({&sample, 1}, {1, 8}, {}, DeltaMode::kDelta, out, {}, nullptr).ok());
  std::vector<float> got(8);
  const SampleToDecode wanted{got, false, {}};
  EXPECT_TRUE(one->Decode(out, {&wanted, 1}, {1, 8}, {}, {}).ok());
  const Status status = two->Decode(out, {&wanted, 1}, {1, 8}, {}, {});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("another table of levels"), std::string::npos);
}

TEST(LearnedCodec, SpecsAndTheirErrors) {
  EXPECT_EQ(MakeCodec("learned:bits=2", 1024).value()->spec(),
            "learned:bits=2,bucket=1024,levels=00005555aaaaffff");
  for (const char* wrong :
       {"learned:bits=6", "learned", "learned:bits=2,levels=0000", "learned:bits=2,bucket=5",
        "learned:bits=2,feedback=on", "learned:bits=2,rounding=stochastic"}) {
    EXPECT_FALSE(MakeCodec(wrong, 1024).ok()) << wrong;
  }
}

}  // namespace
}  // namespace shoal::compression
