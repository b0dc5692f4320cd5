#include "compression/api/typical_energy.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace shoal::compression {

double TypicalEnergyMost(std::span<const double> energies) {
  std::vector<double> sorted(energies.begin(), energies.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle > 0 ? kTypicalEnergyMost * *middle : std::numeric_limits<double>::infinity();
}

}  // namespace shoal::compression
