// What the tests of dithered and of turned sections on a device share.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_DEVICE_DITHER_SUPPORT_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_DEVICE_DITHER_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/unit/compression/device/device_codec_support.h"

namespace shoal::compression {

class DeviceDitherTest : public DeviceCodecTest {
 protected:
  // Both refuse with the same words.
  void CompareRefusal(const Message& message, const std::vector<Values>& x) {
    const std::vector<Bytes> none(x.size());
    const auto want = HostEncode(message, x, none);
    const auto got = Encode(message, x, none);
    ASSERT_FALSE(want.ok()) << message.spec;
    EXPECT_EQ(got.status().ToString(), want.status().ToString());
  }

  // Broken bytes of a message: both refuse with the same words, or both give the same values.
  void CompareForeign(const Message& message, const std::vector<Values>& x, int rounds) {
    const std::vector<Bytes> none(x.size());
    const Coded coded = HostEncode(message, x, none).value();
    std::mt19937_64 random(9);
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
      Bytes payload = coded.payload;
      if (round % 4 == 0) {
        payload.resize(random() % payload.size());
      } else {
        const std::size_t at =
            random() %
            (round % 2 == 0 ? std::min<std::size_t>(64, payload.size()) : payload.size());
        payload[at] ^= static_cast<std::byte>(1 + random() % 255);
      }
      const auto want = HostDecode(message, payload, none);
      const auto got = Decode(message, payload, none);
      ASSERT_EQ(got.status().ToString(), want.status().ToString()) << message.spec << " " << round;
      refused += want.ok() ? 0 : 1;
      if (!want.ok()) continue;
      ASSERT_EQ(got->values, want->values);
    }
    EXPECT_GT(refused, rounds / 4);
  }
};

// Tokens of very different loudness, and channels that are loud or quiet everywhere.
inline std::vector<Values> Uneven(std::size_t count, SampleShape shape, std::uint64_t seed,
                                  float scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Values> samples(count, Values(shape.values()));
  for (Values& x : samples) {
    for (std::uint32_t t = 0; t < shape.tokens; ++t) {
      const float token = t % 11 == 5 ? 0.0F : std::exp2(static_cast<float>(random() % 9) - 5.0F);
      for (std::uint32_t c = 0; c < shape.hidden; ++c) {
        const float channel = std::exp2(static_cast<float>(c % 5) - 2.0F);
        float value = normal(random) * token * channel * scale;
        if (random() % 200 == 0) value *= 40;  // escapes
        x[std::size_t{t} * shape.hidden + c] = value;
      }
    }
  }
  return samples;
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_DEVICE_DITHER_SUPPORT_H_
