// Tokens turned by reflectors on a CUDA device (lane_turn.h).

#include "compression/device/codecs/lane_turn.h"
#include "compression/device/cuda_launch.cuh"

namespace shoal::compression {
namespace {

// A block per tile of results.
__global__ void __launch_bounds__(kTurnLanes) TurnTiles(TurnJob job) {
  __shared__ TurnTile tile;
  const std::uint32_t row = blockIdx.x * kTurnRows, column = blockIdx.y * kTurnColumns;
  TurnSums total = {};
  for (std::uint32_t term = 0; term < TurnTermsOf(job); term += kTurnTerms) {
    __syncthreads();
    LoadTurnTile(job, row, column, term, threadIdx.x, tile);
    __syncthreads();
    AddTurnTile(job, tile, term, threadIdx.x, total);
  }
  StoreTurnSums(job, row, column, threadIdx.x, total);
}

}  // namespace

void Launch(const TurnJob& job, cudaStream_t stream) {
  if (job.count == 0) return;
  const dim3 grid((TurnRowsOf(job) + kTurnRows - 1) / kTurnRows,
                  (TurnColumnsOf(job) + kTurnColumns - 1) / kTurnColumns);
  TurnTiles<<<grid, kTurnLanes, 0, stream>>>(job);
}

}  // namespace shoal::compression
