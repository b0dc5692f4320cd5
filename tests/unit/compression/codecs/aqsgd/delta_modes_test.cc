// What `aqsgd` codes changes with: a codec whose errors shrink from visit to visit, and in
// DeltaMode::kWideDelta one of twice the bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compression/api/m_format.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr SampleShape kShape{64, 128};

// A sender and what it does to its m. The receiver's is the same (codec_property_test.cc).
class Sender {
 public:
  explicit Sender(const std::string& spec) : codec_(spec, kShape.hidden) {}

  // Bytes of the message; the next visit is of m as it is then.
  std::size_t Visit(const std::vector<float>& x, DeltaMode mode = DeltaMode::kDelta) {
    std::vector<std::byte> out(codec_.EncodedBytesMax(kShape));
    Buffer next;
    ++key_.step;
    const auto bytes = codec_.Encode(x, kShape, m_.bytes(), key_, out, &next, mode);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    m_ = std::move(next);
    return bytes.ok() ? *bytes : 0;
  }
  std::vector<float> m() const {
    std::vector<float> values(kShape.values());
    MFormat(codec_.spec().ends_with("m=8") ? 8 : 16).Read(m_.bytes(), kShape, values);
    return values;
  }

 private:
  OneSample codec_;
  RandomKey key_;
  Buffer m_;
};

double Norm(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - y[i], 2);
  return std::sqrt(sum);
}

std::vector<float> Moved(std::vector<float> x, double by, std::uint64_t seed) {
  const auto change = reference::Gaussian(x.size(), seed, static_cast<float>(by));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += change[i];
  return x;
}

// Three channels 30 times the others, the first token 50 times the others.
std::vector<float> StandingOut(std::uint64_t seed) {
  auto x = reference::Gaussian(kShape.values(), seed);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % kShape.hidden < 3) x[i] *= 30;
    if (i < kShape.hidden) x[i] *= 50;
  }
  return x;
}

constexpr const char* kChanges[] = {
    "delta=direct:bits=1",
    "delta=direct:bits=2",
    "delta=direct:bits=3",
    "delta=direct:bits=4/bucket=32",
    "delta=direct+rans:bits=2",
    "delta=direct:bits=2/bucket=channel",
    "delta=direct:bits=2/channels=on",
    "bits=3",
    "bits=2,m=8",
    "bits=3,channels=on",
    "bits=4,step=0.7,channels=on",
    "bits=4,step=1.4",
    "delta=tiles:bits=2",
    "delta=tiles:bits=3/adaptive=on",
    "delta=dithered:step=3",
    "delta=dithered:step=2",
    "delta=dithered:step=1",
    "delta=dithered:step=0.7/channels=on",
    "delta=dithered:rate=1",
    "delta=dithered:rate=2",
    "delta=dithered:error=0.9",
    "delta=dithered:error=0.1",
};

TEST(DeltaModes, WideChangesTakeAtLeastTwiceTheBits) {
  const auto x = reference::Gaussian(kShape.values(), 1);
  const auto y = Moved(x, 0.1, 2);
  for (const std::string changes : kChanges) {
    const std::string spec = "aqsgd:" + changes + ",first_visit=raw:dtype=fp32";
    Sender plain(spec), wide(spec);
    plain.Visit(x);
    wide.Visit(x);
    // Scales and tables, about as long in both, are a tenth of a message of one bit.
    const double bytes = static_cast<double>(plain.Visit(y));
    const double times = static_cast<double>(wide.Visit(y, DeltaMode::kWideDelta)) / bytes;
    const bool coded = spec.find("+rans") != std::string::npos;  // of codes of twice the bits
    EXPECT_GT(times, coded ? 1.5 : 1.75) << spec;
    if (spec.find("m=8") == std::string::npos) {
      EXPECT_LT(Norm(wide.m(), y), 0.6 * Norm(plain.m(), y)) << spec;
    }
  }
}

TEST(DeltaModes, WideChangesHaveNeverFewerBits) {
  const auto x = reference::Gaussian(kShape.values(), 3);
  const auto y = Moved(x, 0.1, 4);
  for (const std::string changes :
       {"delta=direct:bits=8", "delta=direct:bits=5", "delta=tiles:bits=8", "delta=raw:dtype=fp16",
        "delta=raw:dtype=bf16", "delta=dithered:step=0.0625", "delta=dithered:rate=6",
        "delta=dithered:error=0.02", "delta=topk:ratio=0.2/bits=8"}) {
    Sender plain("aqsgd:" + changes), wide("aqsgd:" + changes);
    plain.Visit(x);
    wide.Visit(x);
    EXPECT_GE(wide.Visit(y, DeltaMode::kWideDelta) + 16, plain.Visit(y)) << changes;
    EXPECT_LE(Norm(wide.m(), y), 1.1 * Norm(plain.m(), y)) << changes;
  }
}

// AQ-SGD, theorem 3.1: what is left of a change is a part of it. Here x stays, so only what m
// misses is coded, visit by visit. Few mid-rise levels may miss more at first (see below).
TEST(DeltaModes, WhatMMissesShrinksFromVisitToVisit) {
  for (const std::string changes : kChanges) {
    const bool own_floor = changes.find("m=8") != std::string::npos;  // m cannot hold less
    const bool levels = changes.find("dithered") == std::string::npos;
    const auto x = reference::Gaussian(kShape.values(), 5);
    const auto y = Moved(x, 0.5, 6);
    const double start = Norm(x, y);
    Sender sender("aqsgd:" + changes + ",first_visit=raw:dtype=fp32");
    sender.Visit(x);
    double missed = start;
    for (int visit = 0; visit < 6; ++visit) {
      sender.Visit(y);
      const double now = Norm(sender.m(), y);
      if (!own_floor && !levels && missed > 1e-2 * start) {
        EXPECT_LT(now, 0.97 * missed) << changes << ", visit " << visit;
      }
      missed = now;
    }
    EXPECT_LT(missed, (own_floor ? 0.5 : levels ? 0.1 : 0.8) * start) << changes;
  }
}

TEST(DeltaModes, WhatDoesNotContractIsRefused) {
  for (const std::string changes :
       {"delta=dithered:step=3.5", "delta=dithered:step=16", "delta=dithered:error=1",
        "delta=dithered:error=2", "delta=dithered:rate=0.5", "delta=dithered:rate=0.99",
        "delta=dithered:step=4/channels=on"}) {
    const auto codec = MakeCodec("aqsgd:" + changes, kShape.hidden);
    ASSERT_FALSE(codec.ok()) << changes;
    EXPECT_THAT(codec.status().message(),
                HasSubstr("changes cannot be coded so: its errors are as large as the changes"));
    EXPECT_THAT(codec.status().message(), HasSubstr("take a step below 3.46"));
  }
  for (const std::string changes :
       {"bits=1,levels=affine", "bits=1,rounding=stochastic", "delta=direct:bits=1/levels=affine",
        "delta=tiles:bits=1", "delta=tiles:bits=1/levels=midrise/rounding=stochastic"}) {
    const auto codec = MakeCodec("aqsgd:" + changes, kShape.hidden);
    ASSERT_FALSE(codec.ok()) << changes;
    EXPECT_THAT(codec.status().message(),
                HasSubstr("one bit of affine or randomly rounded levels"));
  }
  // None of this is forbidden to gradients.
  EXPECT_TRUE(MakeCodec("dithered:step=16", kShape.hidden).ok());
  EXPECT_TRUE(MakeCodec("direct:bits=1,levels=affine", kShape.hidden).ok());
}

// docs/algorithms/aqsgd.md, "Mid-rise levels": one value that changes alone leaves its bucket far
// from zero in the Euclidean norm, yet the largest miss of a bucket shrinks by 2^bits each visit.
TEST(DeltaModes, OneValueThatChangesAloneIsFollowed) {
  for (int bits = 1; bits <= 4; ++bits) {
    const auto x = reference::Gaussian(kShape.values(), 7);
    auto y = x;
    for (std::size_t i = 5; i < y.size(); i += kShape.hidden) y[i] += 64;  // one of each bucket
    Sender sender("aqsgd:bits=" + std::to_string(bits) + ",first_visit=raw:dtype=fp32");
    sender.Visit(x);
    double largest = 64;
    for (int visit = 0; visit < 3; ++visit) {
      sender.Visit(y);
      const auto m = sender.m();
      double now = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        now = std::max(now, std::fabs(double{m[i]} - y[i]));
      // Scales are bf16, rounded up; m is fp16 (64 has steps of 1/16).
      EXPECT_LE(now, largest * std::ldexp(1 + 0x1p-7, -bits) + 0x1p-5) << bits << " " << visit;
      largest = now;
    }
  }
}

TEST(DeltaModes, ScalesPerChannelFollowChannelsThatStandOut) {
  const auto x = StandingOut(8);
  auto y = x;
  const auto other = StandingOut(9);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += 0.1F * other[i];
  // What is missed of the channels and tokens that do not stand out.
  const auto missed = [&](const std::string& spec, DeltaMode mode) {
    Sender sender(spec);
    sender.Visit(x);
    sender.Visit(y, mode);
    const auto m = sender.m();
    double sum = 0, all = 0;
    for (std::size_t i = kShape.hidden; i < y.size(); ++i) {
      if (i % kShape.hidden < 3) continue;
      sum += std::pow(double{m[i]} - y[i], 2);
      all += std::pow(double{x[i]} - y[i], 2);
    }
    return std::sqrt(sum / all);
  };
  for (const DeltaMode mode : {DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull}) {
    const double shared = missed("aqsgd:bits=3,first_visit=raw:dtype=fp32", mode);
    const double scaled = missed("aqsgd:bits=3,channels=on,first_visit=raw:dtype=fp32", mode);
    EXPECT_LT(scaled, 0.25 * shared) << DeltaModeName(mode);
  }
  EXPECT_GT(missed("aqsgd:bits=3,first_visit=raw:dtype=fp32", DeltaMode::kDelta), 1)
      << "a step for all channels is too coarse for most of them";
}

TEST(DeltaModes, ScalesPerChannelAndPerBucketTogether) {
  const auto codec = MakeCodec("aqsgd:bits=3,channels=on", kShape.hidden);
  ASSERT_TRUE(codec.ok()) << codec.status().ToString();
  EXPECT_EQ((*codec)->spec(), "aqsgd:bits=3,bucket=128,channels=on,first_visit=raw:dtype=fp16");
  EXPECT_TRUE(TraitsOf("aqsgd:bits=3,channels=on")->device_form);
  EXPECT_TRUE(TraitsOf("direct:bits=3,channels=on")->device_form);
  EXPECT_TRUE(TraitsOf("direct:bits=3")->device_form);
  for (const char* spec :
       {"aqsgd:bits=3,channels=on,bucket=channel", "direct:bits=3,channels=on,bucket=channel"}) {
    const auto both = MakeCodec(spec, kShape.hidden);
    ASSERT_FALSE(both.ok());
    EXPECT_THAT(both.status().message(), HasSubstr("bucket=channel has a scale per channel"));
    EXPECT_THAT(both.status().message(), Not(HasSubstr("unknown option")));
  }
}

}  // namespace
}  // namespace shoal::compression
