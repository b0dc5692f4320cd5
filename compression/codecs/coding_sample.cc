#include "compression/codecs/coding_sample.h"

#include <algorithm>

#include "compression/simd/kernels.h"

namespace shoal::compression {

void CountErrors(std::size_t sample, std::span<const float> x, const float* decoded,
                 CodingStats* stats) {
  CodingStats one;
  for (std::size_t first = 0; first < x.size(); first += kStatsBlock) {
    if (!Counted(sample, first / kStatsBlock)) continue;
    const std::size_t count = std::min(kStatsBlock, x.size() - first);
    one.values += Squares(x.data() + first, count);
    one.errors += SquaredDifferences(x.data() + first, decoded + first, count);
  }
  stats->Add(one);
}

void TokenCounter::Add(const float* x, const float* delta, std::size_t count) {
  for (std::size_t first = 0; first < count;) {
    const std::size_t run = std::min(hidden_ - seen_, count - first);
    values_ += RoughSquares(x + first, run);
    change_ += RoughSquares(delta + first, run);
    seen_ += run;
    first += run;
    if (seen_ < hidden_) return;
    changes_->Count(change_, values_);
    seen_ = 0;
    values_ = change_ = 0;
  }
}

}  // namespace shoal::compression
