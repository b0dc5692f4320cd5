// Turned tokens and channel scales on a device give what the CPU gives, to the bit.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "compression/api/sample_layout.h"
#include "compression/codecs/klt/reflectors.h"
#include "tests/unit/compression/device/device_dither_support.h"

namespace shoal::compression {
namespace {

// Those of a run's defaults (deploy/run.toml), the first visits of its gradients, and their changes
// with directions.
constexpr char kForward[] =
    "aqsgd:delta=dithered:step=0.55/klt=64/channels=on,"
    "first_visit=dithered:step=0.1/klt=64/channels=on";
constexpr char kBackward[] = "dithered:step=0.4,klt=64,channels=on";
constexpr char kOfValues[] =
    "aqsgd:delta=dithered:step=0.4/of=values/klt=64/channels=on,"
    "first_visit=dithered:step=0.4/klt=64/channels=on";

class DeviceKltTest : public DeviceDitherTest {
 protected:
  // The directions of a message of turned values; 0: none.
  static int RankOf(const Bytes& payload, std::size_t at) {
    const auto byte = [&](std::size_t i) { return std::to_integer<int>(payload[at + i]); };
    return byte(0) + byte(1) + byte(2) + byte(3) == 0 ? 0 : byte(8) + 256 * byte(9);
  }
  void CompareAll(const std::string& spec, SampleShape shape, const std::vector<Values>& x) {
    std::vector<Bytes> none(x.size());
    Compare({spec, shape, {3, 1, 4, 1, 5}}, x, &none);
  }
};

// Tokens that share a few directions, in loud and quiet channels.
std::vector<Values> Directed(std::size_t count, SampleShape shape, std::uint64_t seed,
                             float scale = 1) {
  constexpr std::size_t kDirections = 5;
  std::mt19937_64 random(99);  // the same directions in every call
  std::normal_distribution<float> normal;
  std::vector<Values> directions(kDirections, Values(shape.hidden));
  for (Values& direction : directions) {
    for (float& value : direction) value = normal(random);
  }
  random.seed(seed);
  std::vector<Values> samples(count, Values(shape.values()));
  for (Values& x : samples) {
    for (std::uint32_t t = 0; t < shape.tokens; ++t) {
      float* token = x.data() + std::size_t{t} * shape.hidden;
      for (std::uint32_t h = 0; h < shape.hidden; ++h) token[h] = 0.3F * normal(random);
      for (const Values& direction : directions) {
        const float by = 2 * normal(random);
        for (std::uint32_t h = 0; h < shape.hidden; ++h) token[h] += by * direction[h];
      }
      for (std::uint32_t h = 0; h < shape.hidden; ++h) token[h] *= h % 17 == 3 ? 20 * scale : scale;
    }
  }
  return samples;
}

// Tokens enough for some directions, and no multiples of a tile's sides among the hidden sizes.
constexpr SampleShape kTurned[] = {{90, 33}, {60, 128}, {100, 65}, {40, 160}};

TEST_P(DeviceKltTest, TurnedMessagesOfManyShapes) {
  for (const SampleShape shape : kTurned) {
    for (const char* spec : {"dithered:step=0.4,klt=64", "dithered:step=1,klt=3",
                             "dithered:error=0.1,klt=16", "dithered:step=0.0625,klt=8,dither=off",
                             "dithered:step=0.5,klt=256,channels=on", kBackward}) {
      for (const std::size_t count : {1, 3}) {
        ASSERT_NO_FATAL_FAILURE(CompareAll(spec, shape, Directed(count, shape, shape.hidden)));
        ASSERT_NO_FATAL_FAILURE(CompareAll(spec, shape, Uneven(count, shape, shape.hidden)));
      }
    }
    const auto x = Directed(3, shape, 1);
    const Coded coded =
        HostEncode({"dithered:step=0.4,klt=64", shape, {}}, x, std::vector<Bytes>(3)).value();
    EXPECT_GT(RankOf(coded.payload, kPayloadHeaderBytes), 2) << "nothing is turned here";
  }
}

TEST_P(DeviceKltTest, MessagesWithoutDirections) {
  for (const SampleShape shape :
       {SampleShape{1, 1}, SampleShape{3, 64}, SampleShape{2, 2100}, SampleShape{40, 2}}) {
    for (const char* spec : {kBackward, "dithered:step=1,klt=4"}) {
      ASSERT_NO_FATAL_FAILURE(CompareAll(spec, shape, Uneven(2, shape, 3)));
    }
  }
}

TEST_P(DeviceKltTest, DefaultsOfARun) {
  for (const SampleShape shape : {SampleShape{50, 128}, SampleShape{40, 160}}) {
    for (const std::size_t count : {1, 3}) {
      ASSERT_NO_FATAL_FAILURE(CompareAll(kBackward, shape, Directed(count, shape, 2)));
      for (const DeltaMode mode : {DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull}) {
        std::vector<Bytes> m(count);
        for (std::uint64_t visit = 0; visit < 3; ++visit) {
          if (visit == 2) m[0].clear();
          ASSERT_NO_FATAL_FAILURE(Compare({kForward, shape, {1, visit, 2, 3, 0}, mode},
                                          Directed(count, shape, visit), &m));
        }
      }
    }
  }
}

TEST_P(DeviceKltTest, DefaultsOfARunWithWideTokens) {
  const SampleShape shape{60, 1600};
  std::vector<Bytes> m(2);
  for (std::uint64_t visit = 0; visit < 2; ++visit) {
    const auto x = Directed(2, shape, visit);
    ASSERT_NO_FATAL_FAILURE(Compare({kForward, shape, {1, visit, 2, 3, 0}}, x, &m));
    ASSERT_NO_FATAL_FAILURE(CompareAll(kBackward, shape, x));
  }
}

TEST_P(DeviceKltTest, ValuesOfEverySize) {
  const SampleShape shape{100, 66};
  for (const float scale : {0.0F, 0x1p-149F, 0x1p-104F, 0x1p-61F, 0x1p-58F, 1e-9F, 1e9F, 0x1p49F,
                            0x1p53F, 0x1p100F, 0x1p106F}) {
    ASSERT_NO_FATAL_FAILURE(CompareAll(kBackward, shape, Directed(2, shape, 4, scale))) << scale;
    ASSERT_NO_FATAL_FAILURE(
        CompareAll("dithered:step=0.7,klt=9", shape, Directed(2, shape, 4, scale)))
        << scale;
  }
  for (const float huge : {300.0F, 1e4F, 1e8F}) {  // one token, as of an attention sink
    auto x = Directed(2, shape, 5);
    for (std::uint32_t h = 0; h < shape.hidden; ++h) x[1][7 * shape.hidden + h] *= huge;
    std::fill_n(x[0].begin(), 3 * shape.hidden, 0.0F);
    ASSERT_NO_FATAL_FAILURE(CompareAll(kBackward, shape, x)) << huge;
    ASSERT_NO_FATAL_FAILURE(CompareAll("dithered:step=0.7,klt=9", shape, x)) << huge;
  }
}

TEST_P(DeviceKltTest, Refusals) {
  const SampleShape shape{100, 33};
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), 0x1p119F}) {
    auto x = Directed(2, shape, 1);
    x[1][40] = bad;
    for (const char* spec : {kBackward, "dithered:step=0.4,klt=8", "dithered:step=1,channels=on",
                             "direct:bits=4,channels=on", kForward, kOfValues}) {
      ASSERT_NO_FATAL_FAILURE(CompareRefusal({spec, shape, {}}, x));
    }
    const Message change{kForward, shape, {}};
    const auto first = HostEncode(change, Directed(2, shape, 2), std::vector<Bytes>(2)).value();
    const auto want = HostEncode(change, x, first.next_m);
    ASSERT_FALSE(want.ok());
    EXPECT_EQ(Encode(change, x, first.next_m).status().ToString(), want.status().ToString());
  }
}

TEST_P(DeviceKltTest, ForeignBytes) {
  const SampleShape shape{90, 12};
  for (const char* spec : {kBackward, "dithered:step=0.4,klt=8"}) {
    ASSERT_NO_FATAL_FAILURE(
        DeviceDitherTest::CompareForeign({spec, shape, {}}, Directed(2, shape, 5), 300));
  }
  ASSERT_NO_FATAL_FAILURE(DeviceDitherTest::CompareForeign(
      {"dithered:step=1,channels=on", {30, 9}, {}}, Directed(2, {30, 9}, 5), 200));
}

TEST_P(DeviceKltTest, SamplesThatAreNotWanted) {
  const SampleShape shape{60, 33};
  const Message message{"dithered:step=0.4,klt=8", shape, {}};
  const auto x = Directed(4, shape, 3);
  const Coded coded = HostEncode(message, x, std::vector<Bytes>(4)).value();
  ASSERT_GT(RankOf(coded.payload, kPayloadHeaderBytes), 0);
  const Coded want = HostDecode(message, coded.payload, std::vector<Bytes>(4)).value();
  const auto codec = Make(message.spec, shape.hidden).value();
  Arena arena(GetParam());
  const std::vector<std::byte*> none(4, nullptr);
  std::vector<DeviceSampleToDecode> samples(4);
  EXPECT_TRUE(codec->Decode(coded.payload, samples, shape, {}, none, nullptr).ok());
  for (const std::size_t wanted : {1, 3}) {
    samples[wanted].values = reinterpret_cast<float*>(arena.New(4 * shape.values()));
  }
  ASSERT_TRUE(codec->Decode(coded.payload, samples, shape, {}, none, nullptr).ok());
  for (const std::size_t wanted : {1, 3}) {
    EXPECT_EQ(arena.Fetch(reinterpret_cast<std::byte*>(samples[wanted].values), 4 * shape.values()),
              want.values[wanted]);
  }
}

// ---- channel scales over other codecs --------------------------------------------------------

TEST_P(DeviceKltTest, ChannelScalesOverAnyCodec) {
  for (const SampleShape shape : {SampleShape{3, 64}, SampleShape{40, 36}, SampleShape{200, 20}}) {
    for (const char* spec :
         {"dithered:step=0.7,channels=on", "dithered:rate=2,channels=on",
          "dithered:error=0.2,channels=on,dither=off", "dithered:step=1,dither=off",
          "direct:bits=3,channels=on", "direct+rans:bits=4,bucket=4,channels=on,levels=affine",
          "direct:bits=4,channels=on,rounding=stochastic"}) {
      ASSERT_NO_FATAL_FAILURE(CompareAll(spec, shape, Directed(3, shape, 6)));
      ASSERT_NO_FATAL_FAILURE(CompareAll(spec, shape, Uneven(3, shape, 6)));
    }
  }
}

TEST_P(DeviceKltTest, ChangesUnderChannelScales) {
  const SampleShape shape{70, 36};
  for (const char* spec :
       {"aqsgd:bits=3,channels=on", "aqsgd+rans:bits=2,bucket=12,channels=on",
        "aqsgd:bits=3,bucket=4,channels=on,m=8", "aqsgd:delta=direct:bits=3/channels=on",
        "aqsgd:delta=dithered:step=0.5/channels=on,first_visit=dithered:rate=3/channels=on",
        "aqsgd:bits=4,channels=on,levels=affine,first_visit=direct:bits=8/channels=on"}) {
    for (const DeltaMode mode : {DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull}) {
      for (const float scale : {1.0F, 1e6F, 1e-7F}) {
        std::vector<Bytes> m(3);
        for (std::uint64_t visit = 0; visit < 3; ++visit) {
          if (visit == 2) m[1].clear();
          ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, {1, visit, 2, 3, 0}, mode},
                                          Directed(3, shape, visit, scale), &m));
        }
      }
    }
  }
}

TEST_P(DeviceKltTest, ChangesWhoseErrorFollowsTheValues) {
  for (const SampleShape shape : {SampleShape{50, 128}, SampleShape{70, 36}, SampleShape{3, 64}}) {
    for (const char* spec :
         {kOfValues, "aqsgd:delta=dithered:step=0.5/of=values,first_visit=dithered:step=0.5",
          "aqsgd:delta=dithered:step=0.5/of=values/klt=9,first_visit=raw:dtype=fp16",
          "aqsgd:delta=dithered:error=0.1/of=values/channels=on,first_visit=dithered:rate=3"}) {
      for (const float scale : {1.0F, 1e-6F, 0.0F}) {
        std::vector<Bytes> m(3);
        for (std::uint64_t visit = 0; visit < 4; ++visit) {
          if (visit == 2) m[1].clear();
          const float of_visit = visit == 3 ? 100 * scale : scale;
          ASSERT_NO_FATAL_FAILURE(
              Compare({spec, shape, {1, visit, 2, 3, 1}}, Directed(3, shape, visit, of_visit), &m));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, DeviceKltTest, testing::Values(Where::kHost));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceKltTest, testing::Values(Where::kGpu));

// The tiles against the arithmetic of docs/WIRE.md in plain loops.
TEST(LaneTurn, TokensTurnBackByTheArithmeticOfTheDocument) {
  constexpr std::uint32_t kTokens = 35, kHidden = 131, kRank = 5;
  ReflectorCodes codes;
  codes.rank = kRank;
  codes.hidden = kHidden;
  codes.exponent = 4;
  std::mt19937_64 random(3);
  for (std::size_t i = 0; i < std::size_t{kRank} * kHidden; ++i) {
    codes.codes.push_back(static_cast<std::int8_t>(random() % 31 - 15));
  }
  const Reflectors turn(codes);
  std::normal_distribution<float> normal;
  Values y(kTokens * kHidden), x(y.size()), leading(kTokens * kRank),
      rest(y.size() - leading.size()), products(leading.size());
  for (float& value : y) value = normal(random);
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    std::copy_n(&y[t * kHidden], kRank, &leading[t * kRank]);
    std::copy_n(&y[t * kHidden + kRank], kHidden - kRank, &rest[t * (kHidden - kRank)]);
  }
  DeviceSample sample;
  sample.values = x.data();
  TurnJob job{TurnPass::kProducts,
              true,
              kRank,
              kHidden,
              kTokens,
              1,
              &sample,
              turn.y().data(),
              static_cast<std::uint32_t>(turn.width()),
              products.data(),
              leading.data(),
              rest.data()};
  RunOnHost(job);
  job.pass = TurnPass::kDifferences;
  job.factor = turn.wt().data();
  job.stride = static_cast<std::uint32_t>(turn.stride());
  RunOnHost(job);
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    const float* token = &y[t * kHidden];
    float p[kRank] = {};
    for (std::uint32_t k = 0; k < kRank; ++k) {
      for (std::uint32_t first = 0; first < kHidden; first += 64) {
        float block = 0;
        for (std::uint32_t h = first; h < std::min(first + 64, kHidden); ++h) {
          block = block + token[h] * turn.y()[h * turn.width() + k];
        }
        p[k] = p[k] + block;
      }
    }
    for (std::uint32_t h = 0; h < kHidden; ++h) {
      float by = 0;
      for (std::uint32_t k = 0; k < kRank; ++k) by = by + p[k] * turn.wt()[k * turn.stride() + h];
      ASSERT_EQ(x[t * kHidden + h], token[h] - by) << t << " " << h;
    }
  }
}

}  // namespace
}  // namespace shoal::compression
