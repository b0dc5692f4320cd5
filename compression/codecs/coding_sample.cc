#include "compression/codecs/coding_sample.h"

#include <algorithm>

#include "compression/simd/kernels.h"

namespace shoal::compression {

void CountBlock(std::size_t sample, std::size_t block, std::span<const float> x,
                const float* decoded, const float* delta, CodingStats* stats) {
  if (!Counted(sample, block)) return;
  const double values = Squares(x.data(), x.size());
  stats->values += values;
  stats->errors += SquaredDifferences(x.data(), decoded, x.size());
  if (delta == nullptr) return;
  stats->based += values;
  stats->deltas += Squares(delta, x.size());
}

void CountSample(std::size_t sample, std::span<const float> x, const float* decoded,
                 const float* delta, CodingStats* stats) {
  CodingStats one;
  for (std::size_t first = 0; first < x.size(); first += kStatsBlock) {
    CountBlock(sample, first / kStatsBlock,
               x.subspan(first, std::min(kStatsBlock, x.size() - first)), decoded + first,
               delta == nullptr ? nullptr : delta + first, &one);
  }
  stats->Add(one);
}

}  // namespace shoal::compression
