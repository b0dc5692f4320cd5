// Channel scales around another codec: exact scaling, what they are chosen from, and what they
// save.

#include "compression/codecs/scaled/scaled_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compression/codecs/codec_entry.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/dithered/dithered_entry.h"
#include "compression/codecs/scaled/channel_scales.h"

namespace shoal::compression {
namespace {

using Samples = std::vector<std::vector<float>>;

constexpr SampleShape kShape{64, 96};
constexpr std::size_t kSamples = 4;
constexpr RandomKey kKey{7, 3, 1, 2, 0};

Samples Gaussian(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Samples samples(kSamples, std::vector<float>(kShape.values()));
  for (auto& sample : samples) {
    for (float& value : sample) value = normal(random);
  }
  return samples;
}

// Multiplies channels in all tokens.
void Raise(Samples* samples, std::initializer_list<std::size_t> channels, float factor) {
  for (auto& sample : *samples) {
    for (std::size_t t = 0; t < kShape.tokens; ++t) {
      for (const std::size_t c : channels) sample[t * kShape.hidden + c] *= factor;
    }
  }
}

std::vector<std::span<const float>> Views(const Samples& samples) {
  return {samples.begin(), samples.end()};
}
std::vector<std::span<float>> Targets(Samples* samples) {
  return {samples->begin(), samples->end()};
}

PlainPointer Make(const std::string& text) {
  const auto spec = ParseCodecSpec(text, ',');
  EXPECT_TRUE(spec.ok());
  auto codec = DitheredEntry().make_plain(*spec, kShape.hidden);
  EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  return *codec;
}

struct Message {
  std::vector<std::byte> bytes;
  Samples decoded;
};

Message Encode(const PlainCodec& codec, const Samples& samples) {
  Message message{std::vector<std::byte>(codec.EncodedBytesMax(kShape, kSamples)), samples};
  const auto size =
      codec.Encode(Views(samples), kShape, kKey, message.bytes, Targets(&message.decoded));
  EXPECT_TRUE(size.ok()) << size.status().ToString();
  message.bytes.resize(size.ok() ? *size : 0);
  return message;
}

Samples Decode(const PlainCodec& codec, const std::vector<std::byte>& bytes) {
  Samples out(kSamples, std::vector<float>(kShape.values()));
  const Status status = codec.Decode(bytes, kShape, kKey, Targets(&out));
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

// Relative error over the channels that `in` wants.
template <typename In>
double ErrorOf(const Samples& x, const Samples& y, const In& in) {
  double errors = 0, squares = 0;
  for (std::size_t s = 0; s < x.size(); ++s) {
    for (std::size_t i = 0; i < x[s].size(); ++i) {
      if (!in(i % kShape.hidden)) continue;
      errors += std::pow(double{x[s][i]} - y[s][i], 2);
      squares += std::pow(double{x[s][i]}, 2);
    }
  }
  return std::sqrt(errors / squares);
}

TEST(ScaledCodecTest, DecodesToWhatEncodeSaid) {
  Samples samples = Gaussian(1);
  Raise(&samples, {3, 50, 95}, 40);
  for (const char* spec : {"dithered:step=0.7,channels=on", "dithered:error=0.1,channels=on",
                           "dithered:step=1,channels=on,dither=off"}) {
    const PlainPointer codec = Make(spec);
    const Message message = Encode(*codec, samples);
    EXPECT_EQ(Decode(*codec, message.bytes), message.decoded) << spec;
  }
}

TEST(ScaledCodecTest, IsTheOtherCodecOnValuesDividedByPowersOfTwo) {
  Samples samples = Gaussian(2);
  Raise(&samples, {10}, 32);
  const auto exponents = FitChannelExponents(Views(samples), kShape);
  ASSERT_EQ(exponents.size(), kShape.hidden);
  Samples divided = samples;
  for (auto& sample : divided) {
    for (std::size_t i = 0; i < sample.size(); ++i) {
      sample[i] /= std::exp2(static_cast<float>(exponents[i % kShape.hidden]));
    }
  }
  const DitheredCodec inner(DitherGoal::kStep, 0.7, {.typical = true});
  Message expected = Encode(inner, divided);
  for (auto& sample : expected.decoded) {
    for (std::size_t i = 0; i < sample.size(); ++i) {
      sample[i] *= std::exp2(static_cast<float>(exponents[i % kShape.hidden]));
    }
  }
  const Message message = Encode(*Make("dithered:step=0.7,channels=on"), samples);
  EXPECT_EQ(message.decoded, expected.decoded);
  // The other codec's section is the end of the message.
  ASSERT_GT(message.bytes.size(), expected.bytes.size());
  EXPECT_TRUE(std::equal(expected.bytes.rbegin(), expected.bytes.rend(), message.bytes.rbegin()));
}

TEST(ScaledCodecTest, LoudChannelsDoNotCoarsenTheOthers) {
  const Samples plain = Gaussian(3);
  Samples loud = plain;
  Raise(&loud, {3, 50, 95}, 40);
  const auto ordinary = [](std::size_t c) { return c != 3 && c != 50 && c != 95; };
  const PlainPointer scaled = Make("dithered:step=0.7,channels=on");
  const PlainPointer unscaled = Make("dithered:step=0.7");
  const double before = ErrorOf(plain, Encode(*scaled, plain).decoded, ordinary);
  const double after = ErrorOf(loud, Encode(*scaled, loud).decoded, ordinary);
  EXPECT_LT(after, 1.5 * before);
  EXPECT_GT(ErrorOf(loud, Encode(*unscaled, loud).decoded, ordinary), 4 * before);
  // And they cost hardly more than without: about three bits a channel.
  EXPECT_LT(Encode(*scaled, loud).bytes.size(), 1.1 * Encode(*scaled, plain).bytes.size());
}

TEST(ScaledCodecTest, OneLargeTokenCoarsensNothing) {
  const Samples plain = Gaussian(4);
  Samples sink = plain;
  for (auto& sample : sink) {
    sample[5] = 2400;
    sample[60] = -1500;
  }
  const PlainPointer codec = Make("dithered:step=0.7,channels=on");
  const auto ordinary = [](std::size_t c) { return c != 5 && c != 60; };
  EXPECT_LT(ErrorOf(sink, Encode(*codec, sink).decoded, ordinary),
            1.6 * ErrorOf(plain, Encode(*codec, plain).decoded, ordinary));
}

// Most tokens are nearly silent (padding), so that the step is tiny for the others, all of whose
// values are far from what a table holds: each takes four bytes beside its code.
TEST(ScaledCodecTest, AMessageWhoseLoudTokensAreAllEscapesHasRoom) {
  constexpr SampleShape kNarrow{512, 16};
  std::mt19937_64 random(8);
  std::normal_distribution<float> normal;
  Samples samples(16, std::vector<float>(kNarrow.values()));
  for (auto& sample : samples) {
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const bool silent = i / kNarrow.hidden <= kNarrow.tokens / 2;
      sample[i] = silent ? 1e-9F * normal(random) : std::copysign(1e3F, normal(random));
    }
  }
  for (const char* spec : {"dithered:step=0.0625,channels=on", "dithered:error=0.02,channels=on",
                           "dithered:step=1,channels=on,dither=off"}) {
    const auto parsed = ParseCodecSpec(spec, ',');
    const PlainPointer codec = DitheredEntry().make_plain(*parsed, kNarrow.hidden).value();
    std::vector<std::byte> bytes(codec->EncodedBytesMax(kNarrow, samples.size()));
    Samples decoded = samples, out = samples;
    const auto size = codec->Encode(Views(samples), kNarrow, kKey, bytes, Targets(&decoded));
    ASSERT_TRUE(size.ok()) << size.status().ToString();
    EXPECT_GT(*size, 2 * samples.size() * kNarrow.values()) << spec;
    bytes.resize(*size);
    const Status status = codec->Decode(bytes, kNarrow, kKey, Targets(&out));
    ASSERT_TRUE(status.ok()) << spec << ": " << status.ToString();
    EXPECT_EQ(out, decoded) << spec;
  }
}

TEST(ScaledCodecTest, ExponentsAreNoneWhereChannelsAreAlikeOrTokensAreFew) {
  EXPECT_TRUE(FitChannelExponents(Views(Gaussian(5)), kShape).empty());
  Samples samples = Gaussian(6);
  Raise(&samples, {1}, 100);
  EXPECT_FALSE(FitChannelExponents(Views(samples), kShape).empty());
  const SampleShape few{8, 96};
  const Samples short_one(1, std::vector<float>(samples[0].begin(), samples[0].begin() + 8 * 96));
  EXPECT_TRUE(FitChannelExponents(Views(short_one), few).empty());
  const Samples zeros(kSamples, std::vector<float>(kShape.values()));
  EXPECT_TRUE(FitChannelExponents(Views(zeros), kShape).empty());
}

// The first token of each row has nearly all its energy in two channels.
TEST(ScaledCodecTest, FirstTokensOfRowsDoNotDecideTheExponents) {
  for (const std::uint32_t tokens : {64u, 128u, 256u, 512u, 1024u}) {
    for (const std::size_t rows : {1u, 2u, 8u}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << tokens);
      const SampleShape shape{tokens, 96};
      std::mt19937_64 random(9);
      std::normal_distribution<float> normal;
      Samples samples(rows, std::vector<float>(shape.values()));
      for (auto& sample : samples) {
        for (float& value : sample) value = normal(random);
        sample[7] = 2400;
        sample[40] = -1500;
      }
      ChannelExponents exponents = FitChannelExponents(Views(samples), shape);
      if (exponents.empty()) continue;
      EXPECT_LE(exponents[7], 1);
      EXPECT_LE(exponents[40], 1);
      EXPECT_GE(std::count(exponents.begin(), exponents.end(), 0), 94);
    }
  }
}

TEST(ScaledCodecTest, ExponentsTravelBitForBit) {
  ChannelExponents exponents(9);
  for (int i = 0; i < 9; ++i) {
    exponents[static_cast<std::size_t>(i)] =
        static_cast<std::int8_t>(i == 0   ? -kChannelExponentMost
                                 : i == 8 ? kChannelExponentMost
                                          : i - 4);
  }
  for (const ChannelExponents& one : {exponents, ChannelExponents()}) {
    BitWriter writer;
    WriteChannelExponents(one, &writer);
    BitReader reader(writer.bytes());
    ChannelExponents read;
    ASSERT_TRUE(ReadChannelExponents(&reader, exponents.size(), &read));
    EXPECT_EQ(read, one);
  }
  BitWriter broken;
  broken.Put(1, 1);
  broken.PutUnary(2 * kChannelExponentMost + 1);
  BitReader reader(broken.bytes());
  ChannelExponents read;
  EXPECT_FALSE(ReadChannelExponents(&reader, 1, &read));
}

TEST(ScaledCodecTest, DamagedMessagesAreErrors) {
  Samples samples = Gaussian(7);
  Raise(&samples, {3}, 40);
  const PlainPointer codec = Make("dithered:step=1,channels=on");
  const Message message = Encode(*codec, samples);
  Samples out = samples;
  for (const std::size_t size : {0UL, 15UL, 19UL, 21UL, message.bytes.size() - 1}) {
    const std::vector<std::byte> cut(message.bytes.begin(),
                                     message.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(codec->Decode(cut, kShape, kKey, Targets(&out)).code(), StatusCode::kInvalidArgument)
        << size;
  }
  for (const std::size_t at : {0UL, 16UL, 19UL, 20UL}) {
    std::vector<std::byte> damaged = message.bytes;
    damaged[at] ^= std::byte{0xff};
    EXPECT_FALSE(codec->Decode(damaged, kShape, kKey, Targets(&out)).ok()) << at;
  }
}

}  // namespace
}  // namespace shoal::compression
