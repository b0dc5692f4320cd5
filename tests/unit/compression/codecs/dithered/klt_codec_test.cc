// Values turned onto their leading directions: the error of `dithered` in fewer bits, and that both
// ends agree.

#include "compression/codecs/dithered/klt_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compression/codecs/codec_entry.h"
#include "compression/codecs/dithered/dithered_entry.h"
#include "tests/unit/compression/matrix_reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

constexpr SampleShape kShape{160, 96};
constexpr std::size_t kSamples = 4;
constexpr RandomKey kKey{7, 3, 1, 2, 0};

using Samples = std::vector<std::vector<float>>;

// All samples of a message share their directions: 16 have nine tenths of the energy.
Samples Alike(std::uint64_t seed, SampleShape shape = kShape) {
  std::vector<double> squares(std::min<std::size_t>(shape.hidden, 48));
  for (std::size_t k = 0; k < squares.size(); ++k) squares[k] = k < 16 ? 1 : 0.055;
  const auto all = reference::WithSpectrum(shape.tokens * kSamples, shape.hidden, squares, seed);
  Samples samples;
  const auto size = static_cast<std::ptrdiff_t>(shape.values());
  for (std::size_t i = 0; i < kSamples; ++i) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(i) * size;
    samples.emplace_back(from, from + size);
  }
  return samples;
}

Samples Noise(std::uint64_t seed) {
  Samples samples;
  for (std::size_t i = 0; i < kSamples; ++i) {
    samples.push_back(reference::Normal(kShape.values(), seed * kSamples + i));
  }
  return samples;
}

Result<PlainPointer> TryMake(const std::string& text, std::uint32_t hidden = kShape.hidden) {
  return DitheredEntry().make_plain(ParseCodecSpec(text, ',').value(), hidden);
}

struct Message {
  std::vector<std::byte> bytes;
  Samples decoded;
};

Message Encode(const PlainCodec& codec, const Samples& samples, SampleShape shape = kShape,
               const RandomKey& key = kKey) {
  Message message{std::vector<std::byte>(codec.EncodedBytesMax(shape, samples.size())), samples};
  const std::vector<std::span<const float>> from(samples.begin(), samples.end());
  const std::vector<std::span<float>> to(message.decoded.begin(), message.decoded.end());
  const auto size = codec.Encode(from, shape, key, message.bytes, to);
  EXPECT_TRUE(size.ok()) << size.status().ToString();
  message.bytes.resize(size.ok() ? *size : 0);
  return message;
}

Samples Decode(const PlainCodec& codec, const std::vector<std::byte>& bytes, std::size_t samples,
               SampleShape shape = kShape, const RandomKey& key = kKey) {
  Samples out(samples, std::vector<float>(shape.values()));
  const std::vector<std::span<float>> to(out.begin(), out.end());
  const Status status = codec.Decode(bytes, shape, key, to);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

double ErrorOf(const Samples& x, const Samples& y) {
  double errors = 0, squares = 0;
  for (std::size_t s = 0; s < x.size(); ++s) {
    for (std::size_t i = 0; i < x[s].size(); ++i) {
      errors += std::pow(double{x[s][i]} - y[s][i], 2);
      squares += std::pow(double{x[s][i]}, 2);
    }
  }
  return std::sqrt(errors / squares);
}

double BitsOf(const Message& message) {
  std::size_t values = 0;
  for (const auto& sample : message.decoded) values += sample.size();
  return 8.0 * static_cast<double>(message.bytes.size()) / static_cast<double>(values);
}

// log2 sqrt(1 + 12 v) per value of variance v in steps, within what tables and shaping cost.
TEST(KltCodecTest, HasTheErrorOfTheStepInFewerBits) {
  const Samples samples = Alike(1);
  for (const char* step : {"dithered:step=0.3", "dithered:step=0.65", "dithered:step=1.5"}) {
    const Message plain = Encode(**TryMake(step), samples);
    const Message turned = Encode(**TryMake(std::string(step) + ",klt=48"), samples);
    EXPECT_NEAR(ErrorOf(samples, turned.decoded) / ErrorOf(samples, plain.decoded), 1, 0.02);
    // Of 96 positions 16 have 9/10 of the energy, 32 the rest, and 48 nothing.
    const double in_steps = 1 / std::pow(std::stod(std::string(step).substr(14)), 2);
    const auto bits = [&](double variance) {
      return 0.5 * std::log2(1 + 12 * variance * in_steps);
    };
    const double least = (16 * bits(96 * 0.9 / 16) + 32 * bits(96 * 0.1 / 32)) / 96;
    EXPECT_GT(BitsOf(turned), least) << step;
    EXPECT_LT(BitsOf(turned), least + 0.9) << step;
    EXPECT_LT(BitsOf(turned), BitsOf(plain) - 0.35) << step;
  }
}

TEST(KltCodecTest, DecodesToWhatEncodeSaidAtEveryLevel) {
  Samples samples = Alike(2);
  for (float& value : std::span(samples[1]).first(96)) value *= 3000;  // a first token
  for (const char* spec : {"dithered:step=0.5,klt=16", "dithered:step=0.5,klt=40,channels=on",
                           "dithered:error=0.1,klt=7", "dithered:step=1,dither=off,klt=256"}) {
    const auto codec = *TryMake(spec);
    EXPECT_EQ(codec->spec(), spec);
    const Message message = Encode(*codec, samples);
    AtEveryLevel([&] { EXPECT_EQ(Decode(*codec, message.bytes, kSamples), message.decoded); });
  }
}

TEST(KltCodecTest, WhereNothingStandsOutNothingIsTurned) {
  const Samples samples = Noise(3);
  const Message plain = Encode(**TryMake("dithered:step=0.65"), samples);
  const Message turned = Encode(**TryMake("dithered:step=0.65,klt=32"), samples);
  EXPECT_EQ(turned.decoded, plain.decoded);
  EXPECT_EQ(turned.bytes.size(), plain.bytes.size() + 24);
}

// A direction of a few tokens that are thousands of times larger is not worth one of the others'.
TEST(KltCodecTest, LoudTokensDoNotChooseTheDirections) {
  Samples samples = Alike(4);
  const auto codec = *TryMake("dithered:step=0.65,klt=16,channels=on");
  const auto plain = *TryMake("dithered:step=0.65,channels=on");
  const double before = BitsOf(Encode(*codec, samples));
  const double saved = BitsOf(Encode(*plain, samples)) - before;
  EXPECT_GT(saved, 0.3);
  for (auto& sample : samples) {
    for (std::size_t h = 0; h < kShape.hidden; ++h) sample[h] = (h % 7 == 3 ? 500.0F : 2.0F);
  }
  const Message loud = Encode(*codec, samples);
  EXPECT_GT(BitsOf(Encode(*plain, samples)) - BitsOf(loud), 0.8 * saved);
  Samples quiet = samples, decoded = loud.decoded;
  for (std::size_t s = 0; s < kSamples; ++s) {
    std::fill_n(quiet[s].begin(), kShape.hidden, 0.0F);
    std::fill_n(decoded[s].begin(), kShape.hidden, 0.0F);
  }
  EXPECT_LT(ErrorOf(quiet, decoded), 0.25);
}

// Its codes are at the limit, where turned values would be beyond it.
TEST(KltCodecTest, ATokenOfMillionsOfStepsKeepsTheMessageAsItIs) {
  Samples samples = Alike(8);
  for (std::size_t h = 0; h < kShape.hidden; ++h) samples[1][h] *= 1e9F;
  const auto codec = *TryMake("dithered:step=0.65,klt=16,channels=on");
  const Message message = Encode(*codec, samples);
  EXPECT_EQ(Decode(*codec, message.bytes, kSamples), message.decoded);
  EXPECT_EQ(message.decoded, Encode(**TryMake("dithered:step=0.65,channels=on"), samples).decoded);
}

TEST(KltCodecTest, IsUnbiased) {
  const auto codec = *TryMake("dithered:step=1.5,klt=16");
  const Samples samples = Alike(5);
  ASSERT_GT(Encode(**TryMake("dithered:step=1.5"), samples).bytes.size(),
            Encode(*codec, samples).bytes.size());
  Samples sums(kSamples, std::vector<float>(kShape.values()));
  constexpr std::uint32_t kMessages = 64;
  double one = 0;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    const Message message = Encode(*codec, samples, kShape, {7, i, 1, 2, 1});
    one = ErrorOf(samples, message.decoded);
    for (std::size_t s = 0; s < kSamples; ++s) {
      for (std::size_t v = 0; v < kShape.values(); ++v) {
        sums[s][v] += message.decoded[s][v] / kMessages;
      }
    }
  }
  EXPECT_LT(ErrorOf(samples, sums), 1.1 * one / std::sqrt(1.0 * kMessages));
}

TEST(KltCodecTest, SmallAndOddMessagesTravel) {
  for (const SampleShape shape : {SampleShape{1, 1}, SampleShape{1, 96}, SampleShape{40, 2},
                                  SampleShape{300, 5}, SampleShape{9, 33}}) {
    const auto codec = *TryMake("dithered:step=0.5,klt=24", shape.hidden);
    for (const float factor : {1.0F, 0.0F, 0x1p-110F, 0x1p-60F, 0x1p70F, 0x1p110F}) {
      Samples samples(3, reference::Normal(shape.values(), shape.hidden));
      for (auto& sample : samples) {
        for (std::size_t i = 0; i < sample.size(); ++i) {
          sample[i] = factor * (sample[i] / 8 + static_cast<float>(i % shape.hidden % 3));
        }
      }
      const Message message = Encode(*codec, samples, shape);
      EXPECT_EQ(Decode(*codec, message.bytes, 3, shape), message.decoded);
      if (factor > 0x1p-100F) {
        EXPECT_LT(ErrorOf(samples, message.decoded), 0.2);
      }
    }
  }
}

TEST(KltCodecTest, SamplesThatNobodyWantsArePassedOver) {
  const auto codec = *TryMake("dithered:step=0.65,klt=32");
  const Message message = Encode(*codec, Alike(6));
  Samples out(kSamples, std::vector<float>(kShape.values()));
  std::vector<std::span<float>> wanted(out.begin(), out.end());
  wanted[0] = wanted[2] = {};
  ASSERT_TRUE(codec->Decode(message.bytes, kShape, kKey, wanted).ok());
  EXPECT_EQ(out[1], message.decoded[1]);
  EXPECT_EQ(out[3], message.decoded[3]);
}

TEST(KltCodecTest, RefusesWhatItCannotSendOrRead) {
  const auto codec = *TryMake("dithered:step=0.65,klt=32");
  Samples samples = Alike(7);
  const Message message = Encode(*codec, samples);
  Samples out = samples;
  const std::vector<std::span<float>> to(out.begin(), out.end());
  for (const std::size_t kept : {0U, 15U, 20U, 24U, 40U}) {
    EXPECT_FALSE(codec->Decode(std::span(message.bytes).first(kept), kShape, kKey, to).ok());
  }
  auto broken = message.bytes;
  broken[20] = broken[21] = std::byte{0};  // no leading section
  EXPECT_FALSE(codec->Decode(broken, kShape, kKey, to).ok());
  broken = message.bytes;
  broken[24] = std::byte{33};  // more reflectors than the spec allows
  EXPECT_FALSE(codec->Decode(broken, kShape, kKey, to).ok());

  samples[2][5] = std::numeric_limits<float>::infinity();
  const std::vector<std::span<const float>> from(samples.begin(), samples.end());
  std::vector<std::byte> room(codec->EncodedBytesMax(kShape, kSamples));
  const auto sent = codec->Encode(from, kShape, kKey, room, {});
  ASSERT_FALSE(sent.ok());
  EXPECT_THAT(sent.status().message(), HasSubstr("not finite"));

  for (const char* spec : {"dithered:step=0.5,klt=0", "dithered:step=0.5,klt=257",
                           "dithered:step=0.5,klt=x", "dithered:rate=2,klt=8"}) {
    const auto made = TryMake(spec);
    ASSERT_FALSE(made.ok()) << spec;
    EXPECT_THAT(made.status().message(), HasSubstr("klt")) << spec;
  }
}

TEST(KltCodecTest, WiderHasFinerStepsAndTheSameDirections) {
  const auto wider = (*TryMake("dithered:step=0.65,klt=32"))->Wider();
  ASSERT_NE(wider, nullptr);
  EXPECT_EQ(wider->spec(), (*TryMake("dithered:step=0.65"))->Wider()->spec() + ",klt=32");
}

}  // namespace
}  // namespace shoal::compression
