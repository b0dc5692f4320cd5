// Device codecs of buckets, plain values and changes (device_codec_support.h says how each test
// runs).

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "compression/api/message_noise.h"
#include "compression/device/lane_values.h"
#include "tests/unit/compression/device/device_codec_support.h"

namespace shoal::compression {
namespace {

TEST_P(DeviceCodecTest, BucketsOfAllWidthsAndSizes) {
  struct Case {
    std::uint32_t tokens, hidden, bucket;
  };
  for (const Case& c :
       {Case{3, 64, 32},     Case{2, 256, 64},    Case{5, 384, 96},    Case{3, 256, 128},
        Case{1, 200, 200},   Case{2, 512, 256},   Case{1, 1600, 400},  Case{2, 512, 512},
        Case{1, 1024, 1024}, Case{1, 2048, 2048}, Case{2, 4096, 4096}, Case{3, 8, 8},
        Case{1, 4104, 4104}, Case{5, 7, 1},       Case{3, 129, 43},    Case{3, 300, 100},
        Case{1, 1600, 100},  Case{3, 500, 500},   Case{1, 4, 4},       Case{3, 12, 12},
        Case{1, 516, 516},   Case{2, 20, 4},      Case{1, 5001, 5001}, Case{3, 160, 160},
        Case{2, 1600, 160}}) {
    for (int bits = 1; bits <= 8; ++bits) {
      const SampleShape shape{c.tokens, c.hidden};
      const std::string options =
          ":bits=" + std::to_string(bits) + ",bucket=" + std::to_string(c.bucket);
      const auto x = Samples(3, shape.values(), c.hidden + static_cast<std::uint64_t>(bits));
      std::vector<Bytes> none(3);
      ASSERT_NO_FATAL_FAILURE(Compare({"direct" + options, shape, {}}, x, &none));
      std::vector<Bytes> m(3);
      ASSERT_NO_FATAL_FAILURE(Compare({"aqsgd" + options, shape, {}}, x, &m));
      for (std::uint64_t visit = 0; visit < 2; ++visit) {
        if (visit == 1) m[1].clear();  // a first visit among changes
        const auto next = Samples(3, shape.values(), 77 + visit);
        ASSERT_NO_FATAL_FAILURE(Compare({"aqsgd" + options, shape, {}}, next, &m));
      }
    }
  }
}

TEST_P(DeviceCodecTest, EveryLevelRule) {
  for (const SampleShape shape :
       {SampleShape{3, 256}, SampleShape{3, 86}, SampleShape{1, 8192}, SampleShape{3, 100}}) {
    const std::map<std::uint32_t, int> buckets{{256, 128}, {86, 43}, {8192, 8192}, {100, 100}};
    const int bucket = buckets.at(shape.hidden);
    for (int bits = 2; bits <= 8; ++bits) {
      for (const char* rule :
           {"levels=midtread", "levels=affine", "scale=optimal", "rounding=stochastic",
            "levels=midtread,scale=optimal", "levels=affine,rounding=stochastic",
            "scale=optimal,rounding=stochastic"}) {
        const std::string options =
            ":bits=" + std::to_string(bits) + ",bucket=" + std::to_string(bucket) + "," + rule;
        const RandomKey key{11, 12, 13, 14, 1};
        const auto x = Samples(2, shape.values(), static_cast<std::uint64_t>(bits));
        std::vector<Bytes> none(2);
        ASSERT_NO_FATAL_FAILURE(Compare({"direct" + options, shape, key}, x, &none));
        std::vector<Bytes> m(2);
        ASSERT_NO_FATAL_FAILURE(Compare({"aqsgd" + options, shape, key}, x, &m));
        const auto next = Samples(2, shape.values(), static_cast<std::uint64_t>(bits) + 50);
        ASSERT_NO_FATAL_FAILURE(Compare({"aqsgd" + options, shape, key}, next, &m));
      }
    }
  }
}

TEST_P(DeviceCodecTest, PlainValues) {
  for (const char* spec : {"raw:dtype=fp32", "raw:dtype=fp16", "raw:dtype=bf16"}) {
    for (const SampleShape shape : {SampleShape{1, 1}, SampleShape{3, 129}, SampleShape{4, 256}}) {
      for (const float scale : {1.0F, 0x1p-14F, 1e4F, 1e30F}) {
        std::vector<Bytes> none(3);
        ASSERT_NO_FATAL_FAILURE(
            Compare({spec, shape, {}}, Samples(3, shape.values(), 5, scale), &none));
      }
    }
  }
}

TEST_P(DeviceCodecTest, ModesAndFirstVisits) {
  const SampleShape shape{3, 192};
  for (const char* first : {"raw:dtype=fp16", "raw:dtype=fp32", "raw:dtype=bf16",
                            "direct:bits=8/bucket=64", "direct:bits=4/levels=affine"}) {
    for (const DeltaMode mode : {DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull}) {
      const std::string spec = std::string("aqsgd:bits=3,bucket=64,first_visit=") + first;
      std::vector<Bytes> m(3);
      Message message{spec, shape, {}, mode};
      for (std::uint64_t visit = 0; visit < 3; ++visit) {
        ASSERT_NO_FATAL_FAILURE(Compare(message, Samples(3, shape.values(), visit), &m));
      }
    }
  }
  std::vector<Bytes> m(2);
  const std::string nested = "aqsgd:delta=direct:bits=2/bucket=64";
  ASSERT_NO_FATAL_FAILURE(Compare({nested, shape, {}}, Samples(2, shape.values(), 1), &m));
  ASSERT_NO_FATAL_FAILURE(Compare({nested, shape, {}}, Samples(2, shape.values(), 2), &m));
}

TEST_P(DeviceCodecTest, EntropyCoders) {
  const SampleShape shape{3, 86};
  for (const char* coder : {"+zstd", "+rans"}) {
    for (const int bits : {2, 3, 6}) {
      const std::string options =
          std::string(coder) + ":bits=" + std::to_string(bits) + ",bucket=43";
      std::vector<Bytes> none(3);
      ASSERT_NO_FATAL_FAILURE(
          Compare({"direct" + options, shape, {}}, Samples(3, shape.values(), 1), &none));
      std::vector<Bytes> m(3);
      for (std::uint64_t visit = 0; visit < 2; ++visit) {
        ASSERT_NO_FATAL_FAILURE(
            Compare({"aqsgd" + options, shape, {}}, Samples(3, shape.values(), visit), &m));
      }
    }
  }
}

// m in codes with a scale per column; hidden sizes where groups of codes lie across tokens, and
// behind an odd number of scales.
TEST_P(DeviceCodecTest, ImagesOfCodes) {
  for (const SampleShape shape :
       {SampleShape{3, 256}, SampleShape{70, 43}, SampleShape{1, 100}, SampleShape{33, 66}}) {
    const std::string bucket = std::to_string(shape.hidden == 66 ? 33 : shape.hidden);
    for (const char* bits : {"8", "4", "2"}) {
      for (const std::string& codes :
           {"bits=3,bucket=" + bucket, std::string("delta=raw:dtype=fp16"),
            "bits=2,bucket=" + bucket + ",rounding=stochastic",
            "bits=4,bucket=" + bucket + ",first_visit=direct:bits=8/bucket=" + bucket}) {
        const Message message{"aqsgd:" + codes + ",m=" + bits, shape, {5, 6, 7, 8, 0}};
        std::vector<Bytes> m(3);
        for (std::uint64_t visit = 0; visit < 4; ++visit) {
          if (visit == 2) m[1].clear();
          ASSERT_NO_FATAL_FAILURE(Compare(message, Samples(3, shape.values(), visit), &m));
        }
      }
    }
  }
}

TEST_P(DeviceCodecTest, ImagesOfCodesInAllModes) {
  const SampleShape shape{5, 96};
  for (const char* bits : {"16", "8", "4", "2"}) {
    for (const DeltaMode mode : {DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull}) {
      const std::string spec = std::string("aqsgd:bits=2,bucket=32,m=") + bits;
      std::vector<Bytes> m(3);
      for (std::uint64_t visit = 0; visit < 3; ++visit) {
        ASSERT_NO_FATAL_FAILURE(
            Compare({spec, shape, {}, mode}, Samples(3, shape.values(), visit, 1e4F), &m));
      }
    }
  }
}

// Changes that a section codes without knowing m.
TEST_P(DeviceCodecTest, ChangesOfAnyKind) {
  const SampleShape shape{3, 192};
  for (const char* delta : {"raw:dtype=fp32", "raw:dtype=fp16", "raw:dtype=bf16",
                            "direct:bits=2/bucket=64", "direct+rans:bits=3/bucket=96"}) {
    for (const char* bits : {"16", "8", "4", "2"}) {
      for (const float scale : {1.0F, 1e5F, 1e20F}) {
        const std::string spec = std::string("aqsgd:delta=") + delta + ",m=" + bits;
        std::vector<Bytes> m(3);
        for (std::uint64_t visit = 0; visit < 3; ++visit) {
          if (visit == 2) m[0].clear();
          ASSERT_NO_FATAL_FAILURE(
              Compare({spec, shape, {}}, Samples(3, shape.values(), visit, scale), &m));
        }
      }
    }
  }
}

// More blocks than statistics look at, and samples whose first counted block is not their first.
TEST_P(DeviceCodecTest, StatisticsOfManyBlocks) {
  const SampleShape shape{90, 300};
  for (const char* spec : {"aqsgd:bits=4,bucket=100", "aqsgd:bits=4,bucket=100,m=8",
                           "aqsgd:delta=raw:dtype=bf16", "direct:bits=3,bucket=300"}) {
    std::vector<Bytes> m(10);
    const Message message{spec, shape, {}};
    ASSERT_NO_FATAL_FAILURE(Compare(message, Samples(10, shape.values(), 1), &m));
    if (m[3].empty()) continue;
    m[3].clear();
    ASSERT_NO_FATAL_FAILURE(Compare(message, Samples(10, shape.values(), 2), &m));
    const auto seen = Encode(message, Samples(10, shape.values(), 3), m, true);
    ASSERT_TRUE(seen.ok());
    EXPECT_EQ(seen->stats.changes.tokens(), 10 * shape.tokens);
  }
}

// Values beyond fp16, or too small for it: each sample's image has an exponent of its own, which
// comes and goes.
TEST_P(DeviceCodecTest, ExponentsBeyondHalf) {
  for (const std::uint32_t bucket : {64U, 43U}) {
    const SampleShape shape{3, bucket == 64 ? 192U : 129U};
    std::vector<Bytes> m(4);
    const float scales[][4] = {{1, 1e5F, 1, 1e30F},
                               {1e5F, 1, 1e-6F, 1e33F},
                               {1e-25F, 1, 1e-9F, 1},
                               {1e20F, 1e-6F, 1e5F, 1e-9F}};
    for (const auto& scale : scales) {
      std::vector<Values> x;
      for (std::size_t i = 0; i < 4; ++i) x.push_back(Awkward(shape.values(), i, scale[i]));
      const std::string spec = "aqsgd:bits=4,bucket=" + std::to_string(bucket);
      ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, {}}, x, &m));
    }
    EXPECT_NE(m[0][1], std::byte{0});
  }
}

TEST_P(DeviceCodecTest, RefusesWhatTheHostRefuses) {
  const SampleShape shape{2, 128};
  const auto x = Samples(2, shape.values(), 1);
  const Message message{"aqsgd:bits=4,bucket=64", shape, {}};
  const auto first = HostEncode(message, x, std::vector<Bytes>(2)).value();
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), 0x1p119F}) {
    auto wrong = x;
    wrong[1][131] = bad;
    for (const auto& m : {std::vector<Bytes>(2), first.next_m}) {
      const auto want = HostEncode(message, wrong, m);
      const auto got = Encode(message, wrong, m);
      ASSERT_FALSE(got.ok());
      EXPECT_EQ(got.status().ToString(), want.status().ToString());
    }
  }
  for (const std::size_t byte : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{5},
                                 std::size_t{9}, std::size_t{17 + 2 * 133}}) {
    auto m = first.next_m;
    m[1][byte] = std::byte{0x80};
    if (byte > 16) m[1][byte] = std::byte{0x7c};  // infinity
    EXPECT_FALSE(HostEncode(message, x, m).ok()) << byte;
    EXPECT_EQ(Encode(message, x, m).status().code(), StatusCode::kInvalidArgument) << byte;
  }
}

TEST_P(DeviceCodecTest, RefusesWrongImagesOfCodes) {
  const SampleShape shape{2, 128};
  const auto x = Samples(2, shape.values(), 1);
  for (const char* spec :
       {"aqsgd:bits=4,bucket=64,m=8", "aqsgd:bits=4,bucket=64,m=2", "aqsgd:delta=raw:dtype=fp32"}) {
    const Message message{spec, shape, {}};
    const auto first = HostEncode(message, x, std::vector<Bytes>(2)).value();
    const auto next = HostEncode(message, x, first.next_m).value();
    // Header, and the high byte of the last scale (the last value of 16 bits).
    for (const std::size_t byte : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                                   std::size_t{6}, std::size_t{9}, std::size_t{17 + 2 * 127}}) {
      auto m = first.next_m;
      m[1][byte] = byte == 1 ? std::byte{0x80} : std::byte{0xfc};  // of 16 bits: exponent -128
      ASSERT_FALSE(HostEncode(message, x, m).ok()) << spec << " " << byte;
      EXPECT_EQ(Encode(message, x, m).status().code(), StatusCode::kInvalidArgument) << byte;
      ASSERT_FALSE(HostDecode(message, next.payload, m).ok()) << spec << " " << byte;
      EXPECT_EQ(Decode(message, next.payload, m).status().code(), StatusCode::kInvalidArgument);
      Message full = message;
      full.mode = DeltaMode::kFull;
      EXPECT_EQ(Encode(full, x, m, true).status().code(), StatusCode::kInvalidArgument) << byte;
      EXPECT_TRUE(Encode(full, x, m).ok()) << byte;
    }
    auto wrong = x;
    wrong[0][7] = std::numeric_limits<float>::infinity();
    for (const auto& m : {std::vector<Bytes>(2), first.next_m}) {
      const auto want = HostEncode(message, wrong, m);
      const auto got = Encode(message, wrong, m);
      ASSERT_FALSE(got.ok());
      EXPECT_EQ(got.status().ToString(), want.status().ToString());
    }
  }
}

TEST_P(DeviceCodecTest, RefusesForeignBytes) {
  for (const char* spec : {"raw:dtype=fp16", "raw:dtype=fp32", "direct:bits=3,bucket=43",
                           "direct+rans:bits=2,bucket=43", "aqsgd:bits=3,bucket=43",
                           "aqsgd:bits=3,bucket=43,m=4", "aqsgd:delta=raw:dtype=fp16"}) {
    ASSERT_NO_FATAL_FAILURE(CompareForeign({spec, {3, 86}, {}}, 2, 200));
  }
}

TEST_P(DeviceCodecTest, PassesOverSamplesThatAreNotWanted) {
  const SampleShape shape{2, 64};
  const Message message{"aqsgd:bits=4,bucket=32", shape, {}};
  const auto x = Samples(3, shape.values(), 2);
  std::vector<Bytes> m = HostEncode(message, x, std::vector<Bytes>(3)).value().next_m;
  m[0].clear();
  const Coded coded = HostEncode(message, x, m).value();
  const auto want = HostDecode(message, coded.payload, m).value();
  const auto codec = Make(message.spec, shape.hidden).value();
  Arena arena(GetParam());
  std::vector<DeviceSampleToDecode> samples(3);
  samples[1].delta = samples[2].delta = true;
  samples[2].m = arena.CopyOf(m[2].data(), m[2].size());
  samples[2].values = reinterpret_cast<float*>(arena.New(4 * shape.values()));
  std::vector<std::byte*> next(3, nullptr);
  next[2] = arena.New(m[2].size());
  ASSERT_TRUE(codec->Decode(coded.payload, samples, shape, {}, next, nullptr).ok());
  EXPECT_EQ(arena.Fetch(next[2], m[2].size()), want.next_m[2]);
  EXPECT_EQ(arena.Fetch(reinterpret_cast<std::byte*>(samples[2].values), 4 * shape.values()),
            want.values[2]);
  // An image that the device could not write with wide stores.
  next[2] += 2;
  const Status unaligned = codec->Decode(coded.payload, samples, shape, {}, next, nullptr);
  EXPECT_EQ(unaligned.code(), StatusCode::kInvalidArgument) << unaligned.ToString();
}

INSTANTIATE_TEST_SUITE_P(Lanes, DeviceCodecTest, testing::Values(Where::kHost));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceCodecTest, testing::Values(Where::kGpu));

TEST(DeviceCodec, AllCodecsHaveADeviceFormButFeedback) {
  for (const char* spec :
       {"raw:dtype=fp16", "direct:bits=4", "direct:bits=4,bucket=channel", "tiles:bits=4",
        "tiles:bits=4,adaptive=on", "topk:ratio=0.2,bits=8", "dithered:rate=2",
        "aqsgd:bits=2,m=8,first_visit=dithered:rate=2", "aqsgd:delta=tiles:bits=2"}) {
    const auto codec = NewDeviceCodec(spec, 128, std::make_unique<HostQueue>());
    EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  }
  const auto feedback =
      NewDeviceCodec("topk:ratio=0.2,bits=8,feedback=on", 128, std::make_unique<HostQueue>());
  EXPECT_EQ(feedback.status().code(), StatusCode::kUnimplemented);
  const auto wrong = NewDeviceCodec("direct:bits=9", 128, std::make_unique<HostQueue>());
  EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidArgument);
}

TEST(DeviceCodec, SaysWhyThereIsNoDevice) {
  const auto codec = MakeDeviceCodec("direct:bits=4", 128);
  if (codec.ok()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(codec.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(codec.status().message().find("use the codec on the CPU"), std::string::npos);
}

TEST(LaneValues, NoiseIsThatOfTheMessage) {
  const RandomKey key{1, 2, 3, 4, 1};
  const auto words = MessageKeyWords(key);
  const std::uint32_t of_message[2] = {words[0], words[1]};
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7},
                                    std::uint64_t{1022}, (std::uint64_t{1} << 34) - 3}) {
    float want[kLaneGroup];
    FillUniform(key, 0, first, want);
    float got[kLaneGroup];
    GroupNoise(of_message, first, got);
    for (int j = 0; j < kLaneGroup; ++j) ASSERT_EQ(got[j], want[j]) << first << " " << j;
  }
}

}  // namespace
}  // namespace shoal::compression
