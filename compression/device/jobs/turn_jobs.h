// What a device is asked to do to turn tokens by reflectors (klt/reflectors.h; bucket_jobs.h says
// what a job is). Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_TURN_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_TURN_JOBS_H_

#include <cstdint>

#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

// y = x - (x W) Y^T in two passes, or, `back`, x = y - (y Y) W^T. Turned tokens y lie in two parts,
// their first `rank` positions and the others; whole ones, x, are the samples' x or values.
enum class TurnPass : std::uint8_t { kProducts, kDifferences };
struct TurnJob {
  TurnPass pass = TurnPass::kProducts;
  bool back = false;
  std::uint32_t rank = 0;  // 1 to hidden - 1
  std::uint32_t hidden = 0;
  std::uint32_t tokens = 0;  // of a sample
  std::uint32_t count = 0;   // samples of this job; tokens * count is below 2^31
  const DeviceSample* samples = nullptr;
  const float* factor = nullptr;  // kProducts: W or Y; kDifferences: Y^T or W^T
  std::uint32_t stride = 0;       // values from one row of `factor` to the next
  float* products = nullptr;      // `rank` values per token of the job's samples, in order
  float* leading = nullptr;       // the same
  float* rest = nullptr;          // hidden - rank values per token
};

// A tile of results: lanes have kTurnSide x kTurnSide of them each.
inline constexpr std::uint32_t kTurnRows = 32;
inline constexpr std::uint32_t kTurnColumns = 64;
inline constexpr std::uint32_t kTurnTerms = 64;  // that are in fast memory at a time
inline constexpr std::uint32_t kTurnSide = 4;
inline constexpr std::uint32_t kTurnLanes = kTurnRows * kTurnColumns / (kTurnSide * kTurnSide);

constexpr std::uint32_t TurnRowsOf(const TurnJob& job) { return job.tokens * job.count; }
constexpr std::uint32_t TurnColumnsOf(const TurnJob& job) {
  return job.pass == TurnPass::kProducts ? job.rank : job.hidden;
}
constexpr std::uint32_t TurnTermsOf(const TurnJob& job) {
  return job.pass == TurnPass::kProducts ? job.hidden : job.rank;
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_TURN_JOBS_H_
