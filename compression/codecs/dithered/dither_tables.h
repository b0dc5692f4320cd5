// Classes of tokens by energy, and the probability tables of their codes.
//
// A token whose rms is r steps has class 0 if it is all zero, else floor(log2(r^2)) + 11, kept
// within 1 to 23: half an octave of r each. Below two steps a class is narrow, above it is wide
// (dither_kernels.h).
//
// A folded code c under a dither of magnitude a stands for the point |c - a| of the message's own
// density, widened by one step. That density, sampled on a grid of 1/8 step (wide: 1/2), is all
// that is sent: it gives the table of every quarter of the dither's range. Knowing the dither,
// which both ends do, saves 0.1 to 0.2 bit a value below one step (Zamir and Feder, "On universal
// quantization by randomized uniform/lattice quantizers", 1992: the rate is that of the code given
// the dither).
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_TABLES_H_
#define SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/entropy/bit_stream.h"
#include "compression/entropy/rans.h"

namespace shoal::compression {

inline constexpr std::size_t kEnergyClasses = 24;
inline constexpr int kEnergyClassBits = 5;
inline constexpr std::uint8_t kNarrowClassMax = 12;
inline constexpr std::size_t kNarrowTables = 4;

inline bool IsWideClass(std::size_t energy_class) { return energy_class > kNarrowClassMax; }
// The class of a token of `hidden` values whose squares sum to `energy`.
std::uint8_t EnergyClassOf(double energy, std::size_t hidden, float step);

// The density of a class: levels (rans_table.h) at `count` points of the grid, 0 outward. Only
// every 2^spacing-th is sent, the others lie on the line between two of those.
struct DensityTable {
  std::size_t count = 0;
  int spacing = 0;                        // 0 .. 3
  std::array<std::uint8_t, 256> knots{};  // the levels that are sent
  std::array<std::uint8_t, 256> levels{};
};

// Gives classes with few values to their neighbour: a table would cost more than it saves.
void MergeSmallClasses(std::size_t hidden, std::span<std::uint8_t> classes);

// The table with which the counted cells and the table itself take about the fewest bits.
DensityTable FitDensity(std::span<const std::uint32_t, 256> counts, bool wide);

void WriteDensity(const DensityTable& table, BitWriter* writer);
// False if the bits do not give a table of such a class.
[[nodiscard]] bool ReadDensity(BitReader* reader, bool wide, DensityTable* table);

// The tables of a class: one of 256 symbols, or one of 64 for each quarter of the dither's
// magnitude, so that a cell is its own index. Frequencies of cells that cannot be coded are 0; each
// table's symbol 0, the escape, has 1.
std::array<std::uint16_t, 256> CellFrequencies(const DensityTable& table, bool wide);

// Lays the tables out for the coder; `slots` has room for kNarrowTables of them.
void SetEncodeTable(std::span<const std::uint16_t, 256> frequencies, bool wide,
                    RansEncodeTable* table);
void FillClassSlots(std::span<const std::uint16_t, 256> frequencies, bool wide,
                    std::uint32_t* slots);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_TABLES_H_
