// Dithered sections on a CUDA device (lane_dither.h).

#include "compression/device/codecs/lane_dither.h"
#include "compression/device/cuda_launch.cuh"

namespace shoal::compression {
namespace {

// Sixteen lanes per token.
__global__ void __launch_bounds__(kThreads) SumTokens(EnergyJob job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t token = blockIdx.x * (kThreads / kEnergyLanes) + threadIdx.x / kEnergyLanes;
  const std::uint32_t lane = threadIdx.x % kEnergyLanes;
  const bool active = token < job.tokens;
  double sum = active ? LaneEnergy(job, sample, token, lane) : 0;
  // A lane and its partner add the same two numbers, so both have the sum of both.
  for (std::uint32_t by = kEnergyLanes / 2; by > 0; by /= 2) {
    sum = sum + __shfl_xor_sync(~0U, sum, by);
  }
  if (active && lane == 0) *EnergyAddress(job, sample, token) = sum;
}

__global__ void __launch_bounds__(kThreads) CopyRows(LookJob job) {
  const std::uint32_t column = blockIdx.x * kThreads + threadIdx.x;
  if (column < job.width) CopyLooked(job, blockIdx.y, column);
}
__global__ void __launch_bounds__(kThreads) AddSquares(LookJob job) {
  const std::uint32_t channel = blockIdx.x * kThreads + threadIdx.x;
  if (channel < job.width) AddLooked(job, channel);
}

// A thread per Philox block; the lanes of a warp have blocks of one token.
template <CodingPass kPass>
__global__ void __launch_bounds__(kThreads) CodeTokens(DitherJob job, std::uint32_t warps) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t warp = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  const std::uint32_t token = warp / warps;
  const std::uint32_t block = warp % warps * kWarp + threadIdx.x % kWarp;
  if (token >= job.tokens || block >= DitherBlocksOf(job.hidden)) return;
  CodeBlock<kPass>(job, sample, token, block);
}

__global__ void __launch_bounds__(kThreads) CodeEscapes(EscapeJob job) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < job.escapes) CodeEscape(job, i);
}

std::uint32_t BlocksFor(std::uint64_t threads) {
  return static_cast<std::uint32_t>((threads + kThreads - 1) / kThreads);
}

// Calls launch(job, samples) for the samples of a job, as many at once as a grid takes.
template <typename Job, typename LaunchPart>
void OverSamples(Job job, const LaunchPart& launch) {
  for (std::uint32_t left = job.count; left > 0;) {
    job.count = std::min(left, kSamplesAtOnce);
    launch(job, job.count);
    left -= job.count;
    job.samples += job.count;
  }
}

}  // namespace

void Launch(const EnergyJob& job, cudaStream_t stream) {
  const std::uint32_t blocks = BlocksFor(std::uint64_t{job.tokens} * kEnergyLanes);
  OverSamples(job, [&](const EnergyJob& part, std::uint32_t samples) {
    SumTokens<<<dim3(blocks, samples), kThreads, 0, stream>>>(part);
  });
}

void Launch(const LookJob& job, cudaStream_t stream) {
  if (job.count == 0 || job.width == 0) return;
  const std::uint32_t blocks = BlocksFor(job.width);
  if (job.pass == LookPass::kRows) {
    CopyRows<<<dim3(blocks, job.count), kThreads, 0, stream>>>(job);  // a few hundred rows
  } else {
    AddSquares<<<blocks, kThreads, 0, stream>>>(job);
  }
}

void Launch(const DitherJob& job, cudaStream_t stream) {
  const std::uint32_t warps = (DitherBlocksOf(job.hidden) + kWarp - 1) / kWarp;  // of a token
  const std::uint32_t blocks = BlocksFor(std::uint64_t{job.tokens} * warps * kWarp);
  OverSamples(job, [&](const DitherJob& part, std::uint32_t samples) {
    const dim3 grid(blocks, samples);
    if (job.pass == CodingPass::kEncode) {
      CodeTokens<CodingPass::kEncode><<<grid, kThreads, 0, stream>>>(part, warps);
    } else {
      CodeTokens<CodingPass::kDecode><<<grid, kThreads, 0, stream>>>(part, warps);
    }
  });
}

void Launch(const EscapeJob& job, cudaStream_t stream) {
  if (job.escapes == 0) return;
  CodeEscapes<<<BlocksFor(job.escapes), kThreads, 0, stream>>>(job);
}

}  // namespace shoal::compression
