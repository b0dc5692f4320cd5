// What both ends of a boundary rely on: the sender's next m is the receiver's, to the bit, and is
// what the references make of the bytes.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "compression/api/codec.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kHeader = 16;         // of a section
constexpr std::size_t kMessageHeader = 16;  // of aqsgd

OneSample Make(const std::string& spec, std::uint32_t hidden) {
  auto codec = MakeCodec(spec, hidden);
  EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  return OneSample(codec.value());
}

// Both ends of one boundary for one sample.
struct Ends {
  OneSample codec;
  SampleShape shape;
  Buffer sender_m;
  Buffer receiver_m;
  std::vector<std::byte> payload;
  std::vector<float> received;

  void Visit(std::span<const float> values) {
    // One byte off: neither payload nor m needs alignment.
    std::vector<std::byte> out(codec.EncodedBytesMax(shape) + 1);
    Buffer next;
    auto bytes =
        codec.Encode(values, shape, sender_m.bytes(), {}, std::span(out).subspan(1), &next);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    ASSERT_LE(*bytes, codec.EncodedBytesMax(shape));
    payload.assign(out.begin() + 1, out.begin() + 1 + static_cast<std::ptrdiff_t>(*bytes));
    received.assign(shape.values(), std::numeric_limits<float>::quiet_NaN());
    Buffer got;
    const Status status = codec.Decode(std::span(out).subspan(1, *bytes), shape, receiver_m.bytes(),
                                       {}, received, &got);
    ASSERT_TRUE(status.ok()) << status.ToString();
    if (!codec.keeps_m()) return;
    ASSERT_EQ(next.size(), got.size());
    ASSERT_EQ(std::memcmp(next.data(), got.data(), got.size()), 0) << codec.spec();
    ASSERT_TRUE(codec.codec().CheckMImage(got.bytes(), shape).ok());
    const auto image = reference::ReadImage(got.bytes());
    for (std::size_t i = 0; i < received.size(); ++i) {
      ASSERT_EQ(received[i], reference::ImageValue(image, i)) << i;
    }
    sender_m = std::move(next);
    receiver_m = std::move(got);
  }
};

double RelativeError(std::span<const float> x, std::span<const float> y) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    norm += double{x[i]} * x[i];
  }
  return std::sqrt(error / norm);
}

struct Case {
  std::uint32_t tokens, hidden, bucket;
};
constexpr Case kCases[] = {{1, 1, 1},     {1, 3, 3},      {5, 7, 1},       {3, 129, 43},
                           {9, 128, 128}, {4, 1600, 100}, {2, 5000, 5000}, {1, 20011, 20011}};

TEST(DirectCodec, DecodesToTheReferenceLevelsAndNoLevelIsNearer) {
  for (int bits = 2; bits <= 8; ++bits) {
    for (const Case& c : kCases) {
      Ends ends{Make("direct:bits=" + std::to_string(bits) + ",bucket=" + std::to_string(c.bucket),
                     c.hidden),
                {c.tokens, c.hidden},
                {},
                {},
                {},
                {}};
      const std::size_t n = ends.shape.values();
      const auto x = reference::Gaussian(n, n + static_cast<std::size_t>(bits));
      ends.Visit(x);
      const auto body = std::span(ends.payload).subspan(kHeader);
      ASSERT_EQ(body.size(), n / c.bucket * 2 + (n + 7) / 8 * static_cast<std::size_t>(bits));
      ASSERT_EQ(ends.received, reference::Levels(body, n, c.bucket, bits));
      for (std::size_t i = 0; i < n; ++i) {
        const double scale = reference::ScaleAt(body, i / c.bucket);
        ASSERT_LE(std::fabs(x[i]), scale);
        ASSERT_LE(std::fabs(x[i] - ends.received[i]), std::ldexp(scale, -bits) * (1 + 1e-4));
      }
    }
  }
}

TEST(AqsgdCodec, EveryVisitIsTheReferenceArithmeticOnBothEnds) {
  for (int bits = 2; bits <= 8; ++bits) {
    for (const Case& c : kCases) {
      Ends ends{Make("aqsgd:bits=" + std::to_string(bits) + ",bucket=" + std::to_string(c.bucket),
                     c.hidden),
                {c.tokens, c.hidden},
                {},
                {},
                {},
                {}};
      const std::size_t n = ends.shape.values();
      for (std::uint64_t visit = 0; visit < 4; ++visit) {
        const auto x = reference::Gaussian(n, visit * 77 + n);
        const auto m = ends.receiver_m.empty() ? reference::Image{}
                                               : reference::ReadImage(ends.receiver_m.bytes());
        ASSERT_NO_FATAL_FAILURE(ends.Visit(x));
        const auto image = reference::ReadImage(ends.receiver_m.bytes());
        if (visit == 0) {
          ASSERT_EQ(image, reference::ImageOf(x));
        } else {
          const auto body = std::span(ends.payload).subspan(kMessageHeader + kHeader);
          ASSERT_EQ(image, reference::NextImage(m, reference::Levels(body, n, c.bucket, bits)));
        }
      }
    }
  }
}

TEST(AqsgdCodec, BothEndsAgreeOverWildVisits) {
  // Zeros, subnormals, fp16 limits, and magnitudes that need every exponent, in any order.
  std::mt19937_64 random(11);
  for (const char* first :
       {"raw:dtype=fp32", "raw:dtype=fp16", "raw:dtype=bf16", "direct:bits=8"}) {
    Ends ends{Make("aqsgd:bits=3,bucket=16,first_visit=" + std::string(first), 48),
              {5, 48},
              {},
              {},
              {},
              {}};
    int exponents_seen = 0;
    for (int visit = 0; visit < 300; ++visit) {
      auto x = reference::Gaussian(ends.shape.values(), random());
      const int power = static_cast<int>(random() % 241) - 126;
      for (float& v : x) {
        switch (random() % 8) {
          case 0: v = 0; break;
          case 1: v = -0.0F; break;
          case 2: v = std::numeric_limits<float>::denorm_min() * (random() % 1000); break;
          case 3: v = 65504.0F + static_cast<float>(random() % 64); break;
          case 4: v = std::ldexp(v, power < 113 ? power : 112); break;
          default: break;
        }
      }
      const auto m = ends.receiver_m.empty() ? reference::Image{}
                                             : reference::ReadImage(ends.receiver_m.bytes());
      ASSERT_NO_FATAL_FAILURE(ends.Visit(x)) << first << " visit " << visit;
      const auto image = reference::ReadImage(ends.receiver_m.bytes());
      exponents_seen += image.exponent > 0;
      if (!m.halves.empty()) {
        const auto body = std::span(ends.payload).subspan(kMessageHeader + kHeader);
        ASSERT_EQ(image, reference::NextImage(m, reference::Levels(body, x.size(), 16, 3)));
      }
      if (random() % 10 == 0) {
        ends.sender_m = Buffer();
        ends.receiver_m = Buffer();
      }
    }
    EXPECT_GT(exponents_seen, 10);
  }
}

TEST(AqsgdCodec, RepeatedVisitsComeCloserWhileDirectDoesNot) {
  const auto x = reference::Gaussian(16 * 128, 5);
  Ends delta{Make("aqsgd:bits=2,first_visit=direct:bits=2", 128), {16, 128}, {}, {}, {}, {}};
  Ends direct{Make("direct:bits=2", 128), {16, 128}, {}, {}, {}, {}};
  direct.Visit(x);
  delta.Visit(x);
  EXPECT_NEAR(RelativeError(x, delta.received), RelativeError(x, direct.received), 0.01);
  double last = RelativeError(x, delta.received);
  for (int visit = 0; visit < 5; ++visit) {
    delta.Visit(x);
    const double error = RelativeError(x, delta.received);
    EXPECT_LT(error, last * 0.6);
    last = error;
  }
  EXPECT_LT(last, RelativeError(x, direct.received) / 30);
}

TEST(Codecs, RelativeErrorsOfGaussianValues) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(256 * 128);
  for (float& v : x) v = normal(random);
  const double most[] = {0, 0, 0.47, 0.22, 0.105, 0.052, 0.026, 0.0130, 0.0066};
  for (int bits = 2; bits <= 8; ++bits) {
    Ends ends{Make("direct:bits=" + std::to_string(bits), 128), {256, 128}, {}, {}, {}, {}};
    ends.Visit(x);
    EXPECT_LT(RelativeError(x, ends.received), most[bits]) << bits;
    EXPECT_GT(RelativeError(x, ends.received), most[bits] * 0.6) << bits;
  }
  const std::pair<const char*, double> raws[] = {
      {"raw:dtype=fp32", 0}, {"raw:dtype=fp16", 0x1p-11}, {"raw:dtype=bf16", 0x1p-8}};
  for (const auto& [spec, bound] : raws) {
    Ends ends{Make(spec, 128), {256, 128}, {}, {}, {}, {}};
    ends.Visit(x);
    EXPECT_LE(RelativeError(x, ends.received), bound) << spec;
  }
}

TEST(Codecs, AZeroBucketDecodesToExactZeros) {
  for (const char* spec : {"raw:dtype=fp32", "raw:dtype=fp16", "raw:dtype=bf16", "direct:bits=2",
                           "direct:bits=8", "aqsgd:bits=4"}) {
    Ends ends{Make(spec, 64), {3, 64}, {}, {}, {}, {}};
    const std::vector<float> zeros(3 * 64, 0.0F);
    for (int visit = 0; visit < 3; ++visit) {
      ends.Visit(zeros);
      for (const float v : ends.received) ASSERT_EQ(std::bit_cast<std::uint32_t>(v), 0U) << spec;
    }
  }
}

TEST(Codecs, TheSameInputGivesTheSameBytes) {
  const auto x = reference::Gaussian(3 * 96, 9);
  for (const char* spec : {"raw:dtype=bf16", "direct:bits=3", "aqsgd:bits=5"}) {
    Ends one{Make(spec, 96), {3, 96}, {}, {}, {}, {}};
    Ends two{Make(spec, 96), {3, 96}, {}, {}, {}, {}};
    for (int visit = 0; visit < 2; ++visit) {
      one.Visit(x);
      two.Visit(x);
      EXPECT_EQ(one.payload, two.payload);
    }
  }
}

TEST(Codecs, NonFiniteAndTooLargeValuesAreRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* spec :
       {"raw:dtype=fp32", "raw:dtype=fp16", "raw:dtype=bf16", "direct:bits=4", "aqsgd:bits=4"}) {
    Ends ends{Make(spec, 40), {3, 40}, {}, {}, {}, {}};
    for (int visit = 0; visit < 2; ++visit) {
      auto x = reference::Gaussian(120, 1);
      const bool only_finite = std::string(spec) == "raw:dtype=fp32";
      for (const float bad : {infinity, -infinity, std::nanf(""), 0x1.1p118F}) {
        if (bad == 0x1.1p118F && only_finite) continue;
        x[119] = bad;
        std::vector<std::byte> out(ends.codec.EncodedBytesMax(ends.shape));
        Buffer next;
        const auto bytes = ends.codec.Encode(x, ends.shape, ends.sender_m.bytes(), {}, out, &next);
        ASSERT_FALSE(bytes.ok()) << spec << " " << bad;
        EXPECT_EQ(bytes.status().code(), StatusCode::kInvalidArgument);
        EXPECT_TRUE(next.empty());
      }
      x[119] = 1;
      ends.Visit(x);
    }
  }
}

TEST(Codecs, ValuesBeyondFp16SurviveByTheExponent) {
  std::vector<float> x(8, 1.0F);
  x[3] = 65520.0F;
  x[4] = -1e9F;
  for (const char* spec : {"raw:dtype=fp16", "aqsgd:bits=8"}) {
    Ends ends{Make(spec, 8), {1, 8}, {}, {}, {}, {}};
    ends.Visit(x);
    EXPECT_NEAR(ends.received[4], -1e9F, 1e9F * 0x1p-11F);
    EXPECT_NEAR(ends.received[3], 65520.0F, 1e9F * 0x1p-20F);
  }
}

// fp16 without an exponent loses a sixth of 1e-7 and all of 1e-8.
TEST(Codecs, SmallValuesKeepTheirDigitsByTheExponent) {
  for (const float size : {1e-3F, 5e-4F, 1e-5F, 1e-7F, 1e-8F, 1e-20F, 1e-29F}) {
    const std::vector<float> x = {size, -size, size / 3, size / 7, 0, size / 2, -size / 5, size};
    for (const char* spec : {"raw:dtype=fp16", "aqsgd:bits=8",
                             "aqsgd:delta=direct:bits=8,first_visit=raw:dtype=fp32"}) {
      Ends ends{Make(spec, 8), {1, 8}, {}, {}, {}, {}};
      for (int visit = 0; visit < 3; ++visit) {
        ends.Visit(x);
        for (std::size_t i = 0; i < x.size(); ++i) {
          EXPECT_NEAR(ends.received[i], x[i], size * 0x1p-10F) << spec << ' ' << size;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal::compression
