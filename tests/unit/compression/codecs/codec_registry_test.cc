// Contracts of every registered codec.

#include "compression/codecs/codec_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "compression/api/codec.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

constexpr SampleShape kShape{16, 64};

// A spec of each codec, and of options that change what it can do.
constexpr const char* kSpecs[] = {
    "raw:dtype=fp32",
    "raw:dtype=bf16",
    "direct:bits=2",
    "direct:bits=3,levels=affine,rounding=stochastic",
    "direct:bits=3,levels=midtread,rounding=stochastic",
    "direct:bits=2,rounding=stochastic",
    "tiles:bits=2",
    "tiles:bits=3,rounding=stochastic,levels=affine",
    "topk:ratio=0.2,bits=8",
    "dithered:step=1",
    "shifted:bits=2",
    "learned:bits=2",
    "cocktail:stride=4,ratio=0.5,bits=8",
    "lowrank:rank=4,else=direct:bits=2",  // what Encode without a link sends
    "aqsgd:bits=2",
};

std::vector<float> Values() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(kShape.values());
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> RoundTrip(const MessageCodec& codec, const std::vector<float>& values,
                             std::uint64_t step) {
  const RandomKey key{5, step};
  const SampleToEncode sample{values, {}};
  std::vector<std::byte> bytes(codec.EncodedBytesMax(kShape, 1));
  std::vector<Buffer> next(1);
  const auto size =
      codec.Encode({&sample, 1}, kShape, key, DeltaMode::kDelta, bytes, next, nullptr);
  EXPECT_TRUE(size.ok()) << size.status().ToString();
  std::vector<float> decoded(values.size());
  SampleToDecode out;
  out.values = decoded;
  const Status status = codec.Decode(std::span(bytes).first(*size), {&out, 1}, kShape, key, next);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return decoded;
}

class Registered : public testing::TestWithParam<const char*> {};

// The average of many decodings nears the values if, and only if, the codec says so.
TEST_P(Registered, IsUnbiasedIfItSaysSo) {
  const auto traits = TraitsOf(GetParam());
  ASSERT_TRUE(traits.ok()) << traits.status().ToString();
  const auto codec = MakeCodec(GetParam(), kShape.hidden);
  ASSERT_TRUE(codec.ok()) << codec.status().ToString();
  if ((*codec)->keeps_m()) {
    EXPECT_FALSE(traits->unbiased);
    return;
  }
  constexpr int kRounds = 2000;
  const std::vector<float> values = Values();
  std::vector<double> sums(values.size());
  double squares = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<float> decoded =
        RoundTrip(**codec, values, static_cast<std::uint64_t>(round));
    for (std::size_t i = 0; i < values.size(); ++i) {
      sums[i] += decoded[i];
      squares += std::pow(decoded[i] - values[i], 2);
    }
  }
  double bias = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    bias += std::pow(sums[i] / kRounds - values[i], 2);
  // Of errors without bias the mean of N has 1 / N of the square.
  const double of_error = squares > 0 ? bias / (squares / kRounds) : 0;
  if (traits->exact) {
    EXPECT_LT(squares / kRounds, 1e-4 * static_cast<double>(values.size()));
  } else if (traits->unbiased) {
    EXPECT_LT(of_error, 2.0 / kRounds) << GetParam();
  } else {
    EXPECT_GT(of_error, 10.0 / kRounds) << GetParam();
  }
}

TEST_P(Registered, TakesFeedbackAndEntropyCodersIfItSaysSo) {
  const std::string spec = GetParam();
  const auto traits = TraitsOf(spec);
  ASSERT_TRUE(traits.ok());
  EXPECT_EQ(MakeCodec(spec + ",feedback=on", kShape.hidden).ok(), traits->feedback);
  const std::size_t colon = spec.find(':');
  const auto coded = MakeCodec(spec.substr(0, colon) + "+rans" + spec.substr(colon), kShape.hidden);
  EXPECT_EQ(coded.ok(), traits->entropy_coder);
}

INSTANTIATE_TEST_SUITE_P(All, Registered, testing::ValuesIn(kSpecs));

TEST(CodecRegistry, EveryCodecIsTried) {
  const auto known = MakeCodec("none", 64).status().message();
  for (const char* spec : kSpecs) {
    const std::string name = std::string(spec).substr(0, std::string(spec).find(':'));
    const CodecEntry* const entry = FindCodec(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ((entry->make == nullptr), (entry->compose != nullptr)) << name;
    EXPECT_THAT(known, HasSubstr(std::string(entry->usage)));
  }
  // And no other one is known.
  std::size_t names = 0;
  for (std::size_t at = 0; (at = known.find(':', at + 1)) != std::string::npos;) {
    std::size_t begin = at;
    while (begin > 0 && known[begin - 1] >= 'a' && known[begin - 1] <= 'z') --begin;
    const std::string name = known.substr(begin, at - begin);
    if (FindCodec(name) == nullptr) continue;
    ++names;
    EXPECT_TRUE(std::any_of(std::begin(kSpecs), std::end(kSpecs), [&](const char* spec) {
      return std::string(spec).starts_with(name + ":");
    })) << name;
  }
  EXPECT_GE(names, 10U);
}

// Every option of every codec stands in the table of the page that users read.
TEST(CodecRegistry, OptionsAreDocumented) {
  std::ifstream file(std::string(std::getenv("SHOAL_SOURCE_DIR")) +
                     "/docs/algorithms/codec-specs.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const char* spec : kSpecs) {
    const std::string name = std::string(spec).substr(0, std::string(spec).find(':'));
    const std::size_t at = page.find("\n`" + name + "` | ");
    ASSERT_NE(at, std::string::npos) << name << " has no row in docs/algorithms/codec-specs.md";
    const std::string row = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
    const bool as_direct = row.find("as `direct`") != std::string::npos ||
                           row.find("as `topk`") != std::string::npos ||
                           row.find("as `shifted`") != std::string::npos;
    for (const std::string_view key : FindCodec(name)->keys) {
      if (key == "feedback" || (as_direct && row.find(key) == std::string::npos)) continue;
      EXPECT_THAT(row, HasSubstr(std::string(key))) << name;
    }
  }
}

}  // namespace
}  // namespace shoal::compression
