#include "compression/api/token_changes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shoal::compression {

void TokenChanges::Count(double change, double values) {
  if (change == 0 && values == 0) return;
  // Half an octave of the square is a quarter of the ratio's.
  double square = std::exp2(2.0 * kMost + 1);
  if (values > 0 && change / values < square) square = change / values;  // no NaN passes
  const double cell = std::floor(2 * (std::log2(square) - 2 * kLeast)) + 1;
  cells_[static_cast<std::size_t>(std::clamp(cell, 0.0, double{kCells - 1}))] += 1;
}

void TokenChanges::Add(const TokenChanges& other) {
  for (std::size_t i = 0; i < kCells; ++i) cells_[i] += other.cells_[i];
}

TokenChanges TokenChanges::Since(const TokenChanges& before) const {
  TokenChanges since;
  for (std::size_t i = 0; i < kCells; ++i) since.cells_[i] = cells_[i] - before.cells_[i];
  return since;
}

std::uint64_t TokenChanges::tokens() const {
  return std::accumulate(cells_.begin(), cells_.end(), std::uint64_t{0});
}

double TokenChanges::Quantile(double q) const {
  const std::uint64_t all = tokens();
  if (all == 0) return 0;
  const double rank = q * static_cast<double>(all);
  double below = 0;
  std::size_t cell = 0;
  while (cell + 1 < kCells && below + static_cast<double>(cells_[cell]) < rank) {
    below += static_cast<double>(cells_[cell++]);
  }
  if (cell == 0) return 0;
  const double within = cells_[cell] == 0 ? 0 : (rank - below) / static_cast<double>(cells_[cell]);
  return std::exp2(kLeast + (static_cast<double>(cell) - 1 + std::clamp(within, 0.0, 1.0)) / 4);
}

}  // namespace shoal::compression
