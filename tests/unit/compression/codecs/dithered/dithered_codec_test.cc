#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/dithered/dithered_entry.h"

#include <Random123/philox.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compression/api/sample_layout.h"
#include "compression/codecs/codec_entry.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using Samples = std::vector<std::vector<float>>;

constexpr RandomKey kKey{0x0123456789abcdef, 42, 3, 2, 1};

Result<PlainPointer> TryMake(const std::string& key, const std::string& value) {
  const std::string text = "dithered:" + key + "=" + value;
  const auto spec = ParseCodecSpec(text, ',');
  if (!spec.ok()) return spec.status();
  const Status keys = CheckKeys(*spec, DitheredEntry().keys);
  return keys.ok() ? DitheredEntry().make_plain(*spec, 128) : Result<PlainPointer>(keys);
}

std::shared_ptr<const PlainCodec> Make(const std::string& key, const std::string& value) {
  auto codec = TryMake(key, value);
  EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  return *codec;
}

// Samples whose tokens differ in energy as gradients do: a tenth of them holds about 47 % of it.
Samples Gradients(std::size_t samples, SampleShape shape, std::uint64_t seed, float scale = 1.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Samples all(samples, std::vector<float>(shape.values()));
  for (auto& sample : all) {
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      const float size = scale * std::exp(0.6F * normal(random));
      for (std::size_t i = 0; i < shape.hidden; ++i) {
        sample[t * shape.hidden + i] = size * normal(random);
      }
    }
  }
  return all;
}

// The same with channels that are louder or quieter than others by up to a factor of six.
void ScaleChannels(Samples* samples, SampleShape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> factors(shape.hidden);
  for (float& f : factors) f = std::exp2(static_cast<float>(random() % 11) / 2 - 2.5F);
  for (auto& sample : *samples) {
    for (std::size_t i = 0; i < sample.size(); ++i) sample[i] *= factors[i % shape.hidden];
  }
}

std::vector<std::span<const float>> Views(const Samples& samples) {
  return {samples.begin(), samples.end()};
}

std::vector<std::span<float>> Targets(Samples* samples) {
  return {samples->begin(), samples->end()};
}

struct Message {
  std::vector<std::byte> bytes;
  Samples decoded;
};

Message Encode(const PlainCodec& codec, const Samples& samples, SampleShape shape,
               const RandomKey& key = kKey) {
  Message message;
  message.bytes.resize(codec.EncodedBytesMax(shape, samples.size()));
  message.decoded.assign(samples.size(), std::vector<float>(shape.values(), 123.0F));
  const auto bytes =
      codec.Encode(Views(samples), shape, key, message.bytes, Targets(&message.decoded));
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  message.bytes.resize(bytes.ok() ? *bytes : 0);
  return message;
}

Status Decode(const PlainCodec& codec, std::span<const std::byte> bytes, SampleShape shape,
              Samples* samples, const RandomKey& key = kKey) {
  return codec.Decode(bytes, shape, key, Targets(samples));
}

float StepOf(const std::vector<std::byte>& bytes) {
  float step = 0;
  std::memcpy(&step, bytes.data() + 16, 4);
  return step;
}

struct Sums {
  double error = 0, energy = 0;
  double Relative() const { return std::sqrt(error / energy); }
};

Sums Compare(const Samples& given, const Samples& got) {
  Sums sums;
  for (std::size_t s = 0; s < given.size(); ++s) {
    for (std::size_t i = 0; i < given[s].size(); ++i) {
      sums.error += std::pow(double{got[s][i]} - given[s][i], 2);
      sums.energy += std::pow(double{given[s][i]}, 2);
    }
  }
  return sums;
}

double BitsPerValue(const Message& message, SampleShape shape, std::size_t samples) {
  return 8.0 * static_cast<double>(message.bytes.size()) /
         static_cast<double>(samples * shape.values());
}

bool SameBits(const Samples& a, const Samples& b) {
  for (std::size_t s = 0; s < a.size(); ++s) {
    if (std::memcmp(a[s].data(), b[s].data(), a[s].size() * 4) != 0) return false;
  }
  return true;
}

// The dither of a value by its definition (docs/WIRE.md).
double DitherOf(const RandomKey& key, std::uint32_t token, std::uint32_t i) {
  const auto words = r123::Philox4x32()(
      {{static_cast<std::uint32_t>(key.step), static_cast<std::uint32_t>(key.step >> 32),
        key.micro_batch, 2 * key.boundary + key.direction}},
      {{static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)}});
  const std::uint32_t at = i % 128;
  const auto random =
      r123::Philox4x32()({{i / 128 * 16 + at % 64 / 4, token, 7, 0}}, {{words[0], words[1]}});
  const std::uint32_t word = random[2 * (at / 64) + at % 4 / 2] >> 16 * (at % 2) & 0xffff;
  const double magnitude = ((word & 0x7fff) + 0.5) / 65536;
  return (word & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Dithered, ValuesAreTheNearestPointsOfTheDitheredGrid) {
  for (const SampleShape shape : {SampleShape{3, 7}, SampleShape{5, 128}, SampleShape{2, 2500}}) {
    const auto codec = Make("step", "0.8");
    const Samples samples = Gradients(2, shape, shape.hidden);
    const Message message = Encode(*codec, samples, shape);
    const double step = StepOf(message.bytes);
    for (std::uint32_t s = 0; s < samples.size(); ++s) {
      for (std::uint32_t i = 0; i < shape.values(); ++i) {
        const double u = DitherOf(kKey, s * shape.tokens + i / shape.hidden, i % shape.hidden);
        const double exact = samples[s][i] / step + u;
        const double code = std::nearbyint(exact);
        // Where the sum lies on the border fp32 may choose the other side.
        if (std::fabs(std::fabs(exact - code) - 0.5) < 1e-4) continue;
        ASSERT_EQ(message.decoded[s][i], static_cast<float>((code - u) * step)) << s << " " << i;
      }
    }
    Samples back(2, std::vector<float>(shape.values()));
    ASSERT_TRUE(Decode(*codec, message.bytes, shape, &back).ok());
    EXPECT_TRUE(SameBits(back, message.decoded));
  }
}

TEST(Dithered, ErrorFollowsTheStepAndBitsStayFew) {
  struct Case {
    const char* step;
    double error, bits;
  };
  // Errors are step / sqrt(12). Bits: an order-0 coder that does not look at the dither takes 2.23,
  // 1.86 and 1.50.
  for (const Case& c :
       {Case{"0.7", 0.2021, 2.24}, Case{"1", 0.2887, 1.80}, Case{"1.5", 0.433, 1.37}}) {
    const SampleShape shape{128, 128};
    const auto codec = Make("step", c.step);
    const Samples samples = Gradients(8, shape, 5, 1e-5F);
    const Message message = Encode(*codec, samples, shape);
    EXPECT_NEAR(Compare(samples, message.decoded).Relative(), c.error, 0.004);
    const double bits = BitsPerValue(message, shape, 8);
    EXPECT_LT(bits, c.bits) << c.step;
    RecordProperty(std::string("bits_at_step_") + std::to_string(c.step[0]), std::to_string(bits));
  }
}

// Channels of different size take fewer bits than the same energies without an order.
TEST(Dithered, ChannelsOfDifferentSizeAreMadeUseOf) {
  const SampleShape shape{128, 128};
  Samples samples = Gradients(8, shape, 31);
  ScaleChannels(&samples, shape, 2);
  const auto codec = Make("step", "1");
  const Message ordered = Encode(*codec, samples, shape);
  std::mt19937_64 random(3);
  for (auto& sample : samples) {
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      const auto token = std::span(sample).subspan(t * shape.hidden, shape.hidden);
      std::shuffle(token.begin(), token.end(), random);
    }
  }
  const Message mixed = Encode(*codec, samples, shape);
  EXPECT_LT(BitsPerValue(ordered, shape, 8), 0.9 * BitsPerValue(mixed, shape, 8));
}

TEST(Dithered, RateAndErrorAreMet) {
  for (const SampleShape shape : {SampleShape{128, 128}, SampleShape{64, 1600}}) {
    const Samples samples = Gradients(8, shape, 6, 1e3F);
    for (const double rate : {0.5, 1.0, 1.75, 2.5, 4.0}) {
      const Message message = Encode(*Make("rate", std::to_string(rate)), samples, shape);
      EXPECT_NEAR(BitsPerValue(message, shape, 8), rate, 0.05 * rate);
    }
    for (const double error : {0.03, 0.1, 0.3, 1.0}) {
      const Message message = Encode(*Make("error", std::to_string(error)), samples, shape);
      EXPECT_NEAR(Compare(samples, message.decoded).Relative(), error, 0.02 * error);
    }
  }
}

// The mean of a value's decodings over many keys is the value: z-test of single values and of sums.
TEST(Dithered, DecodedValuesAreUnbiased) {
  const SampleShape shape{4, 32};
  const auto codec = Make("step", "1.5");
  Samples samples = Gradients(1, shape, 8);
  for (float& v : std::span(samples[0]).subspan(32, 32)) v *= 0.02F;  // far below the step
  constexpr int kKeys = 20000;
  std::vector<double> sums(shape.values()), squares(shape.values());
  double step = 0;
  for (int k = 0; k < kKeys; ++k) {
    RandomKey key = kKey;
    key.step = static_cast<std::uint64_t>(k);
    const Message message = Encode(*codec, samples, shape, key);
    step = StepOf(message.bytes);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double error = double{message.decoded[0][i]} - samples[0][i];
      sums[i] += error;
      squares[i] += error * error;
    }
  }
  double total = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double sigma = step / std::sqrt(12.0) * std::sqrt(kKeys);
    EXPECT_LT(std::fabs(sums[i]) / sigma, 4.5) << i;
    // Uniform within a step: variance step^2 / 12, whatever the value.
    EXPECT_NEAR(squares[i] / kKeys / (step * step / 12), 1, 0.04) << i;
    total += sums[i] / sigma;
  }
  EXPECT_LT(std::fabs(total) / std::sqrt(static_cast<double>(sums.size())), 4.5);
}

TEST(Dithered, EveryLevelWritesTheSameBytesAndReadsTheSameValues) {
  for (const SampleShape shape : {SampleShape{9, 33}, SampleShape{64, 256}, SampleShape{3, 5000}}) {
    for (const auto& [key, value] : {std::pair("step", "0.0625"), std::pair("step", "1"),
                                     std::pair("rate", "2.2"), std::pair("error", "0.9")}) {
      const auto codec = Make(key, value);
      Samples samples = Gradients(3, shape, shape.hidden);
      samples[1][5] = 1e4F;
      if (shape.tokens == 64) ScaleChannels(&samples, shape, 1);
      Message first;
      AtEveryLevel([&] {
        const Message message = Encode(*codec, samples, shape);
        if (first.bytes.empty()) first = message;
        ASSERT_EQ(message.bytes, first.bytes);
        ASSERT_TRUE(SameBits(message.decoded, first.decoded));
        Samples back(3, std::vector<float>(shape.values()));
        ASSERT_TRUE(Decode(*codec, first.bytes, shape, &back).ok());
        ASSERT_TRUE(SameBits(back, first.decoded));
      });
    }
  }
}

// A sanitizer slows them tenfold.
#if defined(SHOAL_SANITIZED)
constexpr int kTrials = 1000;
#else
constexpr int kTrials = 10000;
#endif

TEST(Dithered, TenThousandRandomMessagesComeBack) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < kTrials; ++trial) {
    // Some with many tokens, so that channels get offsets, some with long ones.
    const std::uint32_t tokens = trial % 8 == 3 ? 100 : 6;
    const std::uint32_t hidden = trial % 8 == 3 ? 30 : trial % 10 == 0 ? 900 : 60;
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % tokens),
                            1 + static_cast<std::uint32_t>(random() % hidden)};
    const std::size_t count = 1 + random() % 3;
    const double step = 0.0625 * std::pow(2.0, static_cast<double>(random() % 80) / 10);
    const auto codec = Make("step", std::to_string(step));
    Samples samples =
        Gradients(count, shape, random(), std::ldexp(1.0F, static_cast<int>(random() % 180) - 90));
    for (auto& sample : samples) {
      for (float& v : sample) {
        if (random() % 64 == 0) v *= static_cast<float>(random() % 2000);
        if (random() % 8 == 0) v = 0;
      }
      if (random() % 8 == 0) std::fill_n(sample.begin(), shape.hidden, 0.0F);
    }
    if (trial % 16 == 3) ScaleChannels(&samples, shape, random());
    const Message message = Encode(*codec, samples, shape);
    Samples back(count, std::vector<float>(shape.values()));
    ASSERT_TRUE(Decode(*codec, message.bytes, shape, &back).ok()) << trial;
    ASSERT_TRUE(SameBits(back, message.decoded)) << trial;
    const float half = StepOf(message.bytes) * 0.5001F;
    for (std::size_t s = 0; s < count && half > 0; ++s) {
      for (std::size_t i = 0; i < shape.values(); ++i) {
        const float bound = half + std::fabs(samples[s][i]) * 1e-6F;
        ASSERT_LE(std::fabs(back[s][i] - samples[s][i]), bound) << trial;
      }
    }
    // Decoding in place of the samples, and decoding some samples only.
    Samples in_place = samples;
    std::vector<std::byte> again(codec->EncodedBytesMax(shape, count));
    const auto bytes = codec->Encode(Views(in_place), shape, kKey, again, Targets(&in_place));
    ASSERT_TRUE(bytes.ok());
    again.resize(*bytes);
    ASSERT_EQ(again, message.bytes);
    ASSERT_TRUE(SameBits(in_place, back));
    Samples some(count, std::vector<float>(shape.values()));
    some[random() % count].clear();
    auto targets = Targets(&some);
    ASSERT_TRUE(codec->Decode(message.bytes, shape, kKey, targets).ok());
    for (std::size_t s = 0; s < count; ++s) {
      const std::span<const float> whole = back[s];
      ASSERT_TRUE(some[s].empty() || std::equal(whole.begin(), whole.end(), some[s].begin()));
    }
  }
}

TEST(Dithered, ZerosCostAlmostNothingAndStayZero) {
  const SampleShape shape{256, 64};
  const auto codec = Make("step", "1");
  const Samples zeros(4, std::vector<float>(shape.values()));
  Message message = Encode(*codec, zeros, shape);
  EXPECT_EQ(message.bytes.size(), 20U);
  EXPECT_TRUE(SameBits(message.decoded, zeros));
  Samples back(4, std::vector<float>(shape.values(), 1.0F));
  ASSERT_TRUE(Decode(*codec, message.bytes, shape, &back).ok());
  EXPECT_TRUE(SameBits(back, zeros));

  // Padding: only every fourth sample has values.
  Samples padded = zeros;
  padded[2] = Gradients(1, shape, 3)[0];
  message = Encode(*codec, padded, shape);
  const Message alone = Encode(*codec, {padded[2]}, shape);
  // The rms includes the zeros, so that this step is half of the other.
  EXPECT_LT(message.bytes.size(), alone.bytes.size() + shape.values() / 8 + 150);
  ASSERT_TRUE(Decode(*codec, message.bytes, shape, &back).ok());
  for (const std::size_t s : {0, 1, 3}) EXPECT_EQ(back[s], zeros[0]);

  const Samples tiny(4, std::vector<float>(shape.values(), 1e-38F));
  EXPECT_EQ(Encode(*codec, tiny, shape).bytes.size(), 20U);
}

TEST(Dithered, WhatIsNotFiniteOrTooLargeIsRefused) {
  const SampleShape shape{4, 40};
  const auto codec = Make("step", "1");
  std::vector<std::byte> out(codec->EncodedBytesMax(shape, 1));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {infinity, -infinity, std::nanf(""), 0x1p120F}) {
    for (const std::size_t at : {0, 77, 159}) {
      Samples samples = Gradients(1, shape, 4);
      samples[0][at] = wrong;
      const auto bytes = codec->Encode(Views(samples), shape, kKey, out, {});
      ASSERT_FALSE(bytes.ok());
      EXPECT_NE(bytes.status().message().find("nothing is sent"), std::string::npos);
    }
  }
  const Samples large(1, std::vector<float>(shape.values(), 0x1p114F));
  const Message message = Encode(*codec, large, shape);
  for (const float v : message.decoded[0]) EXPECT_TRUE(std::isfinite(v));
}

TEST(Dithered, AnotherKeyGivesOtherValues) {
  const SampleShape shape{8, 64};
  const auto codec = Make("step", "1");
  const Message message = Encode(*codec, Gradients(1, shape, 2), shape);
  RandomKey keys[5] = {kKey, kKey, kKey, kKey, kKey};
  ++keys[0].seed;
  ++keys[1].step;
  ++keys[2].micro_batch;
  ++keys[3].boundary;
  keys[4].direction ^= 1;
  for (const RandomKey& key : keys) {
    Samples back(1, std::vector<float>(shape.values()));
    const Status status = Decode(*codec, message.bytes, shape, &back, key);
    EXPECT_FALSE(status.ok() && SameBits(back, message.decoded));
  }
}

TEST(Dithered, ForeignBytesNeverCrash) {
  std::mt19937_64 random(12);
  for (const SampleShape shape : {SampleShape{3, 20}, SampleShape{40, 450}, SampleShape{90, 16}}) {
    for (const char* step : {"0.07", "1"}) {
      const auto codec = Make("step", step);
      Samples samples = Gradients(1, shape, 9);
      samples[0][7] = 900;
      if (shape.tokens == 90) ScaleChannels(&samples, shape, 5);
      const Message message = Encode(*codec, samples, shape);
      Samples back(1, std::vector<float>(shape.values()));
      for (std::size_t cut = 0; cut < message.bytes.size(); ++cut) {
        // A copy of just these bytes, so that the sanitizer sees one too many.
        const std::vector<std::byte> bytes(message.bytes.begin(), message.bytes.begin() + cut);
        ASSERT_FALSE(Decode(*codec, bytes, shape, &back).ok()) << cut;
      }
      auto longer = message.bytes;
      longer.push_back(std::byte{0});
      EXPECT_FALSE(Decode(*codec, longer, shape, &back).ok());
      for (int trial = 0; trial < 3000; ++trial) {
        auto bytes = message.bytes;
        const std::size_t reach =
            trial % 2 == 0 ? bytes.size() : std::min<std::size_t>(200, bytes.size());
        for (int flips = 0; flips <= trial % 3; ++flips) {
          bytes[random() % reach] ^= static_cast<std::byte>(1U << random() % 8);
        }
        if (!Decode(*codec, bytes, shape, &back).ok()) continue;
        for (const float v : back[0]) ASSERT_TRUE(std::isfinite(v));
      }
    }
  }
}

TEST(Dithered, SpecsAreCanonicalAndBounded) {
  EXPECT_EQ(Make("step", "1.50")->spec(), "dithered:step=1.5");
  EXPECT_EQ(Make("rate", "2")->spec(), "dithered:rate=2");
  EXPECT_EQ(Make("error", "0.289")->spec(), "dithered:error=0.289");
  const std::pair<const char*, const char*> wrong[] = {
      {"step", ""},   {"step", "0"},   {"step", "17"},  {"step", "1e0"},
      {"step", "-1"}, {"step", "nan"}, {"step", "1.."}, {"rate", "0.05"},
      {"rate", "7"},  {"error", "5"},  {"bits", "2"},   {"", ""}};
  for (const auto& [key, value] : wrong) EXPECT_FALSE(TryMake(key, value).ok()) << value;
}

TEST(Dithered, IsACodecOfMessagesAndOfChanges) {
  const SampleShape shape{64, 64};
  const Samples samples = Gradients(2, shape, 21);
  const Samples next = Gradients(2, shape, 22, 0.1F);
  for (const char* spec : {"dithered:rate=2.5",
                           "aqsgd:delta=dithered:step=1.5,"
                           "first_visit=dithered:step=0.25"}) {
    const auto codec = MakeCodec(spec, shape.hidden);
    ASSERT_TRUE(codec.ok()) << codec.status().ToString();
    EXPECT_EQ((*codec)->spec(), spec);
    std::vector<Buffer> sent(2), got(2);
    for (int visit = 0; visit < 3; ++visit) {
      std::vector<std::vector<float>> values = samples;
      for (std::size_t s = 0; s < 2; ++s) {
        for (std::size_t i = 0; visit == 2 && i < values[s].size(); ++i) values[s][i] += next[s][i];
      }
      std::vector<SampleToEncode> in;
      std::vector<SampleToDecode> out;
      std::vector<std::vector<float>> back(2, std::vector<float>(shape.values()));
      for (std::size_t s = 0; s < 2; ++s) {
        in.push_back({values[s], sent[s].bytes()});
        out.push_back({back[s], !got[s].empty(), got[s].bytes()});
      }
      std::vector<Buffer> next_sent(2), next_got(2);
      const std::span<Buffer> keep_sent = (*codec)->keeps_m() ? next_sent : std::span<Buffer>();
      const std::span<Buffer> keep_got = (*codec)->keeps_m() ? next_got : std::span<Buffer>();
      std::vector<std::byte> bytes((*codec)->EncodedBytesMax(shape, 2));
      const auto size =
          (*codec)->Encode(in, shape, kKey, DeltaMode::kDelta, bytes, keep_sent, nullptr);
      ASSERT_TRUE(size.ok()) << size.status().ToString();
      const Status status =
          (*codec)->Decode(std::span(bytes).first(*size), out, shape, kKey, keep_got);
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (std::size_t s = 0; s < 2 && (*codec)->keeps_m(); ++s) {
        const auto a = next_sent[s].bytes();
        const auto b = next_got[s].bytes();
        ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << visit;
      }
      EXPECT_LT(Compare(values, back).Relative(), 0.35) << visit;
      sent = std::move(next_sent);
      got = std::move(next_got);
    }
  }
}

}  // namespace
}  // namespace shoal::compression
