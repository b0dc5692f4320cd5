// DeviceQueue on a CUDA device. What a lane does is in lane_units.h, lane_groups.h and lane_raw.h;
// here are the kernels around it: which lane does what, and the largest over lanes.
//
// A unit of buckets in one pass is shared by a tile of lanes, a power of two, so that several small
// ones fill a warp. Everything else is one thread per group of 8 values. blockIdx.y counts samples.

#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <utility>

#include "compression/device_queue.h"
#include "compression/lane_groups.h"
#include "compression/lane_raw.h"
#include "compression/lane_units.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kWarp = 32;
constexpr std::uint32_t kSamplesAtOnce = 32768;  // of a launch; blockIdx.y is below 2^16
constexpr std::size_t kSmallest = 256;

std::string Reason(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error);
}

// ---- over the lanes of a warp ----------------------------------------------------------------

__device__ std::uint32_t LargestOfWarp(std::uint32_t value) {
  for (int by = kWarp / 2; by > 0; by /= 2) Raise(value, __shfl_xor_sync(~0U, value, by));
  return value;
}

__device__ void RaiseAtomically(std::uint32_t& most, std::uint32_t value) {
  if (value > __ldcg(&most)) atomicMax(&most, value);
}

// Every lane of the warp takes part.
__device__ void ReportExtremes(const Extremes& seen, Extremes& all) {
  const Extremes most{LargestOfWarp(seen.x), LargestOfWarp(seen.m), LargestOfWarp(seen.sum)};
  if (threadIdx.x % kWarp != 0) return;
  RaiseAtomically(all.x, most.x);
  RaiseAtomically(all.m, most.m);
  RaiseAtomically(all.sum, most.sum);
}

__device__ LaneRange RangeOfTile(LaneRange range, std::uint32_t lanes, bool bounds) {
  for (std::uint32_t by = lanes / 2; by > 0; by /= 2) {
    LaneRange other;
    other.most = __shfl_xor_sync(~0U, range.most, by);
    if (bounds) {
      other.low = __shfl_xor_sync(~0U, range.low, by);
      other.high = __shfl_xor_sync(~0U, range.high, by);
    }
    range.Add(other);
  }
  return range;
}

__device__ ScaleTry BestOfWarp(ScaleTry tried) {
  for (std::uint32_t by = kWarp / 2; by > 0; by /= 2) {
    ScaleTry other;
    other.error = __shfl_xor_sync(~0U, tried.error, by);
    other.t = __shfl_xor_sync(~0U, tried.t, by);
    other.scale = static_cast<std::uint16_t>(
        __shfl_xor_sync(~0U, static_cast<std::uint32_t>(tried.scale), by));
    tried.Add(other);
  }
  return tried;
}

// ---- kernels ---------------------------------------------------------------------------------

// One pass: reads x (and m) once, writes scale, codes (and next m).
template <int kBuckets, int kGroups, bool kDelta>
__global__ void __launch_bounds__(kThreads) EncodeInRegisters(BucketJob job, std::uint32_t lanes) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t unit = thread / lanes;
  const std::uint32_t lane = thread % lanes;
  const bool active = unit < UnitsOf(job);
  Extremes extremes;
  LaneState<kGroups, kDelta> state;
  UnitRange<kBuckets> range;
  if (active) range = LoadLane<kBuckets>(job, sample, unit, lane, lanes, state, extremes);
  for (LaneRange& of : range.of) {
    of = RangeOfTile(of, lanes, job.rule.levels() == Levels::kAffine);
  }
  if (active) CodeLane(job, sample, unit, lane, lanes, range, state, extremes);
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

// First of two passes: a warp per bucket finds its scale.
__global__ void __launch_bounds__(kThreads) FindScales(BucketJob job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t bucket = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const std::uint32_t lane = threadIdx.x % kWarp;
  if (bucket >= job.buckets) return;  // whole warps
  Extremes extremes;
  LaneRange range = RangeOfLane(job, sample, bucket, lane, kWarp, extremes);
  range = RangeOfTile(range, kWarp, job.rule.levels() == Levels::kAffine);
  ScaleBits scale = RangeScale(job.rule, range);
  if (job.rule.scale() == ScaleRule::kOptimal) {
    scale.first = BestOfWarp(TryScale(job, sample, bucket, scale.first, lane)).scale;
  }
  if (lane == 0) StoreScale(job, sample.index, bucket, scale);
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

// The passes of a thread per group of 8 values.
template <bool kDelta>
struct EncodeGroups {
  __device__ static void Run(const BucketJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    EncodeGroup<kDelta>(job, sample, group, extremes);
  }
};
template <bool kDelta>
struct DecodeGroups {
  __device__ static void Run(const BucketJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    DecodeGroup<kDelta>(job, sample, group, extremes);
  }
};
struct EncodeRawGroups {
  __device__ static void Run(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    EncodeRawGroup(job, sample, group, extremes);
  }
};
struct DecodeRawGroups {
  __device__ static void Run(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    DecodeRawGroup(job, sample, group, extremes);
  }
};
struct ToImageGroups {
  __device__ static void Run(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    ToImageGroup(job, sample, group, extremes);
  }
};
struct FromImageGroups {
  __device__ static void Run(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes&) {
    FromImageGroup(job, sample, group);
  }
};

template <typename Pass, typename Job>
__global__ void __launch_bounds__(kThreads) OverGroups(Job job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  Extremes extremes;
  if (group < (job.values + kLaneGroup - 1) / kLaneGroup) Pass::Run(job, sample, group, extremes);
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

// ---- launches --------------------------------------------------------------------------------

// Calls launch(job, grid) for the samples of a job, as many at once as a grid takes.
template <typename Job, typename Launch>
void InParts(Job job, std::uint64_t threads, const Launch& launch) {
  const auto blocks = static_cast<std::uint32_t>((threads + kThreads - 1) / kThreads);
  for (std::uint32_t left = job.count; left > 0 && blocks > 0;) {
    job.count = std::min(left, kSamplesAtOnce);
    launch(job, dim3(blocks, job.count));
    left -= job.count;
    job.samples += job.count;
    job.extremes += job.count;
  }
}

template <typename Pass, typename Job>
void LaunchGroups(const Job& job, cudaStream_t stream) {
  InParts(
      job, (std::uint64_t{job.values} + kLaneGroup - 1) / kLaneGroup,
      [&](const Job& part, dim3 grid) { OverGroups<Pass><<<grid, kThreads, 0, stream>>>(part); });
}

template <int kBuckets, int kGroups>
void LaunchInRegisters(const BucketJob& job, cudaStream_t stream) {
  const std::uint32_t lanes = LanesOfUnit(job.bucket);
  InParts(job, std::uint64_t{UnitsOf(job)} * lanes, [&](const BucketJob& part, dim3 grid) {
    if (job.delta) {
      EncodeInRegisters<kBuckets, kGroups, true><<<grid, kThreads, 0, stream>>>(part, lanes);
    } else {
      EncodeInRegisters<kBuckets, kGroups, false><<<grid, kThreads, 0, stream>>>(part, lanes);
    }
  });
}

template <int kBuckets>
void LaunchOnePass(const BucketJob& job, cudaStream_t stream) {
  const std::uint32_t groups = GroupsOfLane(job.bucket);
  if (groups <= 1) return LaunchInRegisters<kBuckets, 1>(job, stream);
  if (groups <= 2) return LaunchInRegisters<kBuckets, 2>(job, stream);
  if (groups <= 4) return LaunchInRegisters<kBuckets, 4>(job, stream);
  if constexpr (kBuckets == 1) {
    if (groups <= 8) return LaunchInRegisters<kBuckets, 8>(job, stream);
    LaunchInRegisters<kBuckets, 16>(job, stream);
  }
}

class CudaQueue : public DeviceQueue {
 public:
  void Use(void* stream) override { stream_ = static_cast<cudaStream_t>(stream); }

  Result<std::byte*> Allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, std::max(bytes, kSmallest));
    if (error == cudaSuccess) return static_cast<std::byte*>(memory);
    (void)cudaGetLastError();  // else the next launch would report it again
    return ResourceExhausted("device codec: " + std::to_string(bytes) +
                             " bytes of device memory could not be had (" + Reason(error) +
                             "); use smaller micro-batches or the codec on the CPU");
  }
  void Free(std::byte* memory) override { Note(cudaFree(memory)); }

  void ToDevice(std::byte* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
  }
  void ToHost(void* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
  }
  void Zero(std::byte* at, std::size_t bytes) override {
    if (bytes > 0) Note(cudaMemsetAsync(at, 0, bytes, stream_));
  }

  void EncodeBuckets(const BucketJob& job) override {
    if (!OnePassJob(job)) {
      InParts(job, std::uint64_t{job.buckets} * kWarp, [&](const BucketJob& part, dim3 grid) {
        FindScales<<<grid, kThreads, 0, stream_>>>(part);
      });
      if (job.delta) {
        LaunchGroups<EncodeGroups<true>>(job, stream_);
      } else {
        LaunchGroups<EncodeGroups<false>>(job, stream_);
      }
      return Note(cudaGetLastError());
    }
    if (BucketsOfUnit(job.bucket) == 1) {
      LaunchOnePass<1>(job, stream_);
    } else {
      LaunchOnePass<2>(job, stream_);
    }
    Note(cudaGetLastError());
  }

  void DecodeBuckets(const BucketJob& job) override {
    if (job.delta) {
      LaunchGroups<DecodeGroups<true>>(job, stream_);
    } else {
      LaunchGroups<DecodeGroups<false>>(job, stream_);
    }
    Note(cudaGetLastError());
  }
  void EncodeRaw(const RawJob& job) override { Over<EncodeRawGroups>(job); }
  void DecodeRaw(const RawJob& job) override { Over<DecodeRawGroups>(job); }
  void ToImages(const RawJob& job) override { Over<ToImageGroups>(job); }
  void FromImages(const RawJob& job) override { Over<FromImageGroups>(job); }

  Status Wait() override {
    Note(cudaStreamSynchronize(stream_));
    const cudaError_t error = std::exchange(error_, cudaSuccess);
    if (error == cudaSuccess) return Status::Ok();
    return Internal("device codec: the CUDA device failed (" + Reason(error) +
                    "); restart the program, or use the codec on the CPU");
  }

 private:
  template <typename Pass>
  void Over(const RawJob& job) {
    LaunchGroups<Pass>(job, stream_);
    Note(cudaGetLastError());
  }
  // Keeps the first error for Wait.
  void Note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  cudaStream_t stream_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

Result<std::unique_ptr<DeviceQueue>> NewCudaQueue() {
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) error = cudaErrorNoDevice;
  if (error == cudaSuccess) {
    // A program without code for this device fails here and not at the first message.
    cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, FindScales);
  }
  if (error == cudaSuccess) return std::unique_ptr<DeviceQueue>(std::make_unique<CudaQueue>());
  (void)cudaGetLastError();
  return Unavailable("device codec: there is no usable CUDA device (" + Reason(error) +
                     "); check the driver with nvidia-smi, or use the codec on the CPU");
}

}  // namespace shoal::compression
