// Dithered sections and sections with one scale per channel on a device give what the CPU gives, to
// the bit.

#include <gtest/gtest.h>

#include <limits>

#include "compression/api/message_noise.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/simd/dither_kernels.h"
#include "tests/unit/compression/device/device_dither_support.h"

namespace shoal::compression {
namespace {

constexpr SampleShape kShapes[] = {{1, 1},    {3, 64},   {5, 7}, {3, 129},  {9, 16},   {70, 33},
                                   {130, 40}, {2, 2100}, {1, 5}, {300, 12}, {2, 4100}, {90, 131}};

// ---- dithered --------------------------------------------------------------------------------

TEST_P(DeviceDitherTest, DitheredMessagesOfManyShapes) {
  const RandomKey key{0x123456789abcdef, 7, 8, 9, 1};
  for (const SampleShape shape : kShapes) {
    for (const char* spec : {"dithered:step=0.0625", "dithered:step=1", "dithered:step=16",
                             "dithered:rate=1.5", "dithered:rate=4", "dithered:error=0.2"}) {
      for (const std::size_t count : {1, 3}) {
        std::vector<Bytes> none(count);
        ASSERT_NO_FATAL_FAILURE(
            Compare({spec, shape, key}, Uneven(count, shape, shape.hidden), &none));
        ASSERT_NO_FATAL_FAILURE(
            Compare({spec, shape, key}, Samples(count, shape.values(), shape.hidden), &none));
      }
    }
  }
}

TEST_P(DeviceDitherTest, DitheredValuesOfEverySize) {
  const SampleShape shape{80, 36};
  for (const char* spec : {"dithered:step=0.7", "dithered:rate=2", "dithered:error=3"}) {
    for (const float scale : {0.0F, 0x1p-149F, 0x1p-120F, 0x1p-104F, 0x1p-100F, 0x1p-90F, 1e-20F,
                              1e20F, 0x1p100F, 0x1p106F}) {
      std::vector<Bytes> none(2);
      ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, {}}, Uneven(2, shape, 4, scale), &none))
          << scale;
    }
    // One token holds all the energy: codes up to the largest.
    std::vector<Values> x(2, Values(shape.values(), 1e-6F));
    x[1][100] = 1e4F;
    std::vector<Bytes> none(2);
    ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, {}}, x, &none));
  }
}

TEST_P(DeviceDitherTest, DitheredRefusals) {
  const SampleShape shape{3, 33};
  for (const char* spec : {"dithered:step=1", "dithered:rate=2", "dithered:error=0.3"}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN(), 0x1p119F}) {
      auto x = Uneven(2, shape, 1);
      x[1][40] = bad;
      ASSERT_NO_FATAL_FAILURE(CompareRefusal({spec, shape, {}}, x));
    }
  }
  std::vector<Values> x(1, Values(shape.values(), 0x1.1p115F));
  ASSERT_NO_FATAL_FAILURE(CompareRefusal({"dithered:step=16", shape, {}}, x));
}

TEST_P(DeviceDitherTest, DitheredForeignBytes) {
  ASSERT_NO_FATAL_FAILURE(
      CompareForeign({"dithered:step=0.5", {9, 33}, {}}, Uneven(2, {9, 33}, 5), 300));
  ASSERT_NO_FATAL_FAILURE(
      CompareForeign({"dithered:step=0.0625", {90, 30}, {}}, Uneven(2, {90, 30}, 6), 300));
  ASSERT_NO_FATAL_FAILURE(
      CompareForeign({"dithered:step=1", {3, 8}, {}}, {Values(24), Values(24)}, 60));
}

// The steps, escapes and cells of a message are those of its own samples only.
TEST_P(DeviceDitherTest, DitheredSamplesThatAreNotWanted) {
  const SampleShape shape{7, 33};
  const Message message{"dithered:step=0.0625", shape, {}};
  const auto x = Uneven(4, shape, 3);
  const Coded coded = HostEncode(message, x, std::vector<Bytes>(4)).value();
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
    const auto* at = reinterpret_cast<const std::byte*>(samples[wanted].values);
    EXPECT_EQ(arena.Fetch(at, 4 * shape.values()), want.values[wanted]);
  }
}

TEST_P(DeviceDitherTest, ChangesAndFirstVisits) {
  const SampleShape shape{70, 36};
  for (const char* spec :
       {"aqsgd:bits=3,bucket=36,first_visit=dithered:step=0.3", "aqsgd:delta=dithered:step=1",
        "aqsgd:delta=dithered:rate=2,m=8,first_visit=dithered:error=0.1",
        "aqsgd:delta=direct:bits=4/bucket=channel",
        "aqsgd:bits=2,bucket=12,first_visit=direct:bits=6/bucket=channel"}) {
    if (!MakeCodec(spec, shape.hidden).ok()) ADD_FAILURE() << spec;
    for (const DeltaMode mode : {DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull}) {
      std::vector<Bytes> m(3);
      for (std::uint64_t visit = 0; visit < 3; ++visit) {
        if (visit == 2) m[1].clear();
        ASSERT_NO_FATAL_FAILURE(
            Compare({spec, shape, {1, visit, 2, 3, 0}, mode}, Uneven(3, shape, visit), &m));
      }
    }
  }
}

// The sum that decides the step, against the definition in one line.
TEST(LaneDither, EnergyIsAddedAsOnTheCpu) {
  const auto x = Samples(1, 1000, 8).front();
  for (const std::uint32_t hidden : {1U, 15U, 16U, 17U, 100U, 1000U}) {
    DeviceSample sample;
    sample.x = x.data();
    double energy = 0;
    EnergyJob job;
    job.hidden = hidden;
    job.tokens = job.count = 1;
    job.samples = &sample;
    job.energies = &energy;
    RunOnHost(job);
    EXPECT_EQ(energy, SumOfSquares(x.data(), hidden)) << hidden;
  }
}

TEST(LaneDither, WordsAreThoseOfTheMessage) {
  const RandomKey key{5, 6, 7, 8, 0};
  const auto words = MessageKeyWords(key);
  DitherJob job;
  std::copy(words.begin(), words.end(), job.key);
  for (const std::uint64_t token : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{1} << 33}) {
    std::uint16_t want[3 * kDitherGroup];
    DitherWords(words, token, 0, 3, want);
    for (std::uint32_t value = 0; value < 3 * kDitherGroup; ++value) {
      ASSERT_EQ(DitherWordAt(job, token, value), want[value]) << token << " " << value;
    }
  }
}

// ---- one scale per channel -------------------------------------------------------------------

TEST_P(DeviceDitherTest, ChannelCodesOfEveryRule) {
  const RandomKey key{11, 12, 13, 14, 1};
  for (const char* rule :
       {"", ",levels=midtread", ",levels=affine", ",scale=optimal", ",rounding=stochastic",
        ",levels=midtread,scale=optimal,rounding=stochastic", ",levels=affine,rounding=stochastic",
        ",levels=authors"}) {
    for (int bits = 2; bits <= 8; ++bits) {
      for (const SampleShape shape :
           {SampleShape{3, 64}, SampleShape{35, 7}, SampleShape{70, 33}}) {
        const std::string spec = "direct:bits=" + std::to_string(bits) + ",bucket=channel" + rule;
        std::vector<Bytes> none(3);
        ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, key}, Uneven(3, shape, 2), &none));
        ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, key}, Samples(3, shape.values(), 3), &none));
      }
    }
  }
}

TEST_P(DeviceDitherTest, ChannelCodesOfManyShapes) {
  for (const SampleShape shape : kShapes) {
    for (const char* spec : {"direct:bits=1,bucket=channel", "direct+rans:bits=3,bucket=channel",
                             "direct+zstd:bits=4,bucket=channel,levels=affine",
                             "direct+rans:bits=4,bucket=channel,levels=authors"}) {
      std::vector<Bytes> none(2);
      ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, {}}, Uneven(2, shape, 6), &none));
    }
    for (const float scale : {0.0F, 0x1p-149F, 0x1p-101F, 0x1p-24F, 0x1p-14F, 1e30F, 0x1p110F}) {
      for (const char* spec :
           {"direct:bits=4,bucket=channel", "direct:bits=4,bucket=channel,levels=affine",
            "direct:bits=3,bucket=channel,scale=optimal"}) {
        std::vector<Bytes> none(1);
        ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, {}}, Uneven(1, shape, 7, scale), &none));
      }
      if (scale > 1) continue;
      std::vector<Bytes> none(1);
      ASSERT_NO_FATAL_FAILURE(Compare({"direct:bits=5,bucket=channel,levels=authors", shape, {}},
                                      Uneven(1, shape, 7, scale), &none));
    }
  }
}

TEST_P(DeviceDitherTest, ChannelRefusals) {
  const SampleShape shape{3, 33};
  for (const char* spec :
       {"direct:bits=4,bucket=channel", "direct:bits=4,bucket=channel,levels=authors",
        "direct+rans:bits=4,bucket=channel,levels=affine"}) {
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), 0x1p122F}) {
      auto x = Uneven(2, shape, 1);
      x[1][40] = bad;
      ASSERT_NO_FATAL_FAILURE(CompareRefusal({spec, shape, {}}, x));
    }
  }
}

TEST_P(DeviceDitherTest, ChannelForeignBytes) {
  for (const char* spec :
       {"direct:bits=3,bucket=channel", "direct+rans:bits=3,bucket=channel,levels=affine",
        "direct:bits=5,bucket=channel,levels=authors"}) {
    ASSERT_NO_FATAL_FAILURE(CompareForeign({spec, {5, 7}, {}}, Uneven(2, {5, 7}, 5), 200));
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, DeviceDitherTest, testing::Values(Where::kHost));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceDitherTest, testing::Values(Where::kGpu));

}  // namespace
}  // namespace shoal::compression
