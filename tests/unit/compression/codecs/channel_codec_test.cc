// Scales per channel: the authors' numbers, and the shared rules against a slow reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compression/api/codec.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kHeader = 16;

struct Coded {
  std::vector<std::byte> payload;
  std::vector<std::vector<float>> values;
};

// All samples in one message, there and back.
Coded Code(const std::string& spec, SampleShape shape,
           const std::vector<std::vector<float>>& samples) {
  const auto codec = MakeCodec(spec, shape.hidden).value();
  std::vector<SampleToEncode> in;
  for (const auto& sample : samples) in.push_back({sample, {}});
  Coded coded;
  coded.payload.resize(codec->EncodedBytesMax(shape, samples.size()));
  const auto bytes = codec->Encode(in, shape, {}, DeltaMode::kDelta, coded.payload, {}, nullptr);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  coded.payload.resize(bytes.ok() ? *bytes : 0);
  coded.values.assign(samples.size(), std::vector<float>(shape.values()));
  std::vector<SampleToDecode> out;
  for (auto& values : coded.values) out.push_back({values, false, {}});
  const Status status = codec->Decode(coded.payload, out, shape, {}, {});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return coded;
}

TEST(ChannelCodec, TheAuthorsGoldenVectors) {
  // One channel, five tokens, scale 1. The authors pack the same codes most significant bit first.
  const std::vector<float> x = {1, -1, 0.5F, -0.25F, 0.1F};
  const struct {
    int bits;
    std::vector<unsigned> codes;
    std::vector<std::uint8_t> packed_by_authors;
    std::vector<float> values;
  } cases[] = {{4, {15, 0, 12, 6, 9}, {0xf0, 0xc6, 0x90}, {0.875F, -1, 0.5F, -0.25F, 0.125F}},
               {3, {7, 0, 6, 3, 4}, {0xe3, 0x38}, {0.75F, -1, 0.5F, -0.25F, 0}},
               {2, {3, 0, 3, 2, 2}, {0xce, 0x80}, {0.5F, -1, 0.5F, 0, 0}}};
  for (const auto& c : cases) {
    const std::string spec =
        "direct:bits=" + std::to_string(c.bits) + ",bucket=channel,levels=authors";
    const Coded coded = Code(spec, {5, 1}, {x});
    const auto codes = std::span(coded.payload).subspan(kHeader + 2);
    std::vector<std::uint8_t> packed(c.packed_by_authors.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const unsigned code = reference::CodeAt(codes, c.bits, i);
      EXPECT_EQ(code, c.codes[i]) << c.bits << " " << i;
      for (int b = 0; b < c.bits; ++b) {
        const std::size_t at = i * static_cast<std::size_t>(c.bits) + static_cast<std::size_t>(b);
        const unsigned bit = code >> (c.bits - 1 - b) & 1U;
        packed[at / 8] = static_cast<std::uint8_t>(packed[at / 8] | bit << (7 - at % 8));
      }
    }
    EXPECT_EQ(packed, c.packed_by_authors);
    EXPECT_EQ(coded.values[0], c.values);
  }
}

TEST(ChannelCodec, TheAuthorsArithmeticOneValueAtATime) {
  const SampleShape shape{9, 7};
  for (int bits = 2; bits <= 8; ++bits) {
    // Down to gradients that fp16 cannot hold: their defects are part of the variant.
    for (const float factor : {1.0F, 1e-5F, 1e-9F}) {
      const std::vector<std::vector<float>> samples = {
          reference::Gaussian(shape.values(), 1, factor),
          reference::Gaussian(shape.values(), 2, factor)};
      const Coded coded = Code(
          "direct:bits=" + std::to_string(bits) + ",bucket=channel,levels=authors", shape, samples);
      const double half = std::ldexp(1, bits - 1);
      for (std::size_t c = 0; c < shape.hidden; ++c) {
        double most = 0;
        for (const auto& sample : samples) {
          for (std::size_t t = 0; t < shape.tokens; ++t) {
            most = std::max(most, std::fabs(double{sample[t * shape.hidden + c]}));
          }
        }
        const double scale = reference::HalfValue(reference::HalfOf(most));
        const double by = reference::HalfValue(
            reference::HalfOf(static_cast<float>(scale) + static_cast<float>(1e-6)));
        for (std::size_t i = 0; i < samples.size(); ++i) {
          for (std::size_t at = c; at < shape.values(); at += shape.hidden) {
            const float scaled = samples[i][at] / static_cast<float>(by);
            const double whole = std::nearbyint(double{scaled} * half);
            const double code = std::min(std::max(whole, -half), half - 1);
            ASSERT_EQ(coded.values[i][at], static_cast<float>(code / half * scale));
          }
        }
      }
    }
  }
}

TEST(ChannelCodec, OneScalePerChannelServesAllSamplesAndNoLevelIsNearer) {
  const SampleShape shape{6, 12};
  for (const char* levels : {"midrise", "midtread", "affine"}) {
    for (int bits = 2; bits <= 8; ++bits) {
      std::vector<std::vector<float>> samples;
      for (std::uint64_t i = 0; i < 3; ++i) {
        samples.push_back(reference::Gaussian(shape.values(), i));
      }
      const std::string spec =
          "direct:bits=" + std::to_string(bits) + ",bucket=channel,levels=" + std::string(levels);
      const Coded coded = Code(spec, shape, samples);
      for (std::size_t c = 0; c < shape.hidden; ++c) {
        float low = 0, high = 0;
        for (const auto& sample : samples) {
          for (std::size_t at = c; at < shape.values(); at += shape.hidden) {
            low = std::min(low, sample[at]);
            high = std::max(high, sample[at]);
          }
        }
        const double range = std::string(levels) == "affine"
                                 ? (double{high} - low) * (1 + 0x1p-6)
                                 : 2 * std::max(double{-low}, double{high}) * (1 + 0x1p-7);
        const double steps = std::ldexp(1, bits) - (std::string(levels) == "midrise"  ? 0
                                                    : std::string(levels) == "affine" ? 1
                                                                                      : 2);
        for (std::size_t i = 0; i < samples.size(); ++i) {
          for (std::size_t at = c; at < shape.values(); at += shape.hidden) {
            ASSERT_LE(std::fabs(samples[i][at] - coded.values[i][at]),
                      range / steps / 2 * (1 + 1e-4))
                << spec;
          }
        }
      }
    }
  }
}

TEST(ChannelCodec, BytesDependOnTheShapeOnlyAndAForeignScaleIsRefused) {
  const SampleShape shape{5, 3};
  for (const char* levels : {"midrise", "authors"}) {
    const std::string spec = "direct:bits=4,bucket=channel,levels=" + std::string(levels);
    Coded coded = Code(spec, shape, {reference::Gaussian(15, 1), reference::Gaussian(15, 2)});
    EXPECT_EQ(coded.payload.size(), kHeader + 3 * 2 + 2 * 2 * 4);
    coded.payload[kHeader + 1] = std::byte{0xff};
    const auto codec = MakeCodec(spec, shape.hidden).value();
    std::vector<float> values(15);
    const SampleToDecode out[] = {{values, false, {}}, {{}, false, {}}};
    const Status status = codec->Decode(coded.payload, out, shape, {}, {});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("scale 0"), std::string::npos) << status.ToString();
  }
}

TEST(ChannelCodec, AqsgdBuildsOnIt) {
  const OneSample codec("aqsgd:bits=3,bucket=channel,levels=authors,first_visit=raw:dtype=fp32", 8);
  EXPECT_EQ(codec.spec(), "aqsgd:bits=3,bucket=channel,levels=authors,first_visit=raw:dtype=fp32");
  const SampleShape shape{16, 8};
  const auto x = reference::Gaussian(shape.values(), 3);
  auto y = reference::Gaussian(shape.values(), 4, 0.1F);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  std::vector<std::byte> out(codec.EncodedBytesMax(shape));
  Buffer m, next, got;
  ASSERT_TRUE(codec.Encode(x, shape, {}, {}, out, &m).ok());
  const auto bytes = codec.Encode(y, shape, m.bytes(), {}, out, &next);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  std::vector<float> values(shape.values());
  ASSERT_TRUE(codec.Decode(std::span(out).first(*bytes), shape, m.bytes(), {}, values, &got).ok());
  ASSERT_EQ(next.size(), got.size());
  EXPECT_EQ(std::memcmp(next.data(), got.data(), got.size()), 0);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(values[i], y[i], 0.3);
}

}  // namespace
}  // namespace shoal::compression
