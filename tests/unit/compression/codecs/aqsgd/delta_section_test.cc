// The two ways to code changes give the same bytes and images: over whole samples, which
// is the slow and obvious one, and block by block.

#include "compression/codecs/aqsgd/delta_section.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compression/codecs/direct_codec.h"
#include "compression/codecs/scaled/scaled_codec.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

struct Case {
  SampleShape shape;
  std::size_t samples;
  int bits;
  std::uint32_t bucket;
  EntropyCoder coder;
  bool scaled;
  float loud;  // of every third channel and one token
};

struct Message {
  std::vector<std::vector<float>> values;
  std::vector<Buffer> m;
  std::vector<SampleToEncode> samples;
};

Message Draw(const Case& one) {
  const std::size_t n = one.shape.values();
  Message message;
  for (std::size_t i = 0; i < one.samples; ++i) {
    std::vector<float> base = reference::Gaussian(n, 2 * i + 1);
    const std::vector<float> change = reference::Gaussian(n, 2 * i + 2, 0.1F);
    std::vector<float> x(n);
    for (std::size_t j = 0; j < n; ++j) {
      const bool loud = j % one.shape.hidden % 3 == 0;
      base[j] *= (loud ? one.loud : 1.0F) * (j < one.shape.hidden ? one.loud : 1.0F);
      x[j] = base[j] + change[j] * (loud ? one.loud : 1.0F);
    }
    auto image = MFormat(16).Make(base, one.shape, "test");
    EXPECT_TRUE(image.ok()) << image.status().ToString();
    message.values.push_back(std::move(x));
    message.m.push_back(std::move(*image));
  }
  for (std::size_t i = 0; i < one.samples; ++i) {
    message.samples.push_back({message.values[i], message.m[i].bytes()});
  }
  return message;
}

bool SameBytes(const Buffer& a, const Buffer& b) {
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

class DeltaSection : public testing::TestWithParam<Case> {};

TEST_P(DeltaSection, BothWaysAreTheSame) {
  const Case& one = GetParam();
  const auto direct = MidRiseCodec(one.bits, one.bucket, one.coder);
  std::shared_ptr<const PlainCodec> codec = direct;
  if (one.scaled) codec = std::make_shared<const ScaledCodec>(direct);
  const Message message = Draw(one);
  const DeltaContext context{one.shape, RandomKey{}, "test"};
  std::vector<std::byte> whole(codec->EncodedBytesMax(one.shape, one.samples));
  std::vector<std::byte> blocks(whole.size());
  std::vector<Buffer> whole_m(one.samples), blocks_m(one.samples);
  CodingStats whole_stats, blocks_stats;
  const auto whole_bytes =
      EncodeDeltas(*codec, MFormat(16), message.samples, context, whole, whole_m, &whole_stats);
  const OnePassFormat format{direct->format(), one.scaled};
  const auto blocks_bytes =
      EncodeDeltasOnePass(format, message.samples, context, blocks, blocks_m, &blocks_stats);
  ASSERT_TRUE(whole_bytes.ok()) << whole_bytes.status().ToString();
  ASSERT_TRUE(blocks_bytes.ok()) << blocks_bytes.status().ToString();
  whole.resize(*whole_bytes);
  blocks.resize(*blocks_bytes);
  EXPECT_EQ(whole, blocks);
  for (std::size_t i = 0; i < one.samples; ++i) EXPECT_TRUE(SameBytes(whole_m[i], blocks_m[i]));
  EXPECT_EQ(whole_stats.changes, blocks_stats.changes);
  EXPECT_EQ(whole_stats.changes.tokens(), one.samples * one.shape.tokens);
  // Of a share of the blocks, which are not cut alike.
  EXPECT_NEAR(whole_stats.errors, blocks_stats.errors, 0.02 * whole_stats.errors);

  std::vector<std::vector<float>> out(2 * one.samples, std::vector<float>(one.shape.values()));
  std::vector<SampleToDecode> first, second;
  for (std::size_t i = 0; i < one.samples; ++i) {
    first.push_back({out[i], true, message.m[i].bytes()});
    second.push_back({out[one.samples + i], true, message.m[i].bytes()});
  }
  std::vector<Buffer> first_m(one.samples), second_m(one.samples);
  ASSERT_TRUE(DecodeDeltas(*codec, MFormat(16), whole, first, context, first_m).ok());
  ASSERT_TRUE(DecodeDeltasOnePass(format, whole, second, context, second_m).ok());
  for (std::size_t i = 0; i < one.samples; ++i) {
    EXPECT_EQ(out[i], out[one.samples + i]);
    EXPECT_TRUE(SameBytes(first_m[i], whole_m[i]));
    EXPECT_TRUE(SameBytes(second_m[i], whole_m[i]));
  }
}

constexpr EntropyCoder kNone = EntropyCoder::kNone, kRans = EntropyCoder::kRans;
INSTANTIATE_TEST_SUITE_P(
    Cases, DeltaSection,
    testing::Values(
        Case{{64, 128}, 2, 3, 128, kNone, false, 1}, Case{{64, 128}, 2, 3, 128, kNone, true, 30},
        // Blocks that begin within a token, and a last one that is shorter.
        Case{{40, 96}, 3, 3, 12, kNone, true, 30}, Case{{333, 48}, 1, 2, 16, kNone, true, 100},
        Case{{64, 128}, 2, 2, 128, kRans, true, 30},
        // Alike channels: no exponents. Too few tokens: none either.
        Case{{64, 128}, 2, 4, 128, kNone, true, 1}, Case{{8, 128}, 1, 4, 128, kNone, true, 30},
        // So large that the images need another exponent.
        Case{{64, 128}, 2, 3, 128, kNone, true, 3000}));

TEST(DeltaSectionTest, BrokenChannelScalesAreAnError) {
  const Case one{{64, 128}, 1, 3, 128, kNone, true, 30};
  const auto direct = MidRiseCodec(one.bits, one.bucket, one.coder);
  const ScaledCodec codec(direct);
  const Message message = Draw(one);
  const DeltaContext context{one.shape, RandomKey{}, "test"};
  std::vector<std::byte> payload(codec.EncodedBytesMax(one.shape, 1));
  std::vector<Buffer> next(1);
  const OnePassFormat format{direct->format(), true};
  const auto bytes = EncodeDeltasOnePass(format, message.samples, context, payload, next, nullptr);
  ASSERT_TRUE(bytes.ok());
  std::vector<float> out(one.shape.values());
  const std::vector<SampleToDecode> sample = {{out, true, message.m[0].bytes()}};
  for (const std::size_t cut : {0u, 15u, 17u, 21u, 60u}) {
    const Status status =
        DecodeDeltasOnePass(format, std::span(payload).first(cut), sample, context, next);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << cut;
  }
}

}  // namespace
}  // namespace shoal::compression
