// Bytes from a peer: whatever they are, decoding ends with values or with a clear error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compression/api/codec.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

constexpr SampleShape kShape{3, 12};  // 36 values: the last group has padding

struct Sent {
  OneSample codec;
  Buffer m;
  std::vector<std::byte> payload;
};

// A valid payload of `spec`, of a second visit where the codec keeps m.
Sent Send(const std::string& spec, bool second = true) {
  Sent sent{OneSample(spec, kShape.hidden), {}, {}};
  for (int visit = 0; visit < (second && sent.codec.keeps_m() ? 2 : 1); ++visit) {
    std::vector<std::byte> out(sent.codec.EncodedBytesMax(kShape));
    const auto x = reference::Gaussian(kShape.values(), 3);
    Buffer next;
    const Buffer m = visit == 0 ? Buffer() : Buffer::CopyOf(sent.m.bytes());
    const auto bytes = sent.codec.Encode(x, kShape, m.bytes(), {}, out, &next);
    EXPECT_TRUE(bytes.ok());
    out.resize(*bytes);
    sent.payload = out;
    if (visit == 0 && second) sent.m = std::move(next);
  }
  return sent;
}

Status Decode(const Sent& sent, std::span<const std::byte> payload, std::span<const std::byte> m) {
  // An exact copy, so that the sanitizer sees a read beyond the end.
  const Buffer copy = Buffer::CopyOf(payload);
  std::vector<float> values(kShape.values(), -1.0F);
  Buffer next;
  const Status status = sent.codec.Decode(copy.bytes(), kShape, m, {}, values, &next);
  if (!status.ok()) {
    EXPECT_TRUE(next.empty());
    EXPECT_THAT(status.message(), HasSubstr("codec " + std::string(sent.codec.spec())));
  } else {
    for (const float v : values) EXPECT_TRUE(std::isfinite(v));
  }
  return status;
}

Status Decode(const Sent& sent, std::span<const std::byte> payload) {
  return Decode(sent, payload, sent.m.bytes());
}

const char* const kSpecs[] = {"raw:dtype=fp32",
                              "raw:dtype=fp16",
                              "raw:dtype=bf16",
                              "direct:bits=3",
                              "direct:bits=8",
                              "aqsgd:bits=2",
                              "aqsgd:bits=5,bucket=4",
                              "tiles:bits=3",
                              "aqsgd:bits=2,first_visit=tiles:bits=4",
                              "topk:ratio=0.3,bits=4,bucket=4",
                              "shifted:bits=3,bucket=4",
                              "shifted+rans:bits=5,bucket=6",
                              "learned:bits=3,bucket=4"};

TEST(ForeignBytes, EveryWrongLengthIsRefused) {
  for (const char* spec : kSpecs) {
    const Sent sent = Send(spec);
    ASSERT_TRUE(Decode(sent, sent.payload).ok());
    for (std::size_t n = 0; n < sent.payload.size(); ++n) {
      EXPECT_FALSE(Decode(sent, std::span(sent.payload).first(n)).ok());
    }
    auto longer = sent.payload;
    longer.push_back(std::byte{0});
    EXPECT_THAT(Decode(sent, longer).message(), HasSubstr("bytes"));
  }
}

// Whether a byte is an exponent of fp16 values.
bool IsExponent(int byte) {
  const int exponent = byte < 128 ? byte : byte - 256;
  return exponent >= -100 && exponent <= 104;
}

// Where the first section of a payload begins.
std::size_t SectionOf(const Sent& sent) { return sent.codec.keeps_m() ? 16 : 0; }

TEST(ForeignBytes, EveryOtherHeaderByteIsRefused) {
  for (const char* spec : kSpecs) {
    const Sent sent = Send(spec);
    for (std::size_t at = 0; at < 16 + SectionOf(sent); ++at) {
      for (int change = 1; change < 256; ++change) {
        auto payload = sent.payload;
        payload[at] ^= static_cast<std::byte>(change);
        const Status status = Decode(sent, payload);
        // Only the exponent of raw fp16 is free, within -100 .. 104.
        const bool free = at == 7 && std::string(spec) == "raw:dtype=fp16" && IsExponent(change);
        EXPECT_EQ(status.ok(), free) << spec << " byte " << at << " change " << change;
      }
    }
  }
}

TEST(ForeignBytes, MessagesSayWhichFieldDiffers) {
  const std::pair<std::size_t, const char*> section[] = {
      {0, "codec id"}, {1, "layout version"}, {2, "has bits"},   {3, "flags"},
      {4, "bucket"},   {7, "exponent"},       {8, "value count"}};
  const std::pair<std::size_t, const char*> message[] = {
      {0, "codec id"}, {1, "layout version"}, {2, "bits of m"},
      {3, "bits"},     {4, "changes"},        {8, "behind|bytes|does not fit"}};
  const Sent direct = Send("direct:bits=3");
  for (const auto& [at, name] : section) {
    auto payload = direct.payload;
    payload[at] ^= std::byte{1};
    EXPECT_THAT(Decode(direct, payload).message(), HasSubstr(name));
  }
  const Sent aqsgd = Send("aqsgd:bits=3");
  for (const auto& [at, name] : message) {
    auto payload = aqsgd.payload;
    payload[at] ^= std::byte{1};
    EXPECT_THAT(Decode(aqsgd, payload).message(), ::testing::ContainsRegex(name));
  }
}

TEST(ForeignBytes, ScalesOutsideTheRangeAreRefused) {
  for (const char* spec : {"direct:bits=3", "aqsgd:bits=3"}) {
    const Sent sent = Send(spec);
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
      auto payload = sent.payload;
      const auto scale = static_cast<std::uint16_t>(bits);
      std::memcpy(payload.data() + SectionOf(sent) + 18, &scale, 2);
      const float value = std::bit_cast<float>(bits << 16);
      const bool allowed = bits == 0 || (value >= 0x1p-100F && value <= 0x1p121F);
      // A scale that is allowed may still lead aqsgd beyond the exponents: another error.
      const std::string message = Decode(sent, payload).message();
      ASSERT_EQ(message.find("scale 1 ") == std::string::npos, allowed) << bits << message;
    }
  }
}

TEST(ForeignBytes, NonFiniteRawValuesAreRefused) {
  const std::pair<const char*, std::uint32_t> cases[] = {
      {"raw:dtype=fp32", 0xff800000}, {"raw:dtype=fp16", 0xfc00}, {"raw:dtype=bf16", 0x7fc1}};
  for (const auto& [spec, bits] : cases) {
    const Sent sent = Send(spec);
    auto payload = sent.payload;
    const std::size_t size = (payload.size() - 16) / kShape.values();
    std::memcpy(payload.data() + payload.size() - size, &bits, size);
    EXPECT_THAT(Decode(sent, payload).message(), HasSubstr("not finite"));
  }
}

TEST(ForeignBytes, PaddingBitsMustBeZero) {
  for (const char* spec : {"direct:bits=3", "aqsgd:bits=7"}) {
    const Sent sent = Send(spec);
    auto payload = sent.payload;
    payload.back() |= std::byte{0x80};
    EXPECT_THAT(Decode(sent, payload).message(), HasSubstr("padding"));
  }
}

TEST(ForeignBytes, FirstVisitAndDeltaAreNotMixedUp) {
  const Sent delta = Send("aqsgd:bits=3,first_visit=direct:bits=3");
  const Sent first = Send("aqsgd:bits=3,first_visit=direct:bits=3", false);
  // Equal in length, so only the message's header tells them apart.
  ASSERT_EQ(delta.payload.size(), first.payload.size());
  EXPECT_THAT(Decode(delta, first.payload).message(), HasSubstr("changes"));
  std::vector<float> values(kShape.values());
  Buffer next;
  EXPECT_FALSE(first.codec.Decode(delta.payload, kShape, {}, {}, values, &next).ok());
}

TEST(ForeignBytes, AWrongImageIsRefused) {
  const Sent sent = Send("aqsgd:bits=3");
  for (std::size_t at = 0; at < 16; ++at) {
    for (int change = 1; change < 256; ++change) {
      Buffer m = Buffer::CopyOf(sent.m.bytes());
      m.data()[at] ^= static_cast<std::byte>(change);
      const bool free = at == 1 && IsExponent(change);
      EXPECT_EQ(sent.codec.codec().CheckMImage(m.bytes(), kShape).ok(), free) << at;
      EXPECT_EQ(Decode(sent, sent.payload, m.bytes()).ok(), free) << at << " " << change;
    }
  }
  for (std::size_t n = 1; n < sent.m.size(); ++n) {
    EXPECT_FALSE(Decode(sent, sent.payload, sent.m.bytes().first(n)).ok());
  }
  Buffer m = Buffer::CopyOf(sent.m.bytes());
  m.data()[m.size() - 1] = std::byte{0x7c};
  EXPECT_THAT(Decode(sent, sent.payload, m.bytes()).message(), HasSubstr("not finite"));
}

TEST(ForeignBytes, ResultsBeyondTheExponentLimitAreAnError) {
  const Sent sent = Send("aqsgd:bits=3");
  Buffer m = Buffer::CopyOf(sent.m.bytes());
  m.data()[1] = std::byte{104};
  m.data()[m.size() - 1] = std::byte{0x7b};
  auto payload = sent.payload;
  for (std::size_t at = 32; at < 32 + 6; at += 2) {
    payload[at] = std::byte{0x00};
    payload[at + 1] = std::byte{0x7c};  // 2^121
  }
  const Status status = Decode(sent, payload, m.bytes());
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("exponent"));
}

TEST(ForeignBytes, RandomBytesNeverCrash) {
  std::mt19937_64 random(21);
  for (const char* spec : kSpecs) {
    const Sent sent = Send(spec);
    int accepted = 0;
    for (int round = 0; round < 3000; ++round) {
      auto payload = sent.payload;
      // All random, or a valid message with some bytes changed, or cut.
      const bool all = random() % 4 == 0;
      const std::size_t changes = all ? payload.size() : random() % 4;
      for (std::size_t i = 0; i < changes; ++i) {
        payload[all ? i : random() % payload.size()] = static_cast<std::byte>(random());
      }
      if (random() % 8 == 0) payload.resize(random() % (payload.size() + 1));
      accepted += Decode(sent, payload).ok();
    }
    EXPECT_GT(accepted, 100) << spec;
    EXPECT_LT(accepted, 2900) << spec;
  }
}

TEST(ForeignBytes, ShapesThatDoNotFitAreRefused) {
  const OneSample codec("direct:bits=3,bucket=12", 12);
  std::vector<float> values(30);
  std::vector<std::byte> out(4096);
  Buffer next;
  const auto encode = [&](SampleShape shape) {
    return codec.Encode(values, shape, {}, {}, out, &next).status().message();
  };
  EXPECT_THAT(encode({0, 12}), HasSubstr("side outside"));
  EXPECT_THAT(encode({1, (1U << 20) + 12}), HasSubstr("side outside"));
  EXPECT_THAT(encode({1, 12}), HasSubstr("30 values given"));
  EXPECT_THAT(encode({3, 10}), HasSubstr("bucket 12 does not divide the hidden size 10"));
}

}  // namespace
}  // namespace shoal::compression
