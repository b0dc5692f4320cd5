// Codes with one scale per channel as lanes of a GPU's warp make and read them (lane_values.h).
// Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_CHANNEL_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_CHANNEL_H_

#include "compression/codecs/channel_codec.h"
#include "compression/device/jobs/channel_jobs.h"
#include "compression/device/lane_buckets.h"

namespace shoal::compression {

// A channel in kChannelRows tokens of a sample.
SHOAL_LANE ChannelRange RangeOfRows(const ChannelRangeJob& job, const DeviceSample& sample,
                                    std::uint32_t first_row, std::uint32_t channel) {
  ChannelRange range;
  const std::uint32_t rows =
      job.tokens - first_row < kChannelRows ? job.tokens - first_row : kChannelRows;
  const float* x = sample.x + (std::size_t{first_row} * job.hidden + channel);
  SHOAL_UNROLL_BY(8)
  for (std::uint32_t r = 0; r < rows; ++r) {
    const float value = x[std::size_t{r} * job.hidden];
    Raise(range.most, MagnitudeBits(value));
    Raise(range.high, OrderedBits(value));
    Raise(range.low, ~OrderedBits(value));
  }
  return range;
}

// The values of a channel in the order of samples and tokens.
struct ChannelAt {
  const ChannelTryJob& job;
  std::uint32_t channel;

  SHOAL_LANE float operator()(std::size_t i) const {
    return job.samples[i / job.tokens].x[i % job.tokens * job.hidden + channel];
  }
};
SHOAL_LANE void TryChannelScale(const ChannelTryJob& job, std::uint32_t channel, int t) {
  const std::uint16_t largest = job.largest[channel];
  const std::uint16_t scale = LevelRule::TriedScale(largest, t);
  float error = 0;
  if (largest != 0 && scale >= job.rule.least_scale()) {
    error = job.rule.SquaredError(ChannelAt{job, channel}, std::size_t{job.count} * job.tokens,
                                  largest, scale);
  }
  job.errors[std::size_t{static_cast<std::uint32_t>(t)} * job.hidden + channel] = error;
}

SHOAL_LANE std::byte* ChannelCodeAddress(const ChannelJob& job, std::uint32_t index,
                                         std::uint32_t group) {
  const std::size_t groups = (std::size_t{job.values} + 7) / 8;
  return job.codes + (index * groups + group) * static_cast<std::size_t>(job.rule.bits());
}

SHOAL_LANE void EncodeChannelGroup(const ChannelJob& job, const DeviceSample& sample,
                                   std::uint32_t group) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const int bits = job.rule.bits();
  float x[kLaneGroup];
  float noise[kLaneGroup] = {};
  LoadFloats(sample.x + position, count, x);
  if (job.rule.rounding() == Rounding::kStochastic) {
    GroupNoise(job.key, std::uint64_t{sample.index} * job.values + position, noise);
  }
  const float half = PowerOfTwo(bits - 1);
  std::uint32_t channel = position % job.hidden;
  std::uint64_t codes = 0;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j < count) {
      std::uint32_t code = 0;
      if (job.authors) {
        code = static_cast<std::uint32_t>(AuthorsCode(x[j], job.first[channel], half));
      } else {
        LevelConstants encoder{job.first[channel], job.second[channel]};
        encoder.offset = encoder.offset + noise[j];
        code = CodeOf(job.rule, x[j], encoder);
      }
      codes |= std::uint64_t{code} << (j * bits);
    }
    channel = channel + 1 == job.hidden ? 0 : channel + 1;
  }
  StoreCodes(codes, bits, ChannelCodeAddress(job, sample.index, group));
}

SHOAL_LANE void DecodeChannelGroup(const ChannelJob& job, const DeviceSample& sample,
                                   std::uint32_t group) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const int bits = job.rule.bits();
  const std::uint64_t codes = LoadCodes(ChannelCodeAddress(job, sample.index, group), bits);
  std::uint32_t channel = position % job.hidden;
  float values[kLaneGroup] = {};
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j < count) {
      const auto code = static_cast<std::uint32_t>(codes >> (j * bits)) & ((1U << bits) - 1);
      values[j] = static_cast<float>(code) * job.first[channel] + job.second[channel];
    }
    channel = channel + 1 == job.hidden ? 0 : channel + 1;
  }
  StoreFloats(values, count, sample.values + position);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_CHANNEL_H_
