#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/api/codec.h"
#include "compression/api/codec_spec.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

std::string Canonical(std::string_view spec, std::uint32_t hidden) {
  auto codec = MakeCodec(spec, hidden);
  return codec.ok() ? codec.value()->spec() : codec.status().ToString();
}

TEST(CodecSpec, CanonicalSpecHasEveryOption) {
  EXPECT_EQ(Canonical("raw:dtype=bf16", 768), "raw:dtype=bf16");
  EXPECT_EQ(Canonical("direct:bits=6", 768), "direct:bits=6,bucket=128");
  EXPECT_EQ(Canonical("direct:bucket=64,bits=8", 768), "direct:bits=8,bucket=64");
  EXPECT_EQ(Canonical("aqsgd:bits=3", 768), "aqsgd:bits=3,bucket=128,first_visit=raw:dtype=fp16");
  EXPECT_EQ(Canonical("aqsgd:first_visit=direct:bits=8,bits=2", 768),
            "aqsgd:bits=2,bucket=128,first_visit=direct:bits=8/bucket=128");
  EXPECT_EQ(Canonical("aqsgd:bits=2,first_visit=direct:bits=8/bucket=64", 768),
            "aqsgd:bits=2,bucket=128,first_visit=direct:bits=8/bucket=64");
}

TEST(CodecSpec, CanonicalSpecNamesTheSameCodecAgain) {
  for (const char* spec : {"raw:dtype=fp32", "direct:bits=5", "aqsgd:bits=4",
                           "aqsgd:bits=4,first_visit=direct:bits=8/bucket=32"}) {
    const std::string canonical = Canonical(spec, 1600);
    EXPECT_EQ(Canonical(canonical, 1600), canonical);
  }
}

TEST(CodecSpec, DefaultBucketIsTheLargestDivisorUpTo128) {
  EXPECT_EQ(Canonical("direct:bits=4", 1600), "direct:bits=4,bucket=100");
  EXPECT_EQ(Canonical("direct:bits=4", 80), "direct:bits=4,bucket=80");
  EXPECT_EQ(Canonical("direct:bits=4", 131), "direct:bits=4,bucket=1");
  EXPECT_EQ(Canonical("direct:bits=4", 1), "direct:bits=4,bucket=1");
}

TEST(CodecSpec, ErrorsListWhatIsAllowed) {
  const struct {
    const char* spec;
    const char* part;
  } cases[] = {
      {"", "known are raw:dtype=fp32|fp16|bf16, direct"},
      {"aqsdg:bits=2", "unknown codec 'aqsdg'; did you mean 'aqsgd'?; known are raw"},
      {"zip:bits=2", "unknown codec 'zip'; known are raw"},
      {"raw", "no dtype given; allowed are dtype=fp32, dtype=fp16, dtype=bf16"},
      {"raw:dtype=fp8", "dtype=fp8; allowed are dtype=fp32, dtype=fp16, dtype=bf16"},
      {"raw:bits=2", "unknown option 'bits'; raw knows dtype"},
      {"direct", "no bits given; allowed are bits=1 to bits=8"},
      {"direct:bits=1,levels=midtread", "use midrise"},
      {"direct:bits=4,levels=odd", "levels=odd; allowed are midrise, midtread, affine"},
      {"direct:bits=4,levels=affine,scale=optimal", "scale=optimal needs"},
      {"direct:bits=4,rounding=up", "rounding=up; allowed are nearest, stochastic"},
      {"direct+gzip:bits=4", "zstd"},
      {"direct+:bits=4", "nothing behind '+'"},
      {"raw+zstd:dtype=fp32", "raw takes no entropy coder"},
      {"aqsgd:bits=4,m=3", "m=3; allowed are 16, 8, 4, 2"},
      {"aqsgd:bits=4,delta=direct:bits=2", "unknown option 'bits'"},
      {"aqsgd:delta=aqsgd:bits=2", "allowed are delta=raw"},
      {"aqsgd:bits=4,guard=maybe", "guard=maybe; allowed are on, off"},
      {"direct:bits=9", "allowed are bits=1 to bits=8"},
      {"direct:bits=04", "allowed are bits=1 to bits=8"},
      {"direct:bits=4x", "allowed are bits=1 to bits=8"},
      {"direct:bits=99999999999", "allowed are bits=1 to bits=8"},
      {"direct:bits=4,bits=5", "option 'bits' is given twice"},
      {"direct:bits=4,", "is not key=value"},
      {"direct:", "is not key=value"},
      {"direct:bits=", "is not key=value"},
      {"direct:bits=4,bucket=5", "allowed are channel, 1, 2, 3, 4, 6, 12"},
      {"direct:bits=4,bucket=0", "allowed are channel, 1, 2, 3, 4, 6, 12"},
      {"direct:bits=4,bucket=24", "allowed are channel, 1, 2, 3, 4, 6, 12"},
      {"aqsgd:bits=4,bukket=4",
       "unknown option 'bukket'; did you mean 'bucket'?; aqsgd knows bits, bucket, first_visit, "
       "levels, scale, step, rounding, channels, m, guard, delta"},
      {"aqsgd:bits=4,first_visit=aqsgd:bits=8", "allowed are first_visit=raw:dtype=..."},
      {"aqsgd:bits=4,first_visit=direct:bits=8/bucket=5", "allowed are channel, 1, 2, 3, 4, 6, 12"},
      {"aqsgd:bits=4,first_visit=raw:dtype=x", "first_visit of 'aqsgd:bits=4,first_visit="},
  };
  for (const auto& c : cases) {
    auto codec = MakeCodec(c.spec, 12);
    ASSERT_FALSE(codec.ok()) << c.spec;
    EXPECT_EQ(codec.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(codec.status().message(), HasSubstr(c.part)) << c.spec;
  }
}

TEST(CodecSpec, LimitsOfTextAndHidden) {
  EXPECT_FALSE(MakeCodec("raw:dtype=fp32", 0).ok());
  EXPECT_TRUE(MakeCodec("raw:dtype=fp32", 1U << 20).ok());
  EXPECT_FALSE(MakeCodec("raw:dtype=fp32", (1U << 20) + 1).ok());
  auto codec = MakeCodec("raw:" + std::string(100000, 'x'), 8);
  ASSERT_FALSE(codec.ok());
  EXPECT_LT(codec.status().message().size(), 200U);
}

TEST(CodecSpec, OptionsAreAddedAndTakenOut) {
  const std::string spec = "aqsgd+rans:bits=3,first_visit=direct:bits=8/bucket=64,m=8";
  EXPECT_EQ(SpecOptions(spec), "bits=3,first_visit=direct:bits=8/bucket=64,m=8");
  EXPECT_EQ(SpecOptions("average"), "");
  EXPECT_EQ(WithoutOptions(spec, {}), spec);
  EXPECT_EQ(WithoutOptions(spec, {"first_visit"}), "aqsgd+rans:bits=3,m=8");
  EXPECT_EQ(WithoutOptions(spec, {"m", "first_visit", "bits", "guard"}), "aqsgd+rans");
  EXPECT_EQ(WithoutOptions("no:spec", {"bits"}), "no:spec");
  EXPECT_EQ(WithOptions("average", "local_steps=4"), "average:local_steps=4");
  EXPECT_EQ(WithOptions("onebit:bucket=64", "a=1,b=2"), "onebit:bucket=64,a=1,b=2");
  const auto nested = ParseCodecSpec("direct+zstd:bits=8/bucket=64", '/');
  ASSERT_TRUE(nested.ok());
  EXPECT_EQ(nested->Text(), "direct+zstd:bits=8,bucket=64");
}

TEST(CodecSpec, OnlyAqsgdKeepsM) {
  EXPECT_FALSE(MakeCodec("raw:dtype=fp32", 8).value()->keeps_m());
  EXPECT_FALSE(MakeCodec("direct:bits=4", 8).value()->keeps_m());
  EXPECT_TRUE(MakeCodec("aqsgd:bits=4", 8).value()->keeps_m());
}

}  // namespace
}  // namespace shoal::compression
