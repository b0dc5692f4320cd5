// `topk` against a reference that sorts, and its positions from honest and foreign hands.

#include "compression/codecs/topk_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "compression/entropy/bit_stream.h"
#include "compression/entropy/positions.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint32_t> Largest(std::span<const float> x, std::size_t kept) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::fabs(x[a]) > std::fabs(x[b]);
  });
  order.resize(kept);
  std::sort(order.begin(), order.end());
  return order;
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    hex += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    hex += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return hex;
}

using Samples = std::vector<std::vector<float>>;

std::vector<std::byte> Encode(const MessageCodec& codec, SampleShape shape,
                              const Samples& samples) {
  std::vector<SampleToEncode> given;
  for (const auto& sample : samples) given.push_back({sample, {}});
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, samples.size()));
  const auto bytes = codec.Encode(given, shape, {}, DeltaMode::kDelta, out, {}, nullptr);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  out.resize(bytes.value());
  return out;
}

Status Decode(const MessageCodec& codec, SampleShape shape, std::span<const std::byte> payload,
              Samples* samples) {
  std::vector<SampleToDecode> wanted;
  for (auto& sample : *samples) wanted.push_back({sample, false, {}});
  // An exact copy, so that the sanitizer sees a read beyond the end.
  const Buffer copy = Buffer::CopyOf(payload);
  return codec.Decode(copy.bytes(), wanted, shape, {}, {});
}

Samples Decoded(const MessageCodec& codec, SampleShape shape, std::span<const std::byte> payload,
                std::size_t count) {
  Samples samples(count, std::vector<float>(shape.values(), std::nanf("")));
  const Status status = Decode(codec, shape, payload, &samples);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return samples;
}

// Made by a separate program from docs/WIRE.md: two samples with a bitmap each, then gaps.
TEST(TopK, GoldenBytes) {
  const std::vector<float> a = {0.1F, -2.0F, 0.0F, 0.5F, 0.5F, -0.5F,   1.0F, 0.25F,
                                0.0F, 0.0F,  3.0F, 0.0F, 0.0F, -0.125F, 0.0F, 0.0F};
  const auto codec = MakeCodec("topk:ratio=0.3,bits=4,bucket=3", 8).value();
  const auto payload = Encode(*codec, {2, 8}, {a, {a.rbegin(), a.rend()}});
  EXPECT_EQ(Hex(payload),
            "060204030300000020000000000000000500000000000000"
            "005a0400204e"
            "0040404040400040"
            "00a0aaff6a0a000000");
  const Samples got = Decoded(*codec, {2, 8}, payload, 2);
  EXPECT_EQ(got[0], (std::vector<float>{0, -1.875F, 0, 0.625F, 0.625F, 0, 0.9375F, 0, 0, 0, 2.8125F,
                                        0, 0, 0, 0, 0}));
  EXPECT_EQ(got[1], (std::vector<float>{0, 0, 0, 0, 0, 2.8125F, 0, 0, 0, 0.9375F, -0.5625F, 0.625F,
                                        0, 0, -1.875F, 0}));
  std::vector<float> b(32);
  b[24] = 1;
  const auto sparse = MakeCodec("topk:ratio=0.05,bits=3", 32).value();
  EXPECT_EQ(Hex(Encode(*sparse, {1, 32}, {b})),
            "06020303800000002000000000000000020000000000000004b003803f003c0000");
}

TEST(TopK, SelectionIsTheFrontOfAStableSort) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t n = 1 + random() % 200;
    auto x = reference::Gaussian(n, random(), round % 7 == 0 ? 1e-38F : 1.0F);
    // Many equal magnitudes of both signs, zeros among them.
    if (round % 3 != 0) {
      for (float& v : x) v = std::nearbyint(v * 2) / 2;
    }
    std::vector<std::uint32_t> positions(1 + random() % n);
    SelectLargest(x, positions);
    ASSERT_EQ(positions, Largest(x, positions.size())) << round;
  }
}

TEST(TopK, KeepsTheRoundedShareAndAtLeastOne) {
  EXPECT_EQ(KeptOf(0.2, 1000), 200U);
  EXPECT_EQ(KeptOf(0.2, 12), 2U);
  EXPECT_EQ(KeptOf(0.2, 13), 3U);
  EXPECT_EQ(KeptOf(1e-4, 10), 1U);
  EXPECT_EQ(KeptOf(1.0, 10), 10U);
}

// The gaps, bit by bit.
std::vector<std::byte> Gaps(std::span<const std::uint32_t> positions, int parameter) {
  BitWriter writer;
  std::uint32_t next = 0;
  for (const std::uint32_t position : positions) {
    const std::uint32_t gap = position - next;
    writer.PutUnary(gap >> parameter);
    writer.Put(gap & ((1U << parameter) - 1), parameter);
    next = position + 1;
  }
  std::vector<std::byte> bytes = {static_cast<std::byte>(1 + parameter)};
  bytes.insert(bytes.end(), writer.bytes().begin(), writer.bytes().end());
  return bytes;
}

TEST(TopK, PositionsTakeTheSmallestForm) {
  std::mt19937_64 random(5);
  int bitmaps = 0;
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 1 + random() % (round % 10 == 0 ? 20000 : 300);
    std::vector<std::uint32_t> positions;
    const std::uint64_t one_in = 1 + random() % (round % 2 == 0 ? 3 : 400);
    for (std::uint32_t i = 0; i < n; ++i) {
      if (random() % one_in == 0) positions.push_back(i);
    }
    std::vector<std::byte> out(PositionBytesMax(n));
    out.resize(WritePositions(positions, n, out.data()));
    std::vector<std::uint32_t> back(positions.size());
    const auto used = ReadPositions(out, n, back, "test");
    ASSERT_TRUE(used.ok()) << used.status().ToString();
    ASSERT_EQ(*used, out.size());
    ASSERT_EQ(back, positions);
    std::size_t least = 1 + (n + 7) / 8;
    for (int r = 0; r <= 24; ++r) {
      const auto gaps = Gaps(positions, r);
      least = std::min(least, gaps.size());
      // Whatever the parameter, it is understood.
      ASSERT_EQ(ReadPositions(gaps, n, back, "test").value(), gaps.size());
      ASSERT_EQ(back, positions);
      if (out[0] == gaps[0]) {
        ASSERT_EQ(out, gaps);
      }
    }
    ASSERT_EQ(out.size(), least);
    bitmaps += out[0] == std::byte{0};
  }
  EXPECT_GT(bitmaps, 50);
  EXPECT_LT(bitmaps, 250);
}

TEST(TopK, ForeignPositionsAreChecked) {
  const auto error = [](std::vector<int> bytes, std::size_t n, std::size_t count) {
    std::vector<std::byte> in;
    for (const int b : bytes) in.push_back(static_cast<std::byte>(b));
    std::vector<std::uint32_t> positions(count);
    return std::string(ReadPositions(in, n, positions, "test").status().message());
  };
  EXPECT_THAT(error({}, 8, 1), HasSubstr("no bytes"));
  EXPECT_THAT(error({26, 0}, 8, 1), HasSubstr("form 26 is unknown"));
  EXPECT_THAT(error({0, 3}, 16, 2), HasSubstr("1 bytes left for a bitmap of 2"));
  EXPECT_THAT(error({0, 3}, 8, 1), HasSubstr("2 bits in a bitmap, expected 1"));
  EXPECT_THAT(error({0, 1}, 8, 2), HasSubstr("1 bits in a bitmap, expected 2"));
  EXPECT_THAT(error({0, 0x80}, 7, 1), HasSubstr("padding bits of a bitmap"));
  EXPECT_THAT(error({1}, 8, 1), HasSubstr("end too early"));
  EXPECT_THAT(error({1, 0xff}, 8, 1), HasSubstr("end too early"));
  EXPECT_THAT(error({25, 0, 0, 0}, 8, 1), HasSubstr("end too early"));
  EXPECT_THAT(error({1, 0x7f}, 7, 1), HasSubstr("beyond the sample"));
  EXPECT_THAT(error({1, 0}, 2, 2), "");
  EXPECT_THAT(error({25, 0xfe, 0xff, 0xff, 0xff}, 1U << 20, 1), HasSubstr("beyond the sample"));
  EXPECT_THAT(error({1, 0x80}, 8, 1), HasSubstr("padding bits behind the gaps"));
  std::vector<int> ones(200, 0xff);
  ones[0] = 1;
  EXPECT_THAT(error(ones, 1000, 1), HasSubstr("end too early"));
}

TEST(TopK, KeptValuesAreWithinHalfAStepAndTheRestIsZero) {
  std::mt19937_64 random(6);
  for (int bits = 1; bits <= 8; ++bits) {
    for (const char* ratio : {"0.01", "0.2", "0.5", "1"}) {
      for (const char* coder : {"", "+rans", "+zstd"}) {
        const SampleShape shape{7, 45};
        const std::size_t n = shape.values();
        const OneSample codec("topk" + std::string(coder) + ":ratio=" + ratio +
                                  ",bits=" + std::to_string(bits) + ",bucket=32",
                              45);
        const auto x = reference::Gaussian(n, random());
        const auto payload = Encode(codec.codec(), shape, {x});
        const auto got = Decoded(codec.codec(), shape, payload, 1)[0];
        const auto kept = Largest(x, KeptOf(std::stod(ratio), n));
        std::size_t next = 0;
        for (std::size_t i = 0; i < n; ++i) {
          if (next == kept.size() || kept[next] != i) {
            ASSERT_EQ(got[i], 0.0F);
            continue;
          }
          // The scale of the bucket is at most 2^-7 above its largest magnitude.
          double most = 0;
          for (std::size_t j = next / 32 * 32; j < std::min(next / 32 * 32 + 32, kept.size());
               ++j) {
            most = std::max(most, std::fabs(double{x[kept[j]]}));
          }
          ASSERT_LE(std::fabs(double{got[i]} - x[i]), most * 1.01 * std::ldexp(1, -bits));
          ++next;
        }
      }
    }
  }
}

// The paper's split-learning setting.
TEST(TopK, EightBitsOfTheTopFifthTakeLessThanABitmapWould) {
  const SampleShape shape{64, 512};
  const auto x = reference::Gaussian(shape.values(), 8);
  const OneSample codec("topk:ratio=0.2,bits=8", 512);
  EXPECT_EQ(codec.spec(), "topk:ratio=0.2,bits=8,bucket=128");
  const auto payload = Encode(codec.codec(), shape, {x});
  const double bits = 8.0 * static_cast<double>(payload.size()) / static_cast<double>(x.size());
  // 0.2 x (8 + 16 / 128), and H(0.2) = 0.722 for the positions at best.
  EXPECT_LT(bits, 1.625 + 0.75);
  EXPECT_GT(bits, 1.625 + 0.72);
}

TEST(TopK, ForeignMessagesAreChecked) {
  const SampleShape shape{3, 40};
  const auto codec = MakeCodec("topk:ratio=0.1,bits=5,bucket=8", 40).value();
  const auto payload =
      Encode(*codec, shape, {reference::Gaussian(120, 1), reference::Gaussian(120, 2)});
  const auto error = [&](std::vector<std::byte> bytes) {
    Samples samples(2, std::vector<float>(120));
    return std::string(Decode(*codec, shape, bytes, &samples).message());
  };
  EXPECT_EQ(error(payload), "");
  for (std::size_t n = 0; n < payload.size(); ++n) {
    EXPECT_NE(error({payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(n)}), "");
  }
  auto longer = payload;
  longer.push_back(std::byte{0});
  EXPECT_NE(error(longer), "");
  auto counted = payload;
  counted[16] ^= std::byte{1};
  EXPECT_THAT(error(counted), HasSubstr("keeps 13 values of a sample, expected 12"));
  std::mt19937_64 random(9);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = payload;
    for (std::size_t changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    Samples samples(2, std::vector<float>(120));
    if (!Decode(*codec, shape, bytes, &samples).ok()) continue;
    ++accepted;
    for (const auto& sample : samples) {
      for (const float v : sample) ASSERT_TRUE(std::isfinite(v));
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 19000);
}

TEST(TopK, SamplesThatAreNotWantedArePassedOver) {
  const SampleShape shape{2, 30};
  const auto codec = MakeCodec("topk:ratio=0.3,bits=4", 30).value();
  const auto payload =
      Encode(*codec, shape, {reference::Gaussian(60, 1), reference::Gaussian(60, 2)});
  const Samples all = Decoded(*codec, shape, payload, 2);
  Samples second = {{}, std::vector<float>(60)};
  ASSERT_TRUE(Decode(*codec, shape, payload, &second).ok());
  EXPECT_EQ(second[1], all[1]);
}

// As the delta codec of aqsgd it has error feedback: what a visit leaves out is in the next change,
// so a sample that stays as it is arrives in full after 1 / ratio visits, up to the rounding.
TEST(TopK, AsDeltaCodecItFeedsBackWhatWasNotSent) {
  const SampleShape shape{4, 50};
  const OneSample codec("aqsgd:delta=topk:ratio=0.2/bits=8,first_visit=topk:ratio=0.2/bits=8", 50);
  const auto x = reference::Gaussian(shape.values(), 11);
  Buffer m;
  double error = 0;
  for (int visit = 0; visit < 7; ++visit) {
    std::vector<std::byte> out(codec.EncodedBytesMax(shape));
    Buffer next;
    const auto bytes = codec.Encode(x, shape, m.bytes(), {}, out, &next);
    ASSERT_TRUE(bytes.ok());
    std::vector<float> got(shape.values());
    Buffer theirs;
    ASSERT_TRUE(
        codec.Decode(std::span(out).first(*bytes), shape, m.bytes(), {}, got, &theirs).ok());
    ASSERT_TRUE(std::equal(next.bytes().begin(), next.bytes().end(), theirs.bytes().begin()));
    m = std::move(next);
    double missed = 0;
    double all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      missed += std::pow(got[i] - x[i], 2);
      all += std::pow(x[i], 2);
    }
    const double before = error;
    error = std::sqrt(missed / all);
    if (visit == 0) {
      EXPECT_GT(error, 0.2);
    } else {
      EXPECT_LT(error, before);
    }
  }
  EXPECT_LT(error, 0.01);
}

// Sender-only feedback, as gradients would need it: the residual is what `decoded` leaves of the
// input, and the sums of what was put in and what came out differ by the last residual only.
TEST(TopK, WhatWasDecodedLeavesTheResidual) {
  const SampleShape shape{2, 64};
  const TopKCodec codec(0.1, 8, 128, EntropyCoder::kNone);
  std::vector<double> put_in(shape.values());
  std::vector<double> came_out(shape.values());
  std::vector<float> residual(shape.values());
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, 1));
  for (std::uint64_t step = 0; step < 50; ++step) {
    auto x = reference::Gaussian(shape.values(), step);
    for (std::size_t i = 0; i < x.size(); ++i) {
      put_in[i] += x[i];
      x[i] += residual[i];
    }
    std::vector<float> decoded(x.size());
    const std::span<const float> given = x;
    const std::span<float> made = decoded;
    ASSERT_TRUE(codec.Encode({&given, 1}, shape, {}, out, {&made, 1}).ok());
    for (std::size_t i = 0; i < x.size(); ++i) {
      came_out[i] += decoded[i];
      residual[i] = x[i] - decoded[i];
    }
  }
  for (std::size_t i = 0; i < put_in.size(); ++i) {
    EXPECT_NEAR(put_in[i] - came_out[i], residual[i], 1e-4);
  }
}

TEST(TopK, SpecsSayWhatIsAllowed) {
  const auto error = [](const char* spec) {
    return std::string(MakeCodec(spec, 64).status().message());
  };
  EXPECT_THAT(error("topk:bits=8"), HasSubstr("no ratio given; allowed are 1e-04 to 1"));
  EXPECT_THAT(error("topk:ratio=0,bits=8"), HasSubstr("ratio=0"));
  EXPECT_THAT(error("topk:ratio=1.5,bits=8"), HasSubstr("ratio=1.5"));
  EXPECT_THAT(error("topk:ratio=0.2"), HasSubstr("no bits given"));
  EXPECT_THAT(error("topk:ratio=0.2,bits=9"), HasSubstr("bits=9"));
  EXPECT_EQ(OneSample("topk+rans:bits=8,ratio=0.0001,bucket=64", 64).spec(),
            "topk+rans:ratio=0.0001,bits=8,bucket=64");
}

}  // namespace
}  // namespace shoal::compression
