// What a run with synthetic stages reads: a model without weights, and data.

#ifndef SHOAL_BENCH_BENCH_FILES_H_
#define SHOAL_BENCH_BENCH_FILES_H_

#include <cstdint>
#include <string>

#include "common/status.h"

namespace shoal::bench {

struct BenchFiles {
  std::string directory;  // exists; gets config.json and data.shoal
  std::uint32_t stages = 0, hidden = 0;
  std::uint64_t rows = 0;  // of the data; a run visits all in each epoch
  std::uint32_t row_tokens = 0;
};

// Blocks on disk.
Status WriteBenchFiles(const BenchFiles& files);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_FILES_H_
