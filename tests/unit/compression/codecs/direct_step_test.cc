// direct:step=S: levels S times the rms of their bucket apart.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compression/api/codec.h"
#include "compression/registry/codec_registry.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

using testing::HasSubstr;

constexpr SampleShape kShape{32, 96};

std::vector<float> Decoded(const std::string& spec, const std::vector<float>& x) {
  const OneSample codec(spec, kShape.hidden);
  std::vector<std::byte> out(codec.EncodedBytesMax(kShape));
  const auto bytes = codec.Encode(x, kShape, {}, {}, out, nullptr);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  std::vector<float> values(x.size());
  const Status status =
      codec.Decode(std::span(out).first(bytes.ok() ? *bytes : 0), kShape, {}, {}, values, nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return values;
}

double MeanSquare(const float* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return sum / static_cast<double>(n);
}

// The slow and obvious one: where levels end (a bf16), and how far they are apart, in each bucket.
std::vector<double> Scales(const std::vector<float>& x, std::size_t bucket, int bits, double step) {
  const int center = (1 << (bits - 1)) - 1;
  std::vector<double> scales;
  for (std::size_t at = 0; at < x.size(); at += bucket) {
    double most = 0;
    for (std::size_t i = at; i < at + bucket; ++i) most = std::max(most, std::fabs(double{x[i]}));
    const double reach = step * center * std::sqrt(MeanSquare(&x[at], bucket));
    scales.push_back(most == 0 ? 0 : reference::RoundTo(std::max(reach, most / 2), 8, -133));
  }
  return scales;
}

// Every value is a level of its bucket's scale, and none is nearer.
void ExpectNearestLevels(const std::vector<float>& x, const std::vector<float>& got,
                         const std::vector<double>& scales, std::size_t bucket, int bits) {
  const int center = (1 << (bits - 1)) - 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double apart = scales[i / bucket] / center;
    if (apart == 0) {
      ASSERT_EQ(got[i], 0.0F) << i;
      continue;
    }
    const double level = got[i] / apart;
    ASSERT_NEAR(level, std::nearbyint(level), 1e-4) << i;
    const double nearest =
        std::clamp(std::nearbyint(x[i] / apart), double(-center), double(center));
    ASSERT_LE(std::fabs(x[i] - got[i]), std::fabs(x[i] - nearest * apart) + 1e-4 * apart) << i;
  }
}

TEST(DirectStep, IsTheReference) {
  for (const int bits : {2, 3, 4, 5, 8}) {
    for (const char* step : {"0.3", "0.7", "1.25"}) {
      for (const std::uint32_t bucket : {96u, 32u, 3u}) {
        const std::string spec = "direct:bits=" + std::to_string(bits) + ",step=" + step +
                                 ",bucket=" + std::to_string(bucket);
        SCOPED_TRACE(spec);
        auto x = reference::Gaussian(kShape.values(), 7);
        for (std::size_t i = 0; i < 96; ++i) x[i] = 0;
        for (std::size_t i = 96; i < 192; ++i) x[i] *= 50;
        x[300] = 30;
        const auto scales = Scales(x, bucket, bits, std::stod(step));
        ASSERT_NO_FATAL_FAILURE(ExpectNearestLevels(x, Decoded(spec, x), scales, bucket, bits));
      }
    }
  }
}

TEST(DirectStep, SquaresMayLeaveTheRangeOfFloats) {
  for (const float size : {1e19F, 1e25F, 1e-22F, 1e-25F}) {
    auto x = reference::Gaussian(kShape.values(), 5);
    for (float& value : x) value *= size;
    const auto scales = Scales(x, 96, 4, 0.7);
    ASSERT_NO_FATAL_FAILURE(
        ExpectNearestLevels(x, Decoded("direct:bits=4,step=0.7", x), scales, 96, 4));
  }
}

TEST(DirectStep, TheWholeTokenIsTheBucketAndTheErrorIsThatOfTheStep) {
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;  // none beyond what 4 bits reach
  std::vector<float> x(kShape.values());
  for (float& value : x) value = normal(engine);
  const auto codec = MakeCodec("direct+zstd:bits=4,step=0.7", kShape.hidden);
  ASSERT_TRUE(codec.ok());
  EXPECT_EQ((*codec)->spec(), "direct+zstd:bits=4,bucket=96,step=0.7");
  const std::vector<float> got = Decoded((*codec)->spec(), x);
  double error = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(double{x[i]} - got[i], 2);
    all += std::pow(double{x[i]}, 2);
  }
  EXPECT_NEAR(std::sqrt(error / all), 0.7 / std::sqrt(12), 0.01);
}

// The worst for a mean: one value of a token changed, all others not at all.
TEST(DirectStep, ASingleValueLosesAtMostHalfOfItself) {
  for (const std::size_t hidden : {8u, 96u, 4096u}) {
    std::vector<float> x(hidden);
    x[5] = -3;
    const OneSample codec("direct:bits=4,step=0.7", static_cast<std::uint32_t>(hidden));
    const SampleShape shape{1, static_cast<std::uint32_t>(hidden)};
    std::vector<std::byte> out(codec.EncodedBytesMax(shape));
    const auto bytes = codec.Encode(x, shape, {}, {}, out, nullptr);
    ASSERT_TRUE(bytes.ok());
    std::vector<float> values(hidden);
    ASSERT_TRUE(codec.Decode(std::span(out).first(*bytes), shape, {}, {}, values, nullptr).ok());
    EXPECT_LE(std::fabs(values[5] + 3), 0.505 * 3);
    values[5] = 0;
    EXPECT_EQ(values, std::vector<float>(hidden));
  }
}

TEST(DirectStep, RefusesWhatDoesNotGoTogether) {
  const auto why = [](const std::string& spec) {
    return std::string(MakeCodec(spec, 96).status().message());
  };
  EXPECT_THAT(why("direct:bits=4,step=0.7,levels=midrise"), HasSubstr("leave one out"));
  EXPECT_THAT(why("direct:bits=4,step=0.7,scale=optimal"), HasSubstr("leave one out"));
  EXPECT_THAT(why("direct:bits=4,step=0.7,rounding=stochastic"), HasSubstr("leave one out"));
  EXPECT_THAT(why("direct:bits=4,step=0.7,bucket=channel"), HasSubstr("leave one out"));
  EXPECT_THAT(why("direct:bits=1,step=0.7"), HasSubstr("take bits=2"));
  EXPECT_THAT(why("direct:bits=4,step=5"), HasSubstr("step"));
  EXPECT_THAT(why("aqsgd:bits=4,step=1.5"), HasSubstr("theorem"));
  // What is no step at all is not a matter of theorems.
  for (const char* step : {"abc", "5", "0.01", "-1"}) {
    EXPECT_THAT(why("aqsgd:bits=4,step=" + std::string(step)), HasSubstr("0.05 to 4"));
  }
  EXPECT_TRUE(MakeCodec("aqsgd:bits=4,step=1.4", 96).ok());
  EXPECT_TRUE(MakeCodec("direct:bits=4,step=4", 96).ok());
  EXPECT_FALSE(TraitsOf("direct:bits=4,step=0.7")->device_form);
  EXPECT_FALSE(TraitsOf("aqsgd:bits=4,step=0.7")->device_form);
}

}  // namespace
}  // namespace shoal::compression
