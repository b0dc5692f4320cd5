// Changes whose error follows the values that they lead to (of=values), against what that error is
// by definition, in every form of `dithered`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compression/api/codec.h"
#include "compression/api/m_format.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/dithered/dithered_entry.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

constexpr SampleShape kShape{96, 64};
constexpr std::size_t kSamples = 3;
constexpr RandomKey kKey{9, 4, 2, 1, 1};

using Samples = std::vector<std::vector<float>>;

Samples Normal(std::uint64_t seed, float scale) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Samples samples(kSamples, std::vector<float>(kShape.values()));
  for (auto& sample : samples) {
    for (float& x : sample) x = scale * normal(random);
  }
  return samples;
}

Result<PlainPointer> TryMake(const std::string& text) {
  return DitheredEntry().make_plain(ParseCodecSpec(text, ',').value(), kShape.hidden);
}

struct Message {
  std::vector<std::byte> bytes;
  Samples decoded;
};

Result<Message> TryEncode(const PlainCodec& codec, const Samples& changes, const Samples& values,
                          const RandomKey& key = kKey) {
  Message message{std::vector<std::byte>(codec.EncodedBytesMax(kShape, kSamples)), changes};
  const std::vector<std::span<const float>> from(changes.begin(), changes.end());
  const std::vector<std::span<const float>> like(values.begin(), values.end());
  const std::vector<std::span<float>> to(message.decoded.begin(), message.decoded.end());
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                         codec.EncodeChanges(from, like, kShape, key, message.bytes, to));
  message.bytes.resize(bytes);
  return message;
}

Message Encode(const PlainCodec& codec, const Samples& changes, const Samples& values,
               const RandomKey& key = kKey) {
  auto message = TryEncode(codec, changes, values, key);
  EXPECT_TRUE(message.ok()) << message.status().ToString();
  return message.ok() ? std::move(*message) : Message{{}, changes};
}

double Rms(const Samples& x) {
  double squares = 0;
  for (const auto& sample : x) {
    for (const float value : sample) squares += double{value} * value;
  }
  return std::sqrt(squares / (kSamples * static_cast<double>(kShape.values())));
}

Samples Difference(const Samples& a, const Samples& b) {
  Samples difference = a;
  for (std::size_t s = 0; s < a.size(); ++s) {
    for (std::size_t i = 0; i < a[s].size(); ++i) difference[s][i] -= b[s][i];
  }
  return difference;
}

class OfValues : public testing::TestWithParam<const char*> {};

// A step of half the rms of the values has an error of half of it over sqrt(12), whatever the size
// of the changes is; and the smaller these are, the fewer bits they take.
TEST_P(OfValues, TheErrorIsThatOfTheValues) {
  const PlainPointer codec = TryMake(GetParam()).value();
  ASSERT_TRUE(codec->follows_values());
  const Samples values = Normal(1, 3.0F);
  std::size_t bytes = 0;
  for (const float size : {0.01F, 0.3F, 3.0F, 30.0F}) {
    const Samples changes = Normal(2, size);
    const Message message = Encode(*codec, changes, values);
    const double error = Rms(Difference(message.decoded, changes));
    EXPECT_NEAR(error / (0.5 * 3.0 / std::sqrt(12.0)), 1, 0.03) << size;
    EXPECT_GT(message.bytes.size(), bytes) << size;
    bytes = message.bytes.size();
    // Without values changes are coded as values are.
    const Message own = Encode(*codec, changes, {});
    EXPECT_NEAR(Rms(Difference(own.decoded, changes)) / (0.5 * size / std::sqrt(12.0)), 1, 0.03);
  }
}

TEST_P(OfValues, DecodesToWhatEncodeSaid) {
  const PlainPointer codec = TryMake(GetParam()).value();
  for (const float size : {1e-30F, 0.2F, 1e5F}) {
    const Message message = Encode(*codec, Normal(3, size), Normal(4, 1.0F));
    Samples got(kSamples, std::vector<float>(kShape.values()));
    const std::vector<std::span<float>> to(got.begin(), got.end());
    ASSERT_TRUE(codec->Decode(message.bytes, kShape, kKey, to).ok());
    EXPECT_EQ(got, message.decoded) << size;
  }
}

// What changes are decoded to is right on average, also where a step is ten times as large.
TEST_P(OfValues, IsUnbiased) {
  const PlainPointer codec = TryMake(GetParam()).value();
  const Samples values = Normal(5, 2.0F), changes = Normal(6, 0.1F);
  constexpr int kVisits = 200;
  std::vector<double> sums(kShape.values());
  for (int visit = 0; visit < kVisits; ++visit) {
    RandomKey key = kKey;
    key.step = static_cast<std::uint64_t>(visit);
    const Message message = Encode(*codec, changes, values, key);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += message.decoded[0][i];
  }
  double along = 0, squares = 0, errors = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double mean = sums[i] / kVisits;
    along += mean * changes[0][i];
    squares += double{changes[0][i]} * changes[0][i];
    errors += std::pow(mean - changes[0][i], 2);
  }
  // The mean of 200 errors of 1/sqrt(12) each, summed over the values.
  const double expected = static_cast<double>(sums.size()) / 12 / kVisits;
  EXPECT_NEAR(along / squares, 1, 5 * std::sqrt(1.0 / 12 / kVisits / squares));
  EXPECT_NEAR(errors / expected, 1, 0.1);
}

TEST_P(OfValues, ValuesOfZeroLeaveChangesTheirOwnStep) {
  const PlainPointer codec = TryMake(GetParam()).value();
  const Samples changes = Normal(7, 2.0F), zeros = Normal(7, 0.0F);
  const Message message = Encode(*codec, changes, zeros);
  EXPECT_NEAR(Rms(Difference(message.decoded, changes)) / (0.5 * 2.0 / std::sqrt(12.0)), 1, 0.03);
  const Message silent = Encode(*codec, zeros, Normal(7, 1.0F));
  EXPECT_EQ(silent.decoded, zeros);
}

TEST_P(OfValues, ValuesThatAreNotFiniteAreRefused) {
  const PlainPointer codec = TryMake(GetParam()).value();
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Samples values = Normal(8, 1.0F);
    values[1][77] = bad;
    const auto message = TryEncode(*codec, Normal(9, 1.0F), values);
    EXPECT_THAT(message.status().message(), HasSubstr("has a value that is not finite"));
  }
}

// m' = m + change over many visits: the error of each is that of the values, it does not add up.
TEST_P(OfValues, ErrorsDoNotAddUpFromVisitToVisit) {
  std::string inner = GetParam();
  for (char& c : inner) c = c == ',' ? '/' : c;
  const auto codec =
      MakeCodec("aqsgd:delta=" + inner + ",first_visit=dithered:step=0.5", kShape.hidden).value();
  EXPECT_FALSE(codec->guarded()) << "there is nothing to guard";
  EXPECT_TRUE(TraitsOf(codec->spec()).value().unbiased) << codec->spec();
  std::vector<Buffer> m(kSamples);
  Samples x = Normal(10, 1e-4F);
  std::vector<std::byte> out(codec->EncodedBytesMax(kShape, kSamples));
  for (std::uint64_t visit = 0; visit < 12; ++visit) {
    std::vector<SampleToEncode> samples;
    for (std::size_t i = 0; i < kSamples; ++i) samples.push_back({x[i], m[i].bytes()});
    std::vector<Buffer> next(kSamples);
    RandomKey key = kKey;
    key.step = visit;
    const auto bytes = codec->Encode(samples, kShape, key, DeltaMode::kDelta, out, next, nullptr);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    Samples decoded(kSamples, std::vector<float>(kShape.values()));
    for (std::size_t i = 0; i < kSamples; ++i) {
      MFormat(16).Read(next[i].bytes(), kShape, decoded[i]);
    }
    EXPECT_NEAR(Rms(Difference(decoded, x)) / (0.5 * Rms(x) / std::sqrt(12.0)), 1, 0.04) << visit;
    m = std::move(next);
    const Samples change = Normal(11 + visit, 1e-5F);
    for (std::size_t s = 0; s < kSamples; ++s) {
      for (std::size_t i = 0; i < x[s].size(); ++i) x[s][i] = 0.95F * x[s][i] + change[s][i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, OfValues,
                         testing::Values("dithered:step=0.5,of=values",
                                         "dithered:step=0.5,of=values,klt=8",
                                         "dithered:step=0.5,of=values,channels=on",
                                         "dithered:step=0.5,of=values,klt=64,channels=on",
                                         "dithered:error=0.144337567,of=values"));

TEST(OfValuesTest, SpecsSayIt) {
  EXPECT_EQ(MakeCodec("aqsgd:delta=dithered:step=0.4/klt=64/channels=on/of=values,"
                      "first_visit=dithered:step=0.4",
                      128)
                .value()
                ->spec(),
            "aqsgd:delta=dithered:step=0.4/of=values/klt=64/channels=on,"
            "first_visit=dithered:step=0.4");
  EXPECT_EQ(TryMake("dithered:step=0.4,of=changes").value()->spec(), "dithered:step=0.4");
  EXPECT_THAT(TryMake("dithered:rate=2,of=values").status().message(),
              HasSubstr("of=values takes step= or error="));
  EXPECT_THAT(TryMake("dithered:step=1,of=tokens").status().message(),
              HasSubstr("allowed are changes, values"));
}

// Elsewhere it would do nothing, and say so to nobody.
TEST(OfValuesTest, IsRefusedWhereNothingIsAChange) {
  for (const char* spec :
       {"dithered:step=0.4,of=values",
        "aqsgd:delta=dithered:step=0.4/of=values,first_visit=dithered:step=0.4/of=values",
        "lowrank:rank=4,else=dithered:step=0.4/channels=on/of=values"}) {
    EXPECT_THAT(MakeCodec(spec, 128).status().message(), HasSubstr("of=values is for changes"))
        << spec;
  }
}

// A change as large as the gradient is no reason to refuse a step that follows the gradient.
TEST(OfValuesTest, OnlyUnbiasedChangesAreForGradients) {
  const auto trait = [](const std::string& spec) { return TraitsOf(spec).value().unbiased; };
  const std::string change = "aqsgd:delta=dithered:step=0.5/of=values";
  EXPECT_TRUE(trait(change + ",first_visit=dithered:step=0.5"));
  EXPECT_TRUE(trait(change + ",first_visit=raw:dtype=fp16"));
  EXPECT_FALSE(trait(change + ",first_visit=direct:bits=8"));
  EXPECT_FALSE(trait(change + ",first_visit=dithered:step=0.5,m=8"));
  EXPECT_FALSE(trait("aqsgd:bits=4,first_visit=dithered:step=0.5"));
  EXPECT_FALSE(trait("aqsgd:delta=dithered:step=0.5/dither=off,first_visit=dithered:step=0.5"));
  EXPECT_FALSE(trait("lowrank:rank=4,else=dithered:step=0.5"));
  // A guard changes to codecs that round to the nearest.
  const std::string guarded = "aqsgd:delta=dithered:step=0.5,first_visit=dithered:step=0.5";
  EXPECT_FALSE(trait(guarded));
  EXPECT_TRUE(trait(guarded + ",guard=off"));
  EXPECT_FALSE(trait("aqsgd:delta=shifted:bits=4,first_visit=raw:dtype=fp16"));
  const std::string rounded = "direct:bits=4,levels=midtread,rounding=stochastic";
  EXPECT_TRUE(trait(rounded));
  EXPECT_FALSE(trait(rounded + ",scale=optimal")) << "it clips";
}

}  // namespace
}  // namespace shoal::compression
