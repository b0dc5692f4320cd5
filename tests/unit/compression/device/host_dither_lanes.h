// The passes of dithered sections and of sections with one scale per channel as loops on the host
// (host_lanes.h).

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_DITHER_LANES_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_DITHER_LANES_H_

#include "compression/device/codecs/lane_channel.h"
#include "compression/device/codecs/lane_dither.h"

namespace shoal::compression {

// ---- dithered sections -----------------------------------------------------------------------

inline void RunOnHost(const EnergyJob& job) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t token = 0; token < job.tokens; ++token) {
      double sums[kEnergyLanes], partner[kEnergyLanes];
      for (std::uint32_t lane = 0; lane < kEnergyLanes; ++lane) {
        sums[lane] = LaneEnergy(job, job.samples[s], token, lane);
      }
      for (std::uint32_t by = kEnergyLanes / 2; by > 0; by /= 2) {
        for (std::uint32_t lane = 0; lane < kEnergyLanes; ++lane) partner[lane] = sums[lane ^ by];
        for (std::uint32_t lane = 0; lane < kEnergyLanes; ++lane) sums[lane] += partner[lane];
      }
      *EnergyAddress(job, job.samples[s], token) = sums[0];
    }
  }
}

inline void RunOnHost(const LookJob& job) {
  for (std::uint32_t column = 0; column < job.width; ++column) {
    if (job.pass == LookPass::kSquares) {
      AddLooked(job, column);
      continue;
    }
    for (std::uint32_t row = 0; row < job.count; ++row) CopyLooked(job, row, column);
  }
}

inline void RunOnHost(const DitherJob& job) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t token = 0; token < job.tokens; ++token) {
      for (std::uint32_t block = 0; block < DitherBlocksOf(job.hidden); ++block) {
        job.pass == CodingPass::kEncode
            ? CodeBlock<CodingPass::kEncode>(job, job.samples[s], token, block)
            : CodeBlock<CodingPass::kDecode>(job, job.samples[s], token, block);
      }
    }
  }
}

inline void RunOnHost(const EscapeJob& job) {
  for (std::uint32_t i = 0; i < job.escapes; ++i) CodeEscape(job, i);
}

// ---- one scale per channel -------------------------------------------------------------------

inline void RunOnHost(const ChannelRangeJob& job) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t row = 0; row < job.tokens; row += kChannelRows) {
      for (std::uint32_t channel = 0; channel < job.hidden; ++channel) {
        const ChannelRange range = RangeOfRows(job, job.samples[s], row, channel);
        Raise(job.ranges[channel].most, range.most);
        Raise(job.ranges[channel].high, range.high);
        Raise(job.ranges[channel].low, range.low);
      }
    }
  }
}

inline void RunOnHost(const ChannelTryJob& job) {
  for (std::uint32_t channel = 0; channel < job.hidden; ++channel) {
    for (int t = 0; t < LevelRule::kScaleTries; ++t) TryChannelScale(job, channel, t);
  }
}

inline void RunOnHost(const ChannelJob& job) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t group = 0; group < (job.values + kLaneGroup - 1) / kLaneGroup; ++group) {
      job.pass == CodingPass::kEncode ? EncodeChannelGroup(job, job.samples[s], group)
                                      : DecodeChannelGroup(job, job.samples[s], group);
    }
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_DITHER_LANES_H_
