// Tokens turned by reflectors as lanes of a GPU's block do it (lane_values.h): a tile of results,
// whose terms pass through fast memory kTurnTerms at a time. Sums have the order of
// low_rank_kernels.h. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_TURN_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_TURN_H_

#include "compression/device/jobs/turn_jobs.h"
#include "compression/device/lane_values.h"
#include "compression/simd/low_rank_kernels.h"

namespace shoal::compression {

// The blocks of TimesFactor.
static_assert(kTurnTerms == kTermsBlock);

struct TurnTile {
  float values[kTurnRows][kTurnTerms + 1];  // one more: rows begin in different banks
  float factor[kTurnTerms][kTurnColumns];
};
using TurnSums = float[kTurnSide][kTurnSide];

// Where value `h` of a turned token is; `row` counts the tokens of the job.
SHOAL_LANE float* TurnedAddress(const TurnJob& job, std::uint32_t row, std::uint32_t h) {
  if (h < job.rank) return job.leading + (std::size_t{row} * job.rank + h);
  return job.rest + (std::size_t{row} * (job.hidden - job.rank) + (h - job.rank));
}
SHOAL_LANE std::size_t WholeOffset(const TurnJob& job, std::uint32_t row, std::uint32_t h) {
  return std::size_t{row % job.tokens} * job.hidden + h;
}
// Value `h` of a token before this job.
SHOAL_LANE float ValueBefore(const TurnJob& job, std::uint32_t row, std::uint32_t h) {
  if (job.back) return *TurnedAddress(job, row, h);
  return job.samples[row / job.tokens].x[WholeOffset(job, row, h)];
}
SHOAL_LANE float* AddressAfter(const TurnJob& job, std::uint32_t row, std::uint32_t h) {
  if (!job.back) return TurnedAddress(job, row, h);
  return job.samples[row / job.tokens].values + WholeOffset(job, row, h);
}

// Lane `lane` loads its part of the terms from `term` on; zeros where there are none.
SHOAL_LANE void LoadTurnTile(const TurnJob& job, std::uint32_t first_row,
                             std::uint32_t first_column, std::uint32_t term, std::uint32_t lane,
                             TurnTile& tile) {
  const std::uint32_t terms = TurnTermsOf(job), rows = TurnRowsOf(job);
  SHOAL_UNROLL_BY(4)
  for (std::uint32_t i = lane; i < kTurnRows * kTurnTerms; i += kTurnLanes) {
    const std::uint32_t r = i / kTurnTerms, t = i % kTurnTerms;
    const std::uint32_t row = first_row + r, at = term + t;
    float value = 0;
    if (row < rows && at < terms) {
      value = job.pass == TurnPass::kProducts ? ValueBefore(job, row, at)
                                              : job.products[std::size_t{row} * job.rank + at];
    }
    tile.values[r][t] = value;
  }
  const std::uint32_t columns = TurnColumnsOf(job);
  SHOAL_UNROLL_BY(4)
  for (std::uint32_t i = lane; i < kTurnTerms * kTurnColumns; i += kTurnLanes) {
    const std::uint32_t t = i / kTurnColumns, c = i % kTurnColumns;
    const std::uint32_t at = term + t, column = first_column + c;
    tile.factor[t][c] =
        at < terms && column < columns ? job.factor[std::size_t{at} * job.stride + column] : 0.0F;
  }
}

// The first row of a lane, and its columns: c, c + 16, ...
SHOAL_LANE std::uint32_t TurnRowOfLane(std::uint32_t lane) {
  return lane / (kTurnColumns / kTurnSide) * kTurnSide;
}
SHOAL_LANE std::uint32_t TurnColumnOfLane(std::uint32_t lane, std::uint32_t c) {
  return lane % (kTurnColumns / kTurnSide) + c * (kTurnColumns / kTurnSide);
}

// Adds `count` terms to `sums` one by one.
SHOAL_LANE void AddTurnTerms(const TurnTile& tile, std::uint32_t count, std::uint32_t lane,
                             TurnSums& sums) {
  const std::uint32_t row = TurnRowOfLane(lane);
  for (std::uint32_t t = 0; t < count; ++t) {
    float factor[kTurnSide];
    SHOAL_UNROLL
    for (std::uint32_t c = 0; c < kTurnSide; ++c)
      factor[c] = tile.factor[t][TurnColumnOfLane(lane, c)];
    SHOAL_UNROLL
    for (std::uint32_t r = 0; r < kTurnSide; ++r) {
      const float value = tile.values[row + r][t];
      SHOAL_UNROLL
      for (std::uint32_t c = 0; c < kTurnSide; ++c) sums[r][c] = sums[r][c] + value * factor[c];
    }
  }
}

// A tile's terms from `term` on. Products are sums of the sums of kTurnTerms terms.
SHOAL_LANE void AddTurnTile(const TurnJob& job, const TurnTile& tile, std::uint32_t term,
                            std::uint32_t lane, TurnSums& total) {
  const std::uint32_t left = TurnTermsOf(job) - term;
  const std::uint32_t count = left < kTurnTerms ? left : kTurnTerms;
  if (job.pass == TurnPass::kDifferences) return AddTurnTerms(tile, count, lane, total);
  TurnSums sums = {};
  AddTurnTerms(tile, count, lane, sums);
  SHOAL_UNROLL
  for (std::uint32_t r = 0; r < kTurnSide; ++r) {
    SHOAL_UNROLL
    for (std::uint32_t c = 0; c < kTurnSide; ++c) total[r][c] = total[r][c] + sums[r][c];
  }
}

SHOAL_LANE void StoreTurnSums(const TurnJob& job, std::uint32_t first_row,
                              std::uint32_t first_column, std::uint32_t lane,
                              const TurnSums& total) {
  SHOAL_UNROLL
  for (std::uint32_t r = 0; r < kTurnSide; ++r) {
    const std::uint32_t row = first_row + TurnRowOfLane(lane) + r;
    SHOAL_UNROLL
    for (std::uint32_t c = 0; c < kTurnSide; ++c) {
      const std::uint32_t column = first_column + TurnColumnOfLane(lane, c);
      if (row >= TurnRowsOf(job) || column >= TurnColumnsOf(job)) continue;
      if (job.pass == TurnPass::kProducts) {
        job.products[std::size_t{row} * job.rank + column] = total[r][c];
      } else {
        *AddressAfter(job, row, column) = ValueBefore(job, row, column) - total[r][c];
      }
    }
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_TURN_H_
