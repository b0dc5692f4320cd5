// A MessageCodec as tests of single samples want it: one sample a message.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_ONE_SAMPLE_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_ONE_SAMPLE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compression/api/codec.h"

namespace shoal::compression {

class OneSample {
 public:
  explicit OneSample(std::shared_ptr<const MessageCodec> codec) : codec_(std::move(codec)) {}
  // The codec of a spec that must be right.
  OneSample(const std::string& spec, std::uint32_t hidden)
      : OneSample(MakeCodec(spec, hidden).value()) {}

  const MessageCodec& codec() const { return *codec_; }
  const std::string& spec() const { return codec_->spec(); }
  bool keeps_m() const { return codec_->keeps_m(); }
  std::size_t EncodedBytesMax(SampleShape shape) const { return codec_->EncodedBytesMax(shape, 1); }

  Result<std::size_t> Encode(std::span<const float> values, SampleShape shape,
                             std::span<const std::byte> m, const RandomKey& key,
                             std::span<std::byte> out, Buffer* next_m,
                             DeltaMode mode = DeltaMode::kDelta) const {
    const SampleToEncode sample{values, m};
    return codec_->Encode({&sample, 1}, shape, key, mode, out, {next_m, 1}, nullptr);
  }
  Status Decode(std::span<const std::byte> payload, SampleShape shape, std::span<const std::byte> m,
                const RandomKey& key, std::span<float> values, Buffer* next_m) const {
    const SampleToDecode sample{values, !m.empty(), m};
    return codec_->Decode(payload, {&sample, 1}, shape, key, {next_m, 1});
  }

 private:
  std::shared_ptr<const MessageCodec> codec_;
};

// Payload and values of a sample without m, by a codec that must succeed.
inline std::vector<std::byte> Encode(const MessageCodec& codec, SampleShape shape,
                                     const RandomKey& key, std::span<const float> values) {
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, 1));
  const SampleToEncode sample{values, {}};
  const auto bytes = codec.Encode({&sample, 1}, shape, key, DeltaMode::kDelta, out, {}, nullptr);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  out.resize(bytes.value());
  return out;
}

inline std::vector<float> Decode(const MessageCodec& codec, SampleShape shape, const RandomKey& key,
                                 std::span<const std::byte> payload) {
  std::vector<float> values(shape.values(), std::nanf(""));
  const SampleToDecode sample{values, false, {}};
  const Status status = codec.Decode(payload, {&sample, 1}, shape, key, {});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return values;
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_ONE_SAMPLE_H_
