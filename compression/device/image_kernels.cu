// m images on a CUDA device (lane_images.h).

#include "compression/device/cuda_launch.cuh"
#include "compression/device/lane_images.h"

namespace shoal::compression {
namespace {

// kMeasure: adjacent lanes have adjacent columns.
__global__ void __launch_bounds__(kThreads) MeasureColumns(ImageJob job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t lane = blockIdx.x * kThreads + threadIdx.x;
  Extremes extremes;
  if (lane < LanesOfColumns(job)) {
    const std::uint32_t most = MeasureColumn(job, sample, lane, extremes);
    std::uint32_t* columns = job.columns + std::size_t{blockIdx.y} * job.hidden;
    RaiseAtomically(columns[ColumnOfLane(job, lane)], most);
  }
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

template <ImagePass kPass>
struct ImageGroups {
  __device__ static void Run(const ImageJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    if constexpr (kPass == ImagePass::kCheck) CheckImageGroup(job, sample, group, extremes);
    if constexpr (kPass == ImagePass::kSubtract) SubtractGroup(job, sample, group, extremes);
    if constexpr (kPass == ImagePass::kStore) StoreImageGroup(job, sample, group, extremes);
    if constexpr (kPass == ImagePass::kLoad) LoadImageGroup(job, sample, group);
    if constexpr (kPass == ImagePass::kAdvance) AdvanceImageGroup(job, sample, group, extremes);
    if constexpr (kPass == ImagePass::kCode) {
      CodeImageGroup(job, sample, group, job.columns + std::size_t{blockIdx.y} * job.hidden);
    }
  }
};

template <ImagePass kPass>
void LaunchPass(const ImageJob& job, cudaStream_t stream) {
  LaunchGroups<ImageGroups<kPass>>(job, stream);
}

}  // namespace

void Launch(const ImageJob& job, cudaStream_t stream) {
  switch (job.pass) {
    case ImagePass::kCheck: return LaunchPass<ImagePass::kCheck>(job, stream);
    case ImagePass::kSubtract: return LaunchPass<ImagePass::kSubtract>(job, stream);
    case ImagePass::kStore: return LaunchPass<ImagePass::kStore>(job, stream);
    case ImagePass::kLoad: return LaunchPass<ImagePass::kLoad>(job, stream);
    case ImagePass::kAdvance: return LaunchPass<ImagePass::kAdvance>(job, stream);
    case ImagePass::kMeasure:
      return InParts(job, LanesOfColumns(job), [&](const ImageJob& part, dim3 grid) {
        MeasureColumns<<<grid, kThreads, 0, stream>>>(part);
      });
    case ImagePass::kCode: return LaunchPass<ImagePass::kCode>(job, stream);
  }
}

}  // namespace shoal::compression
