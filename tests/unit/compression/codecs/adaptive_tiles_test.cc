// `tiles` with adaptive=on: where the bits go, and what both ends make of them.

#include "compression/codecs/adaptive_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "compression/codecs/tiles_codec.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

struct Coded {
  std::vector<std::byte> payload;
  std::vector<float> values;
};

Coded Code(const OneSample& codec, SampleShape shape, std::span<const float> x) {
  Coded coded;
  coded.payload.resize(codec.EncodedBytesMax(shape));
  Buffer next;
  const auto bytes = codec.Encode(x, shape, {}, {}, coded.payload, &next);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  coded.payload.resize(bytes.value());
  coded.values.assign(shape.values(), std::nanf(""));
  const Status status = codec.Decode(coded.payload, shape, {}, {}, coded.values, &next);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return coded;
}

double RelativeError(std::span<const float> x, std::span<const float> got) {
  double missed = 0;
  double all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    missed += std::pow(double{x[i]} - got[i], 2);
    all += std::pow(x[i], 2);
  }
  return std::sqrt(missed / all);
}

// Tokens whose energies differ as those of gradients do.
std::vector<float> UnevenTokens(SampleShape shape, double spread, std::uint64_t seed = 3) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<float> x;
  for (std::uint32_t t = 0; t < shape.tokens; ++t) {
    const double size = std::exp(spread * normal(random));
    for (std::uint32_t i = 0; i < shape.hidden; ++i) {
      x.push_back(static_cast<float>(size * normal(random)));
    }
  }
  return x;
}

double Cost(std::span<const float> ranges, std::span<const std::uint8_t> widths) {
  double cost = 0;
  for (std::size_t t = 0; t < ranges.size(); ++t) {
    cost += std::pow(ranges[t] / (std::ldexp(1, widths[t]) - 1), 2);
  }
  return cost;
}

// Made by a separate program from docs/WIRE.md, which tried all widths.
TEST(AdaptiveTiles, GoldenBytes) {
  const std::vector<float> x = {1.0F,  -1.0F, 0.5F, -0.25F, 0.1F, 0.0F,  0.75F, -0.6F,
                                3.01F, -0.3F, 2.0F, -3.0F,  0.0F, 1e-3F, 7.0F,  -0.125F};
  const Coded coded = Code(OneSample("tiles:bits=3,adaptive=on", 8), {2, 8}, x);
  std::string hex;
  for (const std::byte b : coded.payload) {
    for (const int digit : {std::to_integer<int>(b) >> 4, std::to_integer<int>(b) & 15}) {
      hex += "0123456789abcdef"[digit];
    }
  }
  EXPECT_EQ(hex, "050203630800000010000000000000009abd873f0ec077400d0d84fb04629c");
  const std::uint32_t values[] = {0x3f823aaa, 0xbf710aab, 0x3f10a000, 0xbe40d557,
                                  0x3e40d554, 0x3e40d554, 0x3f710aaa, 0xbf10a000,
                                  0x40450888, 0xbe4f777c, 0x3fe96668, 0xc0428000,
                                  0x3e4f7788, 0x3e4f7774, 0x40e2eaaa, 0xbe4f7788};
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(coded.values[i]), values[i]) << i;
  }
}

// No other widths of the same sum are better: all are tried.
TEST(AdaptiveTiles, WidthsAreTheBestOfAll) {
  std::mt19937_64 random(4);
  for (int bits = 1; bits <= 8; ++bits) {
    const int least = LeastTileWidth(bits);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> ranges(5);
      for (float& r : ranges) r = std::exp(static_cast<float>(random() % 1000) / 200.0F);
      if (round == 0) ranges[2] = 0;
      if (round == 1) std::fill(ranges.begin(), ranges.end(), 0.0F);
      const auto widths = TileWidths(ranges, bits);
      ASSERT_EQ(std::accumulate(widths.begin(), widths.end(), 0), bits * 5);
      const double cost = Cost(ranges, widths);
      for (int all = 0; all < 1024; ++all) {
        std::vector<std::uint8_t> other;
        for (int t = 0; t < 5; ++t) {
          other.push_back(static_cast<std::uint8_t>(least + (all >> 2 * t & 3)));
        }
        if (std::accumulate(other.begin(), other.end(), 0) != bits * 5) continue;
        ASSERT_LE(cost, Cost(ranges, other) * (1 + 1e-5)) << bits << " " << round;
      }
    }
  }
}

// One value at a time: the level of each rotated value, then the tile rotated back.
void CheckTile(std::span<const std::byte> codes, int width, float low, float high,
               std::span<const float> x, std::span<const float> got) {
  const float step = (high - low) / static_cast<float>((1 << width) - 1);
  std::vector<float> y;
  for (std::size_t i = 0; i < 16; ++i) {
    const float scaled = static_cast<float>(reference::CodeAt(codes, width, i)) * step;
    y.push_back((scaled + low) * 0.25F);
  }
  for (std::size_t h = 1; h < 16; h *= 2) {
    for (std::size_t i = 0; i < 16; ++i) {
      if (i / h % 2 != 0) continue;
      const float a = y[i];
      const float b = y[i + h];
      y[i] = a + b;
      y[i + h] = a - b;
    }
  }
  for (std::size_t i = 0; i < 16; ++i) {
    ASSERT_EQ(got[i], y[i]);
    // An orthonormal rotation adds up to 16 errors of half a step, each divided by 4.
    ASSERT_NEAR(y[i], x[i], 4 * 0.51 * step);
  }
}

TEST(AdaptiveTiles, DecodingIsTheReference) {
  for (int round = 0; round < 8000; ++round) {
    const int bits = 1 + round % 8;
    const SampleShape shape{1 + static_cast<std::uint32_t>(round / 8 % 3), 48};
    const std::size_t tiles = shape.values() / 16;
    const OneSample codec("tiles:adaptive=on,bits=" + std::to_string(bits), 48);
    ASSERT_EQ(codec.spec(), "tiles:bits=" + std::to_string(bits) + ",tile=16,adaptive=on");
    const auto x = UnevenTokens(shape, 1.5, static_cast<std::uint64_t>(round));
    const Coded coded = Code(codec, shape, x);
    const auto body = std::span(coded.payload).subspan(16);
    const auto widths = body.subspan(tiles * 4, (tiles + 3) / 4);
    std::size_t at = tiles * 4 + widths.size();
    for (std::size_t t = 0; t < tiles; ++t) {
      SCOPED_TRACE(codec.spec() + " tile " + std::to_string(t));
      const int width =
          LeastTileWidth(bits) + (std::to_integer<int>(widths[t / 4]) >> t % 4 * 2 & 3);
      const auto low = static_cast<float>(reference::ScaleAt(body, 2 * t));
      const auto high = static_cast<float>(reference::ScaleAt(body, 2 * t + 1));
      ASSERT_NO_FATAL_FAILURE(CheckTile(body.subspan(at), width, low, high,
                                        std::span(x).subspan(16 * t, 16),
                                        std::span(coded.values).subspan(16 * t, 16)));
      at += 2 * static_cast<std::size_t>(width);
    }
    ASSERT_EQ(at, body.size());
    const std::size_t codes = shape.values() / 8 * static_cast<std::size_t>(bits);
    ASSERT_EQ(at, tiles * 4 + (tiles + 3) / 4 + codes);
  }
}

TEST(AdaptiveTiles, UnevenTokensGainAndEvenOnesLoseNothing) {
  const SampleShape shape{128, 128};
  for (const int bits : {2, 3, 4, 6}) {
    const std::string spec = "tiles:bits=" + std::to_string(bits);
    const auto error = [&](const char* options, double spread) {
      const auto x = UnevenTokens(shape, spread);
      return RelativeError(x, Code(OneSample(spec + options, 128), shape, x).values);
    };
    EXPECT_LT(error(",adaptive=on", 1.0), error("", 1.0) * 0.75);
    EXPECT_LT(error(",adaptive=on", 0.0), error("", 0.0) * 1.02);
  }
}

TEST(AdaptiveTiles, ForeignWidthsAreChecked) {
  const SampleShape shape{3, 48};  // nine tiles
  const OneSample codec("tiles:adaptive=on,bits=4,levels=midrise", 48);
  const Coded coded = Code(codec, shape, UnevenTokens(shape, 1));
  const std::size_t widths = 16 + 9 * 2;
  const auto error = [&](std::vector<std::byte> payload) {
    std::vector<float> values(shape.values());
    Buffer next;
    const Buffer copy = Buffer::CopyOf(payload);
    return std::string(codec.Decode(copy.bytes(), shape, {}, {}, values, &next).message());
  };
  EXPECT_EQ(error(coded.payload), "");
  auto wider = coded.payload;
  wider[widths] ^= std::byte{1};
  EXPECT_THAT(error(wider), HasSubstr("expected 4 each on average"));
  auto padded = coded.payload;
  padded[widths + 2] |= std::byte{4};
  EXPECT_THAT(error(padded), HasSubstr("padding bits behind the widths"));
  auto scaled = coded.payload;
  scaled[17] = std::byte{0x7f};
  EXPECT_THAT(error(scaled), HasSubstr("scale 0 "));
  for (std::size_t n = 0; n < coded.payload.size(); ++n) {
    EXPECT_NE(
        error({coded.payload.begin(), coded.payload.begin() + static_cast<std::ptrdiff_t>(n)}), "");
  }
  auto longer = coded.payload;
  longer.push_back(std::byte{0});
  EXPECT_NE(error(longer), "");
}

TEST(AdaptiveTiles, BothEndsOfADeltaAgree) {
  const SampleShape shape{4, 64};
  const OneSample codec("aqsgd:delta=tiles:bits=2/adaptive=on/rounding=stochastic", 64);
  EXPECT_THAT(codec.spec(), HasSubstr("tiles:bits=2/tile=64/rounding=stochastic/adaptive=on"));
  Buffer m;
  for (std::uint64_t visit = 0; visit < 4; ++visit) {
    const auto x = reference::Gaussian(shape.values(), visit);
    std::vector<std::byte> out(codec.EncodedBytesMax(shape));
    std::vector<float> got(shape.values());
    const RandomKey key{1, visit, 0, 0, 0};
    Buffer ours;
    Buffer theirs;
    const auto bytes = codec.Encode(x, shape, m.bytes(), key, out, &ours);
    ASSERT_TRUE(bytes.ok());
    ASSERT_TRUE(
        codec.Decode(std::span(out).first(*bytes), shape, m.bytes(), key, got, &theirs).ok());
    ASSERT_TRUE(std::equal(ours.bytes().begin(), ours.bytes().end(), theirs.bytes().begin(),
                           theirs.bytes().end()));
    m = std::move(ours);
  }
}

TEST(AdaptiveTiles, SpecsSayWhatIsNeeded) {
  for (const char* spec :
       {"tiles+rans:bits=4,adaptive=on", "tiles:bits=4,levels=midtread,adaptive=on",
        "tiles:bits=4,levels=midrise,scale=optimal,adaptive=on",
        "tiles:bits=4,tile=4,adaptive=on"}) {
    EXPECT_THAT(MakeCodec(spec, 64).status().message(), HasSubstr("adaptive=on needs a tile"))
        << spec;
  }
  EXPECT_EQ(OneSample("tiles:bits=4,adaptive=off", 64).spec(), "tiles:bits=4,tile=64");
}

}  // namespace
}  // namespace shoal::compression
