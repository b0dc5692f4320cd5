// Tiles on a device give what TilesCodec and AdaptiveTilesCodec give, to the bit.

#include <gtest/gtest.h>

#include <limits>

#include "compression/codecs/tiles_codec.h"
#include "compression/simd/tile_kernels.h"
#include "tests/unit/compression/device/device_codec_support.h"

namespace shoal::compression {
namespace {

class DeviceTileTest : public DeviceCodecTest {
 protected:
  void CompareSpec(const std::string& spec, SampleShape shape, std::size_t samples,
                   std::uint64_t seed, float scale = 1) {
    std::vector<Bytes> none(samples);
    const RandomKey key{seed, 12, 13, 14, 1};
    Compare({spec, shape, key}, Samples(samples, shape.values(), seed, scale), &none);
  }
};

TEST_P(DeviceTileTest, TilesOfAllSizesAndWidths) {
  for (const SampleShape shape : {SampleShape{3, 128}, SampleShape{1, 1600}, SampleShape{2, 96},
                                  SampleShape{5, 7}, SampleShape{3, 129}, SampleShape{3, 86},
                                  SampleShape{1, 300}, SampleShape{1, 1}, SampleShape{2, 12}}) {
    for (std::uint32_t tile = 1; tile <= LargestTile(shape.hidden, kTileMax); tile *= 2) {
      for (int bits = 1; bits <= 8; ++bits) {
        const std::string spec =
            "tiles:bits=" + std::to_string(bits) + ",tile=" + std::to_string(tile);
        ASSERT_NO_FATAL_FAILURE(
            CompareSpec(spec, shape, 3, shape.hidden + static_cast<std::uint64_t>(bits)));
      }
    }
  }
}

TEST_P(DeviceTileTest, EveryLevelRule) {
  for (const std::uint32_t tile : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U}) {
    // Samples that end inside a group of 8 where the tile allows it.
    const SampleShape shape{3, tile < 8 ? 5 * tile : 3 * tile};
    for (const char* rule :
         {"levels=midrise", "levels=midtread", "levels=affine,rounding=stochastic",
          "levels=midrise,scale=optimal", "levels=midtread,scale=optimal",
          "levels=midrise,scale=optimal,rounding=stochastic",
          "levels=midtread,rounding=stochastic"}) {
      for (const int bits : {2, 3, 4, 8}) {
        const std::string spec =
            "tiles:bits=" + std::to_string(bits) + ",tile=" + std::to_string(tile) + "," + rule;
        ASSERT_NO_FATAL_FAILURE(CompareSpec(spec, shape, 2, tile + static_cast<unsigned>(bits)));
      }
    }
  }
}

TEST_P(DeviceTileTest, AdaptiveWidths) {
  for (const SampleShape shape :
       {SampleShape{3, 384}, SampleShape{1, 1600}, SampleShape{7, 8}, SampleShape{1, 8}}) {
    for (std::uint32_t tile = 8; tile <= LargestTile(shape.hidden, kTileMax); tile *= 2) {
      for (int bits = 1; bits <= 8; ++bits) {
        for (const char* rule : {"", ",levels=midrise", ",rounding=stochastic"}) {
          const std::string spec = "tiles:bits=" + std::to_string(bits) +
                                   ",tile=" + std::to_string(tile) + rule + ",adaptive=on";
          ASSERT_NO_FATAL_FAILURE(CompareSpec(spec, shape, 3, static_cast<std::uint64_t>(bits)));
        }
      }
    }
  }
}

TEST_P(DeviceTileTest, EntropyCoders) {
  for (const char* coder : {"+zstd", "+rans"}) {
    for (const int bits : {2, 3, 6}) {
      const std::string spec = "tiles" + std::string(coder) + ":bits=" + std::to_string(bits);
      ASSERT_NO_FATAL_FAILURE(CompareSpec(spec, {3, 86}, 3, 1));
      ASSERT_NO_FATAL_FAILURE(CompareSpec(spec, {3, 192}, 3, 2));
    }
  }
}

TEST_P(DeviceTileTest, ZerosAndExtremes) {
  const SampleShape shape{2, 128};
  for (const char* spec : {"tiles:bits=4", "tiles:bits=4,adaptive=on", "tiles:bits=3,tile=2",
                           "tiles:bits=4,levels=midrise,scale=optimal"}) {
    for (const float value : {0.0F, -0.0F, 1.0F, -0x1p118F, 0x1p118F, 0x1p-126F}) {
      std::vector<Bytes> none(2);
      const std::vector<Values> same(2, Values(shape.values(), value));
      ASSERT_NO_FATAL_FAILURE(Compare({spec, shape, {}}, same, &none));
    }
    ASSERT_NO_FATAL_FAILURE(CompareSpec(spec, shape, 3, 5, 1e33F));
    ASSERT_NO_FATAL_FAILURE(CompareSpec(spec, shape, 3, 5, 1e-27F));
  }
}

TEST_P(DeviceTileTest, ChangesAndFirstVisitsOfAqsgd) {
  for (const char* spec :
       {"aqsgd:bits=3,first_visit=tiles:bits=4",
        "aqsgd:bits=3,first_visit=tiles:bits=4/adaptive=on", "aqsgd:delta=tiles+rans:bits=3",
        "aqsgd:delta=tiles:bits=2/adaptive=on,m=4"}) {
    const Message message{spec, {3, 192}, {}};
    std::vector<Bytes> m(3);
    for (std::uint64_t visit = 0; visit < 3; ++visit) {
      if (visit == 2) m[1].clear();  // a first visit among changes
      ASSERT_NO_FATAL_FAILURE(Compare(message, Samples(3, message.shape.values(), visit), &m));
    }
  }
}

TEST_P(DeviceTileTest, RefusesWhatTheHostRefuses) {
  const SampleShape shape{2, 128};
  const auto x = Samples(2, shape.values(), 1);
  for (const char* spec : {"tiles:bits=4", "tiles:bits=4,adaptive=on",
                           "tiles:bits=2,levels=midrise,scale=optimal", "tiles+rans:bits=2"}) {
    const Message message{spec, shape, {}};
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), 0x1p119F}) {
      auto wrong = x;
      wrong[1][131] = bad;
      const auto want = HostEncode(message, wrong, std::vector<Bytes>(2));
      const auto got = Encode(message, wrong, std::vector<Bytes>(2));
      ASSERT_FALSE(got.ok());
      EXPECT_EQ(got.status().ToString(), want.status().ToString());
    }
  }
}

TEST_P(DeviceTileTest, RefusesForeignBytes) {
  for (const char* spec :
       {"tiles:bits=3,tile=2", "tiles:bits=3", "tiles:bits=4,levels=midtread", "tiles+zstd:bits=2",
        "tiles:bits=3,tile=8,adaptive=on", "tiles:bits=5,adaptive=on"}) {
    ASSERT_NO_FATAL_FAILURE(CompareForeign({spec, {3, 80}, {}}, 2, 300));
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, DeviceTileTest, testing::Values(Where::kHost));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTileTest, testing::Values(Where::kGpu));

}  // namespace
}  // namespace shoal::compression
