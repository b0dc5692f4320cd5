// Contracts of every registered codec.

#include "compression/registry/codec_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compression/api/codec.h"
#include "compression/device/device_codec.h"
#include "tests/unit/compression/device/host_queue.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

constexpr SampleShape kShape{16, 64};

// A spec of each codec, and of options that change what it can do.
constexpr const char* kSpecs[] = {
    kLosslessCodec,
    "raw:dtype=bf16",
    "direct:bits=2",
    "direct:bits=3,levels=affine,rounding=stochastic",
    "direct:bits=3,levels=midtread,rounding=stochastic",
    "direct:bits=2,rounding=stochastic",
    "tiles:bits=2",
    "tiles:bits=3,rounding=stochastic,levels=affine",
    "topk:ratio=0.2,bits=8",
    "dithered:step=1",
    "dithered:step=1,channels=on",
    "dithered:step=1,klt=4",
    "direct:bits=4,step=0.7",
    "dithered:step=1,dither=off",
    "shifted:bits=2",
    "learned:bits=2",
    "cocktail:stride=4,ratio=0.5,bits=8",
    "lowrank:rank=4,else=direct:bits=2",  // what Encode without a link sends
    "aqsgd:bits=2",
    "aqsgd:bits=2,first_visit=shifted:bits=8",
};

std::string NameIn(const std::string& spec) { return spec.substr(0, spec.find(':')); }

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
  EXPECT_EQ(squares == 0, traits->lossless);
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

TEST_P(Registered, KeepsMIfItSaysSo) {
  const auto codec = MakeCodec(GetParam(), kShape.hidden);
  ASSERT_TRUE(codec.ok()) << codec.status().ToString();
  EXPECT_EQ((*codec)->keeps_m(), TraitsOf(GetParam())->keeps_m);
  EXPECT_EQ((*codec)->MImageBytes(kShape) > 0, (*codec)->keeps_m());
}

// What a codec says of its forms and what there is in the registry of devices are held together
// here, since codecs know nothing of devices.
TEST_P(Registered, HasAFormOnADeviceIfItSaysSo) {
  const std::string spec = GetParam();
  for (const std::string& tried : {spec, spec + ",feedback=on"}) {
    if (tried != spec && !TraitsOf(spec)->feedback) continue;
    const auto codec = NewDeviceCodec(tried, kShape.hidden, std::make_unique<HostQueue>());
    ASSERT_EQ(codec.ok(), TraitsOf(tried)->device_form) << codec.status().ToString();
    if (!codec.ok()) {
      EXPECT_EQ(codec.status().code(), StatusCode::kUnimplemented);
      EXPECT_THAT(codec.status().message(), HasSubstr("has no form on a device"));
      continue;
    }
    const auto host = MakeCodec(tried, kShape.hidden);
    ASSERT_TRUE(host.ok());
    EXPECT_EQ((*codec)->spec(), (*host)->spec());
    EXPECT_EQ((*codec)->keeps_m(), (*host)->keeps_m());
    EXPECT_EQ((*codec)->MImageBytes(kShape), (*host)->MImageBytes(kShape));
    EXPECT_EQ((*codec)->EncodedBytesMax(kShape, 2), (*host)->EncodedBytesMax(kShape, 2));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Registered, testing::ValuesIn(kSpecs));

TEST(CodecRegistry, EveryCodecIsTried) {
  const std::string known(MakeCodec("none", 64).status().message());
  for (const CodecEntry* const entry : Codecs()) {
    EXPECT_EQ(FindCodec(entry->name), entry);
    EXPECT_EQ((entry->make_plain == nullptr), (entry->make != nullptr)) << entry->name;
    EXPECT_THAT(known, HasSubstr(std::string(entry->usage)));
    for (const std::string_view key : entry->nested_keys) {
      EXPECT_NE(std::ranges::find(entry->keys, key), entry->keys.end()) << key;
    }
    EXPECT_TRUE(std::ranges::any_of(kSpecs, [&](const char* spec) {
      return NameIn(spec) == entry->name;
    })) << entry->name;
  }
}

std::string SpecsPage() {
  std::ifstream file(std::string(std::getenv("SHOAL_SOURCE_DIR")) +
                     "/docs/algorithms/codec-specs.md");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A name may stand for another codec inside of a spec than outside, with options of its own.
TEST(CodecRegistry, NamesInsideOfSpecsAreDocumented) {
  EXPECT_EQ(FindInsideCodec("direct"), FindCodec("direct"));
  EXPECT_EQ(FindInsideCodec("none"), nullptr);
  const std::string page = SpecsPage();
  std::size_t others = 0;
  for (const CodecEntry* const outside : Codecs()) {
    const CodecEntry* const inside = FindInsideCodec(outside->name);
    if (inside == outside) continue;
    ++others;
    EXPECT_EQ(inside->name, outside->name);
    EXPECT_NE(inside->make_plain, nullptr);
    EXPECT_TRUE(inside->only_changes);
    const std::size_t at = page.find("\n`delta=" + std::string(inside->name) + "`|");
    ASSERT_NE(at, std::string::npos) << inside->name;
    const std::string row = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
    for (const std::string_view key : inside->keys) {
      EXPECT_THAT(row, HasSubstr(std::string(key))) << inside->name;
    }
  }
  EXPECT_EQ(others, 1U);
}

// Every option of every codec stands in the table of the page that users read.
TEST(CodecRegistry, OptionsAreDocumented) {
  const std::string page = SpecsPage();
  for (const char* spec : kSpecs) {
    const std::string name = NameIn(spec);
    const std::size_t at = page.find("\n`" + name + "`|");
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
