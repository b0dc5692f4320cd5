// `tiles` against a reference that follows docs/WIRE.md one value at a time.

#include "compression/codecs/tiles_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compression/simd/tile_kernels.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

// The transform as it is specified, every value of every stride on its own.
std::vector<float> Rotated(std::vector<float> x, std::size_t tile, float factor) {
  for (float& v : x) v *= factor;
  for (std::size_t h = 1; h < tile; h *= 2) {
    std::vector<float> next(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      next[i] = i / h % 2 == 0 ? x[i] + x[i + h] : x[i - h] - x[i];
    }
    x = next;
  }
  return x;
}

// Value i of H x by its definition: signs are the parity of common bits.
double Coefficient(std::span<const float> x, std::size_t tile, std::size_t i) {
  double sum = 0;
  for (std::size_t j = 0; j < tile; ++j) {
    const double v = x[i / tile * tile + j];
    sum += std::popcount(i % tile & j) % 2 == 0 ? v : -v;
  }
  return sum;
}

double Norm(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  return std::sqrt(sum);
}

struct Coded {
  std::vector<std::byte> payload;
  std::vector<float> values;
};

Coded Code(const OneSample& codec, SampleShape shape, std::span<const float> x) {
  Coded coded;
  std::vector<std::byte> out(codec.EncodedBytesMax(shape));
  Buffer next;
  const auto bytes = codec.Encode(x, shape, {}, {}, out, &next);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  coded.payload.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes.value()));
  coded.values.assign(shape.values(), std::nanf(""));
  const Status status = codec.Decode(coded.payload, shape, {}, {}, coded.values, &next);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return coded;
}

double RelativeError(const std::string& spec, SampleShape shape, std::span<const float> x) {
  std::vector<float> missed = Code(OneSample(spec, shape.hidden), shape, x).values;
  for (std::size_t i = 0; i < missed.size(); ++i) missed[i] -= x[i];
  return Norm(missed) / Norm(x);
}

TEST(Tiles, RotationIsTheReferenceAtEveryLevel) {
  AtEveryLevel([] {
    for (std::size_t tile = 1; tile <= kTileMax; tile *= 2) {
      for (const std::size_t tiles : {1, 2, 5, 16}) {
        const auto x = reference::Gaussian(tile * tiles, tile + tiles);
        // One value off, so that nothing relies on alignment.
        std::vector<float> y(x.size() + 1);
        RotateTiles(x.data(), x.size(), tile, 0.25F, y.data() + 1);
        const std::vector<float> want = Rotated(x, tile, 0.25F);
        for (std::size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i + 1]), std::bit_cast<std::uint32_t>(want[i]))
              << tile << " " << i;
          ASSERT_NEAR(want[i], Coefficient(x, tile, i) / 4, 1e-5 * static_cast<double>(tile));
        }
        auto in_place = x;
        RotateTiles(in_place.data(), x.size(), tile, 0.25F, in_place.data());
        ASSERT_TRUE(std::equal(in_place.begin(), in_place.end(), y.begin() + 1));
      }
    }
  });
}

TEST(Tiles, RangesAreTheSmallestAndTheLargestAtEveryLevel) {
  AtEveryLevel([] {
    for (const std::size_t bucket : {1, 3, 8, 64, 100}) {
      const auto x = reference::Gaussian(4 * bucket, bucket);
      std::vector<float> low(4), high(4);
      BucketRanges(x.data(), 4, bucket, low.data(), high.data());
      for (std::size_t b = 0; b < 4; ++b) {
        const auto from = x.begin() + static_cast<std::ptrdiff_t>(b * bucket);
        const auto [least, most] =
            std::minmax_element(from, from + static_cast<std::ptrdiff_t>(bucket));
        EXPECT_EQ(low[b], *least);
        EXPECT_EQ(high[b], *most);
      }
    }
  });
}

TEST(Tiles, FactorsUndoTheRotation) {
  for (std::uint32_t tile = 1; tile <= kTileMax; tile *= 2) {
    EXPECT_EQ(TileFactor(tile) * TileBackFactor(tile) * static_cast<float>(tile), 1.0F);
    EXPECT_LE(TileFactor(tile), TileBackFactor(tile));
    EXPECT_GE(TileFactor(tile) * 2, TileBackFactor(tile));
  }
  EXPECT_EQ(TileFactor(64), 0.125F);
}

TEST(Tiles, TheTileIsTheLargestPowerOfTwoThatDividesTheHiddenSize) {
  EXPECT_EQ(OneSample("tiles:bits=4", 1600).spec(), "tiles:bits=4,tile=64");
  EXPECT_EQ(OneSample("tiles:bits=4", 96).spec(), "tiles:bits=4,tile=32");
  EXPECT_EQ(OneSample("tiles:bits=4", 7).spec(), "tiles:bits=4,tile=1");
  EXPECT_EQ(OneSample("tiles+rans:levels=midrise,bits=2,tile=128", 768).spec(),
            "tiles+rans:bits=2,tile=128,levels=midrise");
  EXPECT_THAT(MakeCodec("tiles:bits=4,tile=64", 96).status().message(),
              HasSubstr("tile=64; allowed are powers of two that divide the hidden size 96, here "
                        "1 to 32"));
  EXPECT_THAT(MakeCodec("tiles:bits=4,tile=24", 96).status().message(), HasSubstr("tile=24"));
}

// Made by a separate program from docs/WIRE.md.
TEST(Tiles, GoldenBytes) {
  const std::vector<float> x = {1.0F,  -1.0F, 0.5F, -0.25F, 0.1F, 0.0F,  0.75F, -0.6F,
                                3.01F, -0.3F, 2.0F, -3.0F,  0.0F, 1e-3F, 7.0F,  -0.125F};
  const Coded coded = Code(OneSample("tiles:bits=3", 8), {2, 8}, x);
  std::string hex;
  for (const std::byte b : coded.payload) {
    for (const int digit : {std::to_integer<int>(b) >> 4, std::to_integer<int>(b) & 15}) {
      hex += "0123456789abcdef"[digit];
    }
  }
  EXPECT_EQ(hex, "050203230800000010000000000000009abd873f0ec07740390081bd9099");
  const std::uint32_t values[] = {0x3f544001, 0xbf77edb8, 0x3ef7edb8, 0xbea54924,
                                  0x3e254924, 0x33000000, 0x3f4e9b6e, 0xbf254925,
                                  0x40520000, 0x33800000, 0x3fde4924, 0xc05e4925,
                                  0xb4000000, 0x33800000, 0x40de4925, 0x34800000};
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(coded.values[i]), values[i]) << i;
  }
}

// The levels that a payload stands for, before they are rotated back.
std::vector<float> AffineLevels(std::span<const std::byte> body, std::size_t n, std::size_t tile,
                                int bits) {
  std::vector<float> levels(n);
  const auto codes = body.subspan(n / tile * 4);
  for (std::size_t i = 0; i < n; ++i) {
    const auto low = static_cast<float>(reference::ScaleAt(body, i / tile * 2));
    const auto high = static_cast<float>(reference::ScaleAt(body, i / tile * 2 + 1));
    const float step = (high - low) / static_cast<float>((1 << bits) - 1);
    const float scaled = static_cast<float>(reference::CodeAt(codes, bits, i)) * step;
    levels[i] = scaled + low;
  }
  return levels;
}

TEST(Tiles, DecodingIsTheReferenceAndEveryLevelIsTheNearest) {
  for (const SampleShape shape : {SampleShape{3, 192}, SampleShape{5, 24}, SampleShape{2, 7}}) {
    const std::size_t n = shape.values();
    const std::size_t tile = LargestTile(shape.hidden, 64);
    for (int bits = 1; bits <= 8; ++bits) {
      const OneSample codec("tiles:bits=" + std::to_string(bits), shape.hidden);
      const auto x = reference::Gaussian(n, static_cast<std::uint64_t>(bits));
      const Coded coded = Code(codec, shape, x);
      ASSERT_EQ(coded.payload.size(),
                16 + n / tile * 4 + (n + 7) / 8 * static_cast<std::size_t>(bits));
      const auto body = std::span(coded.payload).subspan(16);
      const auto levels = AffineLevels(body, n, tile, bits);
      const auto back = TileBackFactor(static_cast<std::uint32_t>(tile));
      ASSERT_EQ(coded.values, Rotated(levels, tile, back)) << codec.spec();
      const auto rotated = Rotated(x, tile, TileFactor(static_cast<std::uint32_t>(tile)));
      for (std::size_t i = 0; i < n; ++i) {
        const double width =
            reference::ScaleAt(body, i / tile * 2 + 1) - reference::ScaleAt(body, i / tile * 2);
        const double step = width / ((1 << bits) - 1);
        ASSERT_LE(std::fabs(double{levels[i]} - rotated[i]), step * 0.505) << codec.spec();
      }
    }
  }
}

// One value of a tile far out is what the rotation is for.
TEST(Tiles, RelativeErrorsAreBelowThoseOfBuckets) {
  const SampleShape shape{64, 1024};
  const auto x = reference::Gaussian(shape.values(), 5);
  const auto error = [&](const std::string& spec) { return RelativeError(spec, shape, x); };
  EXPECT_LT(error("tiles:bits=2,tile=128,levels=midrise"), 0.42);
  EXPECT_GT(error("direct:bits=2"), 0.55);
  EXPECT_LT(error("tiles:bits=3"), 0.20);
  EXPECT_LT(error("tiles:bits=4"), 0.092);
  EXPECT_GT(error("direct:bits=4,bucket=64"), 0.10);
  EXPECT_LT(error("tiles:bits=8"), 0.0055);
}

TEST(Tiles, AnEntropyCoderMakesNoDifferenceToTheValues) {
  const SampleShape shape{32, 128};
  const auto x = reference::Gaussian(shape.values(), 6);
  const Coded plain = Code(OneSample("tiles:bits=4", 128), shape, x);
  for (const char* spec : {"tiles+rans:bits=4", "tiles+zstd:bits=4"}) {
    const Coded staged = Code(OneSample(spec, 128), shape, x);
    EXPECT_EQ(staged.values, plain.values);
    EXPECT_LE(staged.payload.size(), plain.payload.size() + 1);
    if (std::string(spec) == "tiles+rans:bits=4") {
      EXPECT_LT(staged.payload.size(), plain.payload.size());
    }
  }
}

TEST(Tiles, ExtremesStayFinite) {
  const SampleShape shape{2, 128};
  for (const float size : {0x1p118F, 0x1p-89F, 0x1p-95F, 0x1p-140F, 0.0F}) {
    std::vector<float> x(shape.values());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? -size : size;
    for (const char* spec : {"tiles:bits=1", "tiles:bits=8", "tiles:bits=8,tile=128"}) {
      const Coded coded = Code(OneSample(spec, 128), shape, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(std::isfinite(coded.values[i]));
        // Below the least bound the error is of its size, and what is there is no subnormal.
        const float magnitude = std::fabs(coded.values[i]);
        ASSERT_TRUE(magnitude == 0 || magnitude >= 0x1p-126F) << size;
        if (std::string(spec) == "tiles:bits=8") {
          ASSERT_NEAR(coded.values[i], x[i], std::max(size * 0.2F, 0x1p-86F)) << size;
        }
      }
    }
  }
}

TEST(Tiles, ForeignBoundsAreCheckedAndTheirSumsStayFinite) {
  const SampleShape shape{1, 128};
  const OneSample codec("tiles:bits=8,tile=128", 128);
  const auto x = reference::Gaussian(shape.values(), 8);
  Coded coded = Code(codec, shape, x);
  const auto decode = [&](std::uint16_t low, std::uint16_t high) {
    std::memcpy(coded.payload.data() + 16, &low, 2);
    std::memcpy(coded.payload.data() + 18, &high, 2);
    Buffer next;
    return codec.Decode(coded.payload, shape, {}, {}, coded.values, &next);
  };
  EXPECT_TRUE(decode(0x8000 | 248 << 7, 248 << 7).ok());
  std::fill(coded.payload.begin() + 20, coded.payload.end(), std::byte{0xff});
  EXPECT_TRUE(decode(0, 248 << 7).ok());
  for (const float v : coded.values) ASSERT_TRUE(std::isfinite(v));
  EXPECT_TRUE(decode(0x8000 | kTileScaleBitsMin, kTileScaleBitsMin).ok());
  for (const auto& [low, high] :
       {std::pair{0, kTileScaleBitsMin - 1}, std::pair{0x8000, 0x3f80}, std::pair{0x3f80, 0x3f00},
        std::pair{0, (248 << 7) + 1}, std::pair{0, 0x7f80}, std::pair{0x3f80, 0}}) {
    EXPECT_THAT(decode(static_cast<std::uint16_t>(low), static_cast<std::uint16_t>(high)).message(),
                HasSubstr("scale"));
  }
}

TEST(Tiles, AFirstVisitByTilesStartsM) {
  const SampleShape shape{4, 64};
  const auto x = reference::Gaussian(shape.values(), 9);
  const OneSample codec("aqsgd:bits=3,first_visit=tiles:bits=4", 64);
  EXPECT_EQ(codec.spec(), "aqsgd:bits=3,bucket=64,first_visit=tiles:bits=4/tile=64");
  std::vector<std::byte> out(codec.EncodedBytesMax(shape));
  Buffer m;
  const auto bytes = codec.Encode(x, shape, {}, {}, out, &m);
  ASSERT_TRUE(bytes.ok());
  const Coded plain = Code(OneSample("tiles:bits=4", 64), shape, x);
  EXPECT_TRUE(std::equal(plain.payload.begin(), plain.payload.end(), out.begin() + 16));
  EXPECT_EQ(reference::ReadImage(m.bytes()), reference::ImageOf(plain.values));
}

}  // namespace
}  // namespace shoal::compression
