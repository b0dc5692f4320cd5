// The energy (sum of squares) up to which a token counts as one of the others.
//
// A first token of a language model may hold thousands of times the energy of the others: what is
// chosen for all of a message should not be chosen by it. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_TYPICAL_ENERGY_H_
#define SHOAL_COMPRESSION_API_TYPICAL_ENERGY_H_

#include <span>

namespace shoal::compression {

// Over the median.
inline constexpr double kTypicalEnergyMost = 16;

// kTypicalEnergyMost times the median of the tokens' energies, of which there is one at least;
// infinity where the median is 0.
double TypicalEnergyMost(std::span<const double> energies);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_TYPICAL_ENERGY_H_
