// What a device is asked to do with dithered sections (bucket_jobs.h says what a job is). Internal
// to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_DITHER_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_DITHER_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

// The sums of squares of all tokens, as SumOfSquares (dither_kernels.h) gives them.
struct EnergyJob {
  std::uint32_t hidden = 0;
  std::uint32_t tokens = 0;  // of a sample
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  double* energies = nullptr;  // of the whole section
};

// What an encoder looks at of a few tokens.
enum class LookPass : std::uint8_t {
  kRows,     // their first `width` values, one row after the other
  kSquares,  // AddScaledSquares over them in order: a sum per channel
};
struct LookRow {
  std::uint32_t sample = 0;  // of this job
  std::uint32_t token = 0;   // of the sample
  float scale = 0;           // of kSquares
};
struct LookJob {
  LookPass pass = LookPass::kRows;
  std::uint32_t hidden = 0;
  std::uint32_t width = 0;  // kRows: below hidden; kSquares: hidden
  std::uint32_t count = 0;  // look_rows
  const LookRow* look_rows = nullptr;
  const DeviceSample* samples = nullptr;
  float* out = nullptr;
};

// What a token's cells are.
enum class DitherKind : std::uint8_t { kZeros = 0, kNarrow = 1, kWide = 2 };

// Values to cells, and cells to values, escapes aside.
struct DitherJob {
  CodingPass pass = CodingPass::kEncode;
  std::uint32_t key[2] = {};  // MessageKeyWords
  bool drawn = true;          // whether there is a dither, else words of zero
  float step = 0;
  float inverse_step = 0;  // 1 / step
  std::uint32_t hidden = 0;
  std::uint32_t tokens = 0;  // of a sample
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  const DitherKind* kinds = nullptr;  // of the whole section's tokens
  std::uint8_t* cells = nullptr;      // of the whole section
};

// Encode: the codes of values that have no symbol. Decode: their values.
struct DitherEscape {
  std::uint32_t sample = 0;    // of the job
  std::uint32_t position = 0;  // in the sample
  std::int32_t code = 0;
};
struct EscapeJob {
  DitherJob dither;  // kinds and cells are not used
  std::uint32_t escapes = 0;
  DitherEscape* list = nullptr;
};

// Lanes that share a token's sum of squares.
inline constexpr std::uint32_t kEnergyLanes = 16;

// Philox blocks that give a token's dither, 8 values each.
constexpr std::uint32_t DitherBlocksOf(std::uint32_t hidden) { return (hidden + 127) / 128 * 16; }

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_DITHER_JOBS_H_
