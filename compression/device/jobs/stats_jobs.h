// What a device is asked to do for CodingStats (bucket_jobs.h says what a job is). Internal to
// compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_STATS_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_STATS_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

// Sums of squares of a block: of each lane's values in their order, then of the lanes in theirs, as
// on the CPU.
struct LaneSums {
  double values = 0;
  double errors = 0;
};
// Lane l of a block has its values l, l + 8, l + 16, ...
inline constexpr std::uint32_t kStatsLanes = 8;

// Of the samples' x and of x - `values` (x - next_m, 16 bits, where null).
struct StatsJob {
  std::uint32_t hidden = 1;  // of m
  std::uint32_t block = 0;   // values
  std::uint32_t share = 1;   // block b of sample i counts if i + b is a multiple of it
  std::uint32_t blocks = 0;  // that can count in a sample
  std::uint32_t values = 0;  // of a sample, below 2^31
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  LaneSums* sums = nullptr;      // one per counted block, `blocks` per sample
  Extremes* extremes = nullptr;  // unused
};

// The squares of a token and of its change, added up as those of a block.
struct TokenSums {
  double values = 0;
  double change = 0;
};

// Of every token's x and x - m; 0 in samples without m.
struct TokenJob {
  std::uint8_t bits = 16;    // of a value in m
  std::uint32_t hidden = 1;  // values of a token
  std::uint32_t tokens = 0;  // of a sample
  std::uint32_t values = 0;  // of a sample, below 2^31
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  TokenSums* sums = nullptr;     // one per token, `tokens` per sample
  Extremes* extremes = nullptr;  // unused
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_STATS_JOBS_H_
