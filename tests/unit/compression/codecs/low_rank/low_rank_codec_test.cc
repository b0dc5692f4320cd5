#include "compression/codecs/low_rank/low_rank_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compression/codecs/low_rank/low_rank.h"
#include "compression/device/device_codec.h"
#include "tests/unit/compression/device/host_queue.h"
#include "tests/unit/compression/on_link.h"
#include "tests/unit/compression/reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using testing::HasSubstr;

constexpr SampleShape kShape{32, 48};
constexpr char kEveryMessage[] = "lowrank:rank=4,epilogue=false,lazy=on,factors=fp32";

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    hex += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    hex += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return hex;
}

// A matrix of rank `rank` with values around `size`.
std::vector<float> OfRank(std::size_t rank, std::uint64_t seed, float size = 1) {
  const auto u = reference::Gaussian(kShape.tokens * rank, seed);
  const auto v = reference::Gaussian(kShape.hidden * rank, seed + 1000, size);
  std::vector<float> m(kShape.values());
  for (std::size_t i = 0; i < m.size(); ++i) {
    for (std::size_t k = 0; k < rank; ++k) {
      m[i] += u[i / kShape.hidden * rank + k] * v[i % kShape.hidden * rank + k];
    }
  }
  return m;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, whole = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    whole += double{b[i]} * b[i];
  }
  return whole == 0 ? std::sqrt(apart) : std::sqrt(apart / whole);
}

TEST(LowRankCodec, MatricesOfThatRankOrLessArriveAsTheyAre) {
  for (const float size : {1.0F, 0x1p-80F, 0x1p80F}) {
    for (std::size_t rank = 1; rank <= 4; ++rank) {
      OnLink wide(kEveryMessage, kShape);
      const auto m = OfRank(rank, rank, size);
      EXPECT_LT(Distance(wide.Send(m), m), 2e-6) << size << " " << rank;
      OnLink halves("lowrank:rank=4,lazy=off", kShape);
      EXPECT_LT(Distance(halves.Send(m), m), 1e-3) << size << " " << rank;
    }
  }
}

TEST(LowRankCodec, ZerosArriveAsZerosAndTheNextMessageIsWhatItWouldBe) {
  OnLink link(kEveryMessage, kShape);
  const std::vector<float> zeros(kShape.values());
  EXPECT_EQ(link.Send(zeros), zeros);
  EXPECT_EQ(link.Send(std::vector<float>(kShape.values(), 0x1p-120F)), zeros);
  const auto m = OfRank(3, 1);
  EXPECT_LT(Distance(link.Send(m), m), 2e-6);
  EXPECT_EQ(Distance(link.Send(zeros), zeros) < 1e-4, true);
  EXPECT_LT(Distance(link.Send(m), m), 2e-6);
  // A direction that zeros took out of Q comes back.
  const auto other = OfRank(4, 9);
  EXPECT_LT(Distance(link.Send(other), other), 1e-5);
}

TEST(LowRankCodec, SamplesAreRowsOfOneMatrix) {
  OnLink link("lowrank:rank=4,epilogue=false,lazy=off,factors=fp32", {16, 48});
  const auto whole = OfRank(4, 3);
  const auto half = static_cast<std::ptrdiff_t>(whole.size() / 2);
  const std::vector<std::vector<float>> samples{{whole.begin(), whole.begin() + half},
                                                {whole.begin() + half, whole.end()}};
  const auto sent = link.Encode(samples);
  ASSERT_TRUE(sent.status.ok());
  EXPECT_EQ(sent.payload.size(), 16u + 4 * 4 * (32 + 48));
  const auto got = link.Decode(sent.payload, 2).value();
  EXPECT_LT(Distance(got[0], samples[0]), 5e-6);
  EXPECT_LT(Distance(got[1], samples[1]), 5e-6);
  // A sample that is not wanted is passed over.
  std::vector<float> second(16 * 48);
  const SampleToDecode wanted[] = {{{}, false, {}}, {second, false, {}}};
  ASSERT_TRUE(link.codec().Decode(sent.payload, wanted, {16, 48}, {}, {}).ok());
  EXPECT_EQ(second, got[1]);
}

TEST(LowRankCodec, TheEpilogueIsLowRankAndTheRestIsNot) {
  OnLink link("lowrank:rank=4,lazy=off,else=direct:bits=6", kShape);
  const auto m = reference::Gaussian(kShape.values(), 5);
  const auto direct = MakeCodec("direct:bits=6", kShape.hidden).value();
  for (std::uint32_t i = 0; i < 8; ++i) {
    link.position() = {4, 2, 8, i};
    const auto sent = link.Encode({m});
    EXPECT_EQ(sent.payload[2], std::byte{i >= 6}) << i;
    EXPECT_EQ(link.codec().stateful()->LowRankAt(link.position(), kShape, 1), i >= 6);
    EXPECT_EQ(link.codec().stateful()->SaysLowRank(sent.payload), i >= 6);
    EXPECT_EQ(sent.payload.size(),
              i >= 6 ? 16 + 2 * 4 * (32 + 48) : 16 + direct->EncodedBytesMax(kShape, 1));
    EXPECT_TRUE(link.Decode(sent.payload, 1).ok());
  }
  // A matrix that factors do not halve.
  OnLink thin("lowrank:rank=16,epilogue=false,else=raw:dtype=fp32", {20, 48});
  const std::vector<float> values = reference::Gaussian(20 * 48, 5);
  EXPECT_EQ(thin.Encode({values}).payload[2], std::byte{0});
  EXPECT_FALSE(thin.codec().stateful()->LowRankAt(thin.position(), {20, 48}, 1));
  EXPECT_TRUE(thin.codec().stateful()->LowRankAt(thin.position(), {20, 48}, 8));
  EXPECT_FALSE(thin.codec().stateful()->SaysLowRank(std::vector<std::byte>(3, std::byte{1})));
  EXPECT_EQ(thin.Send(values), values);
}

TEST(LowRankCodec, WithoutMemoryItSendsWhatElseSends) {
  const auto codec = MakeCodec("lowrank:else=direct:bits=4", kShape.hidden).value();
  const auto direct = MakeCodec("direct:bits=4", kShape.hidden).value();
  const auto m = reference::Gaussian(kShape.values(), 5);
  const SampleToEncode sample{m, {}};
  const auto encode = [&](const MessageCodec& by, CodingStats* stats) {
    std::vector<std::byte> out(by.EncodedBytesMax(kShape, 1));
    out.resize(by.Encode({&sample, 1}, kShape, {}, DeltaMode::kDelta, out, {}, stats).value());
    return out;
  };
  CodingStats stats, want;
  const auto payload = encode(*codec, &stats);
  const auto section = encode(*direct, &want);
  EXPECT_EQ(std::vector(payload.begin() + 16, payload.end()), section);
  EXPECT_EQ(stats.relative_error(), want.relative_error());
  EXPECT_NE(codec->stateful(), nullptr);
  EXPECT_EQ(direct->stateful(), nullptr);
  EXPECT_FALSE(codec->divisible());
}

TEST(LowRankCodec, StatsAreThoseOfTheMessage) {
  const auto m = reference::Gaussian(kShape.values(), 5);
  OnLink link(kEveryMessage, kShape);
  const auto sent = link.Encode({m});
  EXPECT_NEAR(sent.stats.relative_error(), Distance(link.Decode(sent.payload, 1).value()[0], m),
              1e-3);
}

TEST(LowRankCodec, SameBitsAtEveryLevel) {
  const auto m = reference::Gaussian(kShape.values(), 5);
  for (const char* spec : {kEveryMessage, "lowrank:rank=5,lazy=on", "lowrank:rank=1,lazy=on"}) {
    std::vector<std::vector<std::byte>> payloads;
    std::vector<std::vector<float>> values;
    AtEveryLevel([&] {
      OnLink link(spec, kShape);
      link.Send(m);
      auto sent = link.Encode({m});
      values.push_back(link.Decode(sent.payload, 1).value()[0]);
      payloads.push_back(std::move(sent.payload));
      EXPECT_EQ(payloads.back(), payloads.front());
      EXPECT_EQ(values.back(), values.front());
    });
  }
}

TEST(LowRankCodec, AnAbortedMessageEncodesToTheSameBytesAgain) {
  OnLink link("lowrank:rank=4,lazy=on", kShape);
  link.Send(reference::Gaussian(kShape.values(), 1));
  const LowRankState before = link.state();
  EXPECT_FALSE(before.error.empty());
  const auto m = reference::Gaussian(kShape.values(), 2);
  const auto first = link.Encode({m});
  EXPECT_EQ(link.state(), before);
  EXPECT_NE(first.next, before);
  // Something else was sent in between, and dropped.
  link.Encode({reference::Gaussian(kShape.values(), 3)});
  const auto again = link.Encode({m});
  EXPECT_EQ(again.payload, first.payload);
  EXPECT_EQ(again.next, first.next);
}

TEST(LowRankCodec, AMemoryOfAnotherShapeIsNotUsed) {
  OnLink link("lowrank:rank=4,lazy=on", kShape);
  link.Send(reference::Gaussian(kShape.values(), 1));
  OnLink other("lowrank:rank=4,lazy=on", {40, 40});
  const auto m = reference::Gaussian(1600, 2);
  const auto fresh = other.Encode({m});
  other.Adopt(link.state());
  EXPECT_EQ(other.Encode({m}).payload, fresh.payload);
}

TEST(LowRankCodec, ValuesThatCannotBeSentAreRefused) {
  OnLink link(kEveryMessage, kShape);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 0x1p97F}) {
    auto m = reference::Gaussian(kShape.values(), 1);
    m[77] = bad;
    EXPECT_EQ(link.Encode({m}).status.code(), StatusCode::kInvalidArgument);
  }
  // The largest that are allowed.
  const auto got = link.Send(std::vector<float>(kShape.values(), 0x1p96F));
  EXPECT_LT(std::abs(got[5] / 0x1p96F - 1), 1e-6);
}

// Of a rank-one matrix with equal rows everything is exact: P is +-1/2 in four rows.
TEST(LowRankCodec, GoldenBytes) {
  const SampleShape shape{4, 16};
  std::vector<float> m(64);
  for (std::size_t i = 0; i < 64; ++i) {
    static constexpr float kRow[16] = {1, 2, 4, 0, -1, 3, 0, 0.5F, 1, 1, 1, 1, -2, -2, -4, 0};
    m[i] = kRow[i % 16];
  }
  OnLink halves("lowrank:rank=1,lazy=off", shape);
  EXPECT_EQ(Hex(halves.Encode({m}).payload),
            "080201020100e6004000000000000000"
            "0074007400740074"
            "006c00700074000000ec007200000068006c006c006c006c00f000f000f40000");
  OnLink wide("lowrank:rank=1,lazy=off,factors=fp32", shape);
  EXPECT_EQ(Hex(wide.Encode({m}).payload),
            "080201010100e6004000000000000000"
            "00008046000080460000804600008046"
            "00008045000000460000804600000000000080c5000040460000000000000045"
            "00008045000080450000804500008045000000c6000000c6000080c600000000");
  EXPECT_EQ(halves.Send(m), m);
  EXPECT_EQ(wide.Send(m), m);
  OnLink other("lowrank:rank=1,lazy=off,else=raw:dtype=fp16", shape);
  other.position() = {2, 1, 2, 0};
  EXPECT_EQ(Hex(other.Encode({m}).payload).substr(0, 64),
            "08020000000000004000000000000000"
            "01021002000000004000000000000000");
}

std::string Error(const OnLink& link, const std::vector<std::byte>& payload) {
  const auto got = link.Decode(payload, 1);
  return got.ok() ? "" : std::string(got.status().message());
}

TEST(LowRankCodec, ForeignMessagesAreChecked) {
  for (const bool wide : {false, true}) {
    OnLink link(wide ? kEveryMessage : "lowrank:rank=4,lazy=on", kShape);
    const auto good = link.Encode({reference::Gaussian(kShape.values(), 1)}).payload;
    EXPECT_EQ(Error(link, good), "");
    for (const std::size_t at : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 15u}) {
      auto bad = good;
      bad[at] ^= std::byte{4};
      EXPECT_THAT(Error(link, bad), HasSubstr("not that of a message of 32 x 48")) << at;
    }
    auto bad = good;
    bad[6] = std::byte{105};
    EXPECT_THAT(Error(link, bad), HasSubstr("not that of"));
    bad[6] = std::byte{0x81};  // -127
    EXPECT_THAT(Error(link, bad), HasSubstr("not that of"));
    bad[6] = std::byte{104};  // 2^14 * 2^14 * 2^104 is too much
    EXPECT_THAT(Error(link, bad), HasSubstr("may not be finite"));
    bad = good;
    bad.pop_back();
    EXPECT_THAT(Error(link, bad), HasSubstr("bytes, expected"));
    bad.resize(good.size() + 1);
    EXPECT_THAT(Error(link, bad), HasSubstr("bytes, expected"));
    EXPECT_THAT(Error(link, {}), HasSubstr("too short"));
    // The last value of a factor is infinite, too large or too small.
    for (const float value : {std::numeric_limits<float>::infinity(), 0x1.1p16F, 0x1p-41F}) {
      bad = good;
      if (wide) {
        std::memcpy(bad.data() + bad.size() - 4, &value, 4);
      } else {
        bad[bad.size() - 1] = std::byte{0x7c};
        bad[bad.size() - 2] = std::byte{0};
      }
      EXPECT_THAT(Error(link, bad), HasSubstr("out of range"));
    }
  }
}

TEST(LowRankCodec, SpecsSayWhatIsAllowed) {
  const auto spec = [](const char* text) {
    const auto codec = MakeCodec(text, 64);
    return codec.ok() ? (*codec)->spec() : std::string(codec.status().message());
  };
  EXPECT_EQ(spec("lowrank"),
            "lowrank:rank=16,epilogue=true,lazy=auto,factors=fp16,else=dithered:step=0.5");
  EXPECT_EQ(
      spec("lowrank:lazy=off,rank=4,epilogue=false,factors=fp32,else=direct:bits=6/bucket=32"),
      "lowrank:rank=4,epilogue=false,lazy=off,factors=fp32,else=direct:bits=6/bucket=32");
  EXPECT_EQ(spec(spec("lowrank:lazy=on").c_str()), spec("lowrank:lazy=on"));
  EXPECT_THAT(spec("lowrank:rank=0"), HasSubstr("allowed are rank=1 to rank=256"));
  EXPECT_THAT(spec("lowrank:rank=257"), HasSubstr("allowed are rank=1 to rank=256"));
  EXPECT_THAT(spec("lowrank:epilogue=on"), HasSubstr("allowed are true, false"));
  EXPECT_THAT(spec("lowrank:lazy=true"), HasSubstr("allowed are auto, on, off"));
  EXPECT_THAT(spec("lowrank:factors=bf16"), HasSubstr("allowed are fp16, fp32"));
  EXPECT_THAT(spec("lowrank:ranks=4"), HasSubstr("lowrank knows rank, epilogue, lazy"));
  EXPECT_THAT(spec("lowrank+rans:rank=4"), HasSubstr("takes no entropy coder"));
  EXPECT_THAT(spec("lowrank:feedback=on"), HasSubstr("fed back by lazy=on"));
  EXPECT_THAT(spec("lowrank:else=topk:ratio=0.1/bits=4/feedback=on"),
              HasSubstr("else= names a codec without memory"));
  EXPECT_THAT(spec("lowrank:else=lowrank:rank=4"), HasSubstr("lowrank is for changes"));
  EXPECT_THAT(spec("lowrank:else=aqsgd:bits=4"), HasSubstr("allowed are else=raw"));
  // Changes have a codec of their own by this name (low_rank_changes.h).
  EXPECT_THAT(spec("aqsgd:delta=lowrank:lazy=on"), HasSubstr("lowrank knows rank, energy"));
  EXPECT_THAT(spec("aqsgd:delta=low:rank=4"), HasSubstr("topk, dithered and lowrank"));
  EXPECT_THAT(spec("low"), HasSubstr("lowrank:[rank=N]"));
}

TEST(LowRankCodec, IsForGradientsAndForTheCpu) {
  const auto lowrank = MakeCodec("lowrank", 64).value();
  const auto direct = MakeCodec("direct:bits=8", 64).value();
  EXPECT_TRUE(CheckDirections(*direct, *lowrank).ok());
  EXPECT_THAT(CheckDirections(*lowrank, *direct).message(), HasSubstr("is for gradients"));
  EXPECT_EQ(NewDeviceCodec("lowrank", 64, std::make_unique<HostQueue>()).status().code(),
            StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace shoal::compression
