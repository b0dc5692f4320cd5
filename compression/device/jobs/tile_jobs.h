// What a device is asked to do with sections of tiles (bucket_jobs.h says what a job is). Internal
// to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_TILE_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_TILE_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/device/jobs/bucket_jobs.h"

namespace shoal::compression {

// A section of tiles (tiles_codec.h): bucket codes of rotated values, without m; `bucket` is the
// tile. With `widths` every tile has its own (adaptive_tiles.h) and the rule's bits are their
// average; encoding is then two jobs, for the widths depend on the ranges of all tiles.
struct TileJob : BucketJob {
  float factor = 1;  // TileFactor to encode, TileBackFactor to decode
  // Encoding, the first of two jobs: makes the scales and the range of every tile of the section.
  float* ranges = nullptr;
  // 32 tiles a word from the lowest bits on, 2 bits each: how far above least_width.
  const std::uint64_t* widths = nullptr;
  // The sum of the widths of all tiles in front of each word's.
  const std::uint64_t* starts = nullptr;
  int least_width = 0;
};

inline constexpr std::uint32_t kTilesOfWord = 32;

// Lanes that share a tile, a power of two; each has 8 adjacent values. Smaller tiles share a lane.
constexpr std::uint32_t LanesOfTile(std::uint32_t tile) { return tile < 8 ? 1 : tile / 8; }

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_TILE_JOBS_H_
