// topk on a device gives what TopKCodec gives, to the bit.

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/compression/device/device_codec_support.h"

namespace shoal::compression {
namespace {

class DeviceTopKTest : public DeviceCodecTest {
 protected:
  void CompareValues(const std::string& spec, SampleShape shape, const std::vector<Values>& x) {
    std::vector<Bytes> none(x.size());
    Compare({spec, shape, {}}, x, &none);
  }
};

TEST_P(DeviceTopKTest, RatiosWidthsAndShapes) {
  for (const SampleShape shape :
       {SampleShape{1, 1}, SampleShape{1, 7}, SampleShape{3, 129}, SampleShape{2, 256},
        SampleShape{1, 2047}, SampleShape{5, 1001}, SampleShape{4, 8}}) {
    for (const char* ratio : {"0.0001", "0.01", "0.2", "0.5", "0.999", "1"}) {
      for (int bits = 1; bits <= 8; ++bits) {
        const std::string spec =
            std::string("topk:ratio=") + ratio + ",bits=" + std::to_string(bits);
        const auto x = Samples(3, shape.values(), shape.hidden + static_cast<unsigned>(bits));
        ASSERT_NO_FATAL_FAILURE(CompareValues(spec, shape, x));
      }
    }
  }
}

TEST_P(DeviceTopKTest, BucketsAndEntropyCoders) {
  const SampleShape shape{3, 259};
  const auto x = Samples(2, shape.values(), 4);
  for (const char* name : {"topk", "topk+zstd", "topk+rans"}) {
    for (const char* bucket : {"1", "3", "64", "1000"}) {
      for (const int bits : {2, 3, 8}) {
        const std::string spec =
            std::string(name) + ":ratio=0.2,bits=" + std::to_string(bits) + ",bucket=" + bucket;
        ASSERT_NO_FATAL_FAILURE(CompareValues(spec, shape, x));
      }
    }
  }
}

// Of equal magnitudes the earlier are kept: whole messages of equals, equals that cross runs, and
// magnitudes that differ in their last bits only.
TEST_P(DeviceTopKTest, EqualMagnitudes) {
  const SampleShape shape{3, 431};
  std::mt19937_64 random(3);
  for (const char* spec : {"topk:ratio=0.0001,bits=4", "topk:ratio=0.2,bits=8",
                           "topk:ratio=0.7,bits=3", "topk:ratio=1,bits=2"}) {
    for (const float value : {0.0F, 1.0F, -3.5F, 0x1p-149F, 0x1p118F}) {
      std::vector<Values> x(2, Values(shape.values(), value));
      for (float& v : x[1]) v = random() % 2 == 0 ? v : -v;
      ASSERT_NO_FATAL_FAILURE(CompareValues(spec, shape, x));
    }
    std::vector<Values> few(2, Values(shape.values()));
    for (Values& values : few) {
      for (float& v : values) {
        v = std::bit_cast<float>(0x3f800000U + static_cast<std::uint32_t>(random() % 3)) *
            (random() % 2 == 0 ? 1.0F : -1.0F);
      }
    }
    ASSERT_NO_FATAL_FAILURE(CompareValues(spec, shape, few));
  }
}

// More samples than are selected at once, and more runs than threads that add them up.
TEST_P(DeviceTopKTest, ManySamplesAndRuns) {
  const SampleShape small{1, 37};
  ASSERT_NO_FATAL_FAILURE(
      CompareValues("topk:ratio=0.2,bits=8", small, Samples(150, small.values(), 8)));
  const SampleShape large{61, 4099};
  ASSERT_NO_FATAL_FAILURE(
      CompareValues("topk:ratio=0.2,bits=8", large, Samples(2, large.values(), 9)));
}

TEST_P(DeviceTopKTest, ChangesAndFirstVisitsOfAqsgd) {
  for (const char* spec : {"aqsgd:delta=topk:ratio=0.2/bits=8",
                           "aqsgd:delta=topk+rans:ratio=0.05/bits=4/bucket=32,m=8",
                           "aqsgd:bits=3,first_visit=topk:ratio=0.3/bits=8"}) {
    const Message message{spec, {3, 192}, {}};
    std::vector<Bytes> m(3);
    for (std::uint64_t visit = 0; visit < 3; ++visit) {
      if (visit == 2) m[1].clear();  // a first visit among changes
      ASSERT_NO_FATAL_FAILURE(Compare(message, Samples(3, message.shape.values(), visit), &m));
    }
  }
}

TEST_P(DeviceTopKTest, RefusesWhatTheHostRefuses) {
  const SampleShape shape{2, 128};
  const auto x = Samples(2, shape.values(), 1);
  const Message message{"topk:ratio=0.2,bits=8", shape, {}};
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::quiet_NaN(), 0x1p119F}) {
    auto wrong = x;
    wrong[1][131] = bad;
    const auto want = HostEncode(message, wrong, std::vector<Bytes>(2));
    const auto got = Encode(message, wrong, std::vector<Bytes>(2));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().ToString(), want.status().ToString());
  }
}

TEST_P(DeviceTopKTest, RefusesForeignBytes) {
  for (const char* spec :
       {"topk:ratio=0.3,bits=3", "topk:ratio=0.02,bits=8", "topk+rans:ratio=0.5,bits=2,bucket=5"}) {
    ASSERT_NO_FATAL_FAILURE(CompareForeign({spec, {3, 86}, {}}, 2, 300));
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, DeviceTopKTest, testing::Values(Where::kHost));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTopKTest, testing::Values(Where::kGpu));

}  // namespace
}  // namespace shoal::compression
