#include "compression/codecs/feedback_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compression/api/codec.h"
#include "compression/device/device_codec.h"
#include "tests/unit/compression/device/host_queue.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

using testing::HasSubstr;

struct Sent {
  std::vector<std::byte> payload;
  std::vector<Buffer> residuals;
};

Sent Encode(const MessageCodec& codec, SampleShape shape,
            const std::vector<std::vector<float>>& values, const std::vector<Buffer>& residuals,
            const RandomKey& key, CodingStats* stats = nullptr) {
  std::vector<SampleToEncode> samples;
  for (std::size_t i = 0; i < values.size(); ++i) {
    samples.push_back({values[i], residuals[i].bytes()});
  }
  Sent sent;
  sent.payload.resize(codec.EncodedBytesMax(shape, samples.size()));
  sent.residuals.resize(samples.size());
  const auto bytes =
      codec.Encode(samples, shape, key, DeltaMode::kDelta, sent.payload, sent.residuals, stats);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  sent.payload.resize(bytes.ok() ? *bytes : 0);
  return sent;
}

std::vector<std::vector<float>> Decode(const MessageCodec& codec, SampleShape shape,
                                       const std::vector<std::byte>& payload, std::size_t count,
                                       const RandomKey& key) {
  std::vector<std::vector<float>> values(count, std::vector<float>(shape.values()));
  std::vector<SampleToDecode> samples;
  for (auto& of_sample : values) samples.push_back({of_sample, false, {}});
  EXPECT_TRUE(codec.Decode(payload, samples, shape, key, {}).ok());
  return values;
}

std::vector<float> Residual(const Buffer& image, SampleShape shape) {
  std::vector<float> values(shape.values());
  EXPECT_TRUE(CheckResidualImage(image.bytes(), shape).ok());
  ReadResidualImage(image.bytes(), values);
  return values;
}

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

class Feedback : public testing::TestWithParam<const char*> {};

// What was put in is what came out and what is left, to the precision of the residual's image; two
// samples a message, and the values have the size of gradients.
TEST_P(Feedback, NothingIsLostOverTheVisits) {
  const SampleShape shape{4, 64};
  constexpr std::size_t kSamples = 2;
  constexpr std::uint64_t kVisits = 30;
  const auto codec = MakeCodec(GetParam(), shape.hidden).value();
  EXPECT_TRUE(codec->keeps_residual());
  EXPECT_FALSE(codec->keeps_m());
  std::vector<std::vector<double>> missing(kSamples, std::vector<double>(shape.values()));
  std::vector<double> put_in(shape.values());
  std::vector<Buffer> residuals(kSamples);
  double rounding = 0;  // of the images, at most
  for (std::uint64_t visit = 0; visit < kVisits; ++visit) {
    RandomKey key;
    key.step = visit;
    std::vector<std::vector<float>> values;
    for (std::size_t s = 0; s < kSamples; ++s) {
      values.push_back(reference::Gaussian(shape.values(), visit * kSamples + s, 1e-7F));
      for (std::size_t i = 0; i < shape.values(); ++i) missing[s][i] += values[s][i];
      for (std::size_t i = 0; s == 0 && i < shape.values(); ++i) put_in[i] += values[s][i];
    }
    Sent sent = Encode(*codec, shape, values, residuals, key);
    residuals = std::move(sent.residuals);
    const auto got = Decode(*codec, shape, sent.payload, kSamples, key);
    float largest = 0;
    for (std::size_t s = 0; s < kSamples; ++s) {
      EXPECT_EQ(residuals[s].size(), codec->MImageBytes(shape));
      EXPECT_TRUE(codec->CheckMImage(residuals[s].bytes(), shape).ok());
      for (std::size_t i = 0; i < shape.values(); ++i) missing[s][i] -= got[s][i];
      for (const float r : Residual(residuals[s], shape)) largest = std::max(largest, std::abs(r));
    }
    rounding += largest * (0x1p-11 + 0x1p-22);
  }
  for (std::size_t s = 0; s < kSamples; ++s) {
    const auto left = Residual(residuals[s], shape);
    for (std::size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(missing[s][i], left[i], rounding);
  }
  // What is left is not much more than one visit brings.
  EXPECT_LT(Norm(missing[0]), 0.75 * Norm(put_in));
  EXPECT_GT(Norm(missing[0]), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, Feedback,
    testing::Values("topk:ratio=0.2,bits=8,feedback=on", "topk+rans:ratio=0.2,bits=4,feedback=on",
                    "direct:bits=2,feedback=on", "direct:bits=4,bucket=channel,feedback=on",
                    "tiles:bits=2,feedback=on", "tiles:bits=2,adaptive=on,feedback=on",
                    "tiles:bits=1,levels=midrise,feedback=on"));

TEST(FeedbackCodec, AFirstVisitIsThatOfTheInnerCodecAndLaterOnesAddTheResidual) {
  const SampleShape shape{3, 32};
  const auto codec = MakeCodec("topk:ratio=0.1,bits=8,feedback=on", shape.hidden).value();
  const OneSample inner("topk:ratio=0.1,bits=8", shape.hidden);
  const auto payload_of = [&](const std::vector<float>& x) {
    std::vector<std::byte> out(inner.EncodedBytesMax(shape));
    out.resize(inner.Encode(x, shape, {}, {}, out, nullptr).value());
    return out;
  };
  auto x = reference::Gaussian(shape.values(), 5);
  const Sent first = Encode(*codec, shape, {x}, std::vector<Buffer>(1), {});
  EXPECT_EQ(first.payload, payload_of(x));
  const auto residual = Residual(first.residuals[0], shape);
  const Sent second = Encode(*codec, shape, {x}, first.residuals, {});
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += residual[i];
  EXPECT_EQ(second.payload, payload_of(x));
  EXPECT_NE(second.payload, first.payload);
}

TEST(FeedbackCodec, StatsCompareWithValuesAndResidual) {
  const SampleShape shape{1, 64};
  const auto codec = MakeCodec("topk:ratio=0.25,bits=8,feedback=on", shape.hidden).value();
  const std::vector<float> ones(shape.values(), 1.0F);
  CodingStats stats;
  const Sent first = Encode(*codec, shape, {ones}, std::vector<Buffer>(1), {}, &stats);
  EXPECT_NEAR(stats.relative_error(), std::sqrt(0.75), 0.01);
  // A quarter of the sums is 1, the others 2: 16 of these are sent.
  stats = {};
  Encode(*codec, shape, {ones}, first.residuals, {}, &stats);
  EXPECT_NEAR(stats.relative_error(), std::sqrt((32.0 * 4 + 16) / (48.0 * 4 + 16)), 0.01);
}

TEST(FeedbackCodec, ValuesThatAreNotFiniteAreRefusedAndChangeNothing) {
  const SampleShape shape{1, 16};
  const OneSample codec("topk:ratio=0.5,bits=8,feedback=on", 16);
  std::vector<float> x(16, 1.0F);
  x[3] = std::numeric_limits<float>::infinity();
  std::vector<std::byte> out(codec.EncodedBytesMax(shape));
  Buffer next;
  EXPECT_EQ(codec.Encode(x, shape, {}, {}, out, &next).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(next.empty());
}

TEST(FeedbackCodec, DamagedResidualsAreRefused) {
  const SampleShape shape{2, 8};
  const OneSample codec("direct:bits=2,feedback=on", 8);
  const std::vector<float> x(16, 1.0F);
  std::vector<std::byte> out(codec.EncodedBytesMax(shape));
  const Buffer good = MakeResidualImage(x, shape);
  const auto encode = [&](const Buffer& image) {
    Buffer next;
    return codec.Encode(x, shape, image.bytes(), {}, out, &next).status();
  };
  EXPECT_TRUE(encode(good).ok());
  for (const std::size_t at : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 15u}) {
    Buffer bad = Buffer::CopyOf(good.bytes());
    bad.data()[at] = std::byte{0x80};
    EXPECT_EQ(encode(bad).code(), StatusCode::kInvalidArgument) << at;
    EXPECT_FALSE(codec.codec().CheckMImage(bad.bytes(), shape).ok()) << at;
  }
  EXPECT_THAT(encode(Buffer::CopyOf(good.bytes().first(47))).message(),
              HasSubstr("residual image: 47 bytes, expected 48"));
  // An m image is none.
  const OneSample aqsgd("aqsgd:bits=2,bucket=8", 8);
  std::vector<std::byte> message(aqsgd.EncodedBytesMax(shape));
  Buffer m;
  ASSERT_TRUE(aqsgd.Encode(x, shape, {}, {}, message, &m).ok());
  EXPECT_FALSE(encode(m).ok());
  EXPECT_FALSE(aqsgd.codec().CheckMImage(good.bytes(), shape).ok());
}

std::string Hex(const Buffer& buffer) {
  std::string hex;
  for (const std::byte b : buffer.bytes()) {
    hex += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    hex += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return hex;
}

// docs/WIRE.md, "Residual image".
TEST(FeedbackCodec, ResidualImageBytes) {
  const SampleShape shape{1, 4};
  // 3 = 1.5 x 2^1: the exponent is 1 - 14 = -13.
  EXPECT_EQ(Hex(MakeResidualImage(std::vector{3.0F, -1.0F, 0.0F, 0x1p-13F}, shape)),
            "02f3100100000000"
            "0400000000000000"
            "007600f00000003c");
  EXPECT_EQ(Hex(MakeResidualImage(std::vector<float>(4), shape)),
            "0200100100000000"
            "0400000000000000"
            "0000000000000000");
}

TEST(FeedbackCodec, ResidualImagesKeepElevenBitsOfValuesOfAnySize) {
  const SampleShape shape{4, 64};
  for (int exponent = -140; exponent <= 118; exponent += 3) {
    SCOPED_TRACE(exponent);
    auto x = reference::Gaussian(shape.values(), 7);
    for (float& v : x) v = std::ldexp(v / 32, exponent);
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::abs(v));
    const auto got = Residual(MakeResidualImage(x, shape), shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Below 2^-88 the smallest half is 2^-126.
      const double floor = std::max<double>(largest * 0x1p-39, 0x1p-126);
      EXPECT_LE(std::abs(double{got[i]} - x[i]), std::max(std::abs(x[i]) * 0x1p-11, floor));
    }
  }
}

TEST(FeedbackCodec, SpecsSayWhatIsAllowed) {
  const auto error = [](const char* spec) {
    return std::string(MakeCodec(spec, 64).status().message());
  };
  EXPECT_THAT(error("raw:dtype=fp16,feedback=on"), HasSubstr("raw leaves nothing to feed back"));
  EXPECT_THAT(error("aqsgd:bits=2,feedback=on"), HasSubstr("aqsgd needs no feedback"));
  EXPECT_THAT(error("aqsgd:delta=topk:ratio=0.2/bits=8/feedback=on"),
              HasSubstr("aqsgd needs no feedback"));
  EXPECT_THAT(error("aqsgd:bits=2,first_visit=direct:bits=8/feedback=off"),
              HasSubstr("leave feedback out"));
  EXPECT_THAT(error("topk:ratio=0.2,bits=8,feedback=yes"),
              HasSubstr("feedback=yes; allowed are off, on"));
  EXPECT_THAT(error("topk:ratio=0.2,bits=8,feedbak=on"), HasSubstr("bucket, feedback"));
  EXPECT_THAT(error("magic:feedback=on"), HasSubstr("unknown codec 'magic'"));
  EXPECT_EQ(MakeCodec("topk:feedback=on,bits=8,ratio=0.2", 64).value()->spec(),
            "topk:ratio=0.2,bits=8,bucket=128,feedback=on");
  EXPECT_THAT(error("dithered:step=1,feedback=on"), HasSubstr("right on average"));
  EXPECT_THAT(error("direct:bits=4,rounding=stochastic,feedback=on"),
              HasSubstr("right on average"));
  EXPECT_THAT(error("tiles:bits=1,feedback=on"), HasSubstr("take levels=midrise or bits=2"));
  EXPECT_THAT(error("direct:bits=1,levels=affine,feedback=on"), HasSubstr("one affine bit"));
  EXPECT_TRUE(MakeCodec("direct:bits=1,feedback=on", 64).ok());
  EXPECT_EQ(MakeCodec("dithered:step=1,feedback=off", 64).value()->spec(), "dithered:step=1");
  const auto off = MakeCodec("topk:ratio=0.2,bits=8,feedback=off", 64).value();
  EXPECT_EQ(off->spec(), "topk:ratio=0.2,bits=8,bucket=128");
  EXPECT_FALSE(off->keeps_residual());
}

TEST(FeedbackCodec, IsForGradientsAsAqsgdIsForActivations) {
  const auto topk = MakeCodec("topk:ratio=0.2,bits=8,feedback=on", 64).value();
  const auto aqsgd = MakeCodec("aqsgd:bits=2", 64).value();
  const auto direct = MakeCodec("direct:bits=8", 64).value();
  EXPECT_TRUE(CheckDirections(*aqsgd, *topk).ok());
  EXPECT_TRUE(CheckDirections(*direct, *direct).ok());
  EXPECT_THAT(CheckDirections(*topk, *direct).message(),
              HasSubstr("take aqsgd:delta=topk:ratio=0.2/bits=8/bucket=128, whose m"));
  EXPECT_THAT(CheckDirections(*direct, *aqsgd).message(), HasSubstr("is not right on average"));
  // What the error names can be made.
  EXPECT_TRUE(MakeCodec("aqsgd:delta=topk:ratio=0.2/bits=8/bucket=128", 64).ok());
}

TEST(FeedbackCodec, HasNoFormOnADevice) {
  const auto codec = NewDeviceCodec("direct:bits=4,feedback=on", 64, std::make_unique<HostQueue>());
  EXPECT_EQ(codec.status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace shoal::compression
