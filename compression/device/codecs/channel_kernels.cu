// Sections with one scale per channel on a CUDA device (lane_channel.h).

#include "compression/device/codecs/lane_channel.h"
#include "compression/device/cuda_launch.cuh"

namespace shoal::compression {
namespace {

// A thread per channel and kChannelRows tokens. Largest of unsigned numbers: in any order.
__global__ void __launch_bounds__(kThreads) FindRanges(ChannelRangeJob job, std::uint32_t blocks) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t channel = blockIdx.x % blocks * kThreads + threadIdx.x;
  if (channel >= job.hidden) return;
  const ChannelRange range = RangeOfRows(job, sample, blockIdx.x / blocks * kChannelRows, channel);
  ChannelRange& all = job.ranges[channel];
  RaiseAtomically(all.most, range.most);
  RaiseAtomically(all.high, range.high);
  RaiseAtomically(all.low, range.low);
}

__global__ void __launch_bounds__(kThreads) TryScales(ChannelTryJob job) {
  const std::uint32_t channel = blockIdx.x * kThreads + threadIdx.x;
  if (channel < job.hidden) TryChannelScale(job, channel, static_cast<int>(blockIdx.y));
}

struct EncodeChannelGroups {
  __device__ static void Run(const ChannelJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes&) {
    EncodeChannelGroup(job, sample, group);
  }
};
struct DecodeChannelGroups {
  __device__ static void Run(const ChannelJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes&) {
    DecodeChannelGroup(job, sample, group);
  }
};

}  // namespace

void Launch(const ChannelRangeJob& job, cudaStream_t stream) {
  const std::uint32_t blocks = (job.hidden + kThreads - 1) / kThreads;
  const std::uint32_t chunks = (job.tokens + kChannelRows - 1) / kChannelRows;
  ChannelRangeJob part = job;
  for (std::uint32_t left = job.count; left > 0; part.samples += part.count) {
    part.count = std::min(left, kSamplesAtOnce);
    left -= part.count;
    FindRanges<<<dim3(blocks * chunks, part.count), kThreads, 0, stream>>>(part, blocks);
  }
}

void Launch(const ChannelTryJob& job, cudaStream_t stream) {
  const dim3 grid((job.hidden + kThreads - 1) / kThreads, LevelRule::kScaleTries);
  TryScales<<<grid, kThreads, 0, stream>>>(job);
}

void Launch(const ChannelJob& job, cudaStream_t stream) {
  if (job.pass == CodingPass::kEncode) return LaunchGroups<EncodeChannelGroups>(job, stream);
  LaunchGroups<DecodeChannelGroups>(job, stream);
}

}  // namespace shoal::compression
