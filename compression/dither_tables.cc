#include "compression/dither_tables.h"

#include <algorithm>
#include <cmath>

#include "compression/dither_kernels.h"
#include "compression/rans_table.h"

namespace shoal::compression {
namespace {

constexpr int kClassOffset = 11;
constexpr int kCountBits = 8;
// Points with fewer counts are pooled with their neighbours, at most this far.
constexpr std::uint64_t kEnoughCounts = 32;
constexpr std::size_t kPoolMax = 4;
// What a point of the table costs, and what an escape costs beyond a coded symbol, in bits.
constexpr std::uint64_t kPointBits = 2;
constexpr std::uint64_t kEscapeBits = 18;

// One kind of class: how its cells lie on the grid.
struct Grid {
  explicit Grid(bool wide)
      : tables(wide ? 1 : static_cast<int>(kNarrowTables)),
        symbols(256 / tables),
        most(wide ? kWideMost : kNarrowMost) {}

  int TableOf(int cell) const { return cell / symbols; }
  bool IsEscape(int cell) const { return cell % symbols == 0; }
  // The place of a cell's point: |code - a| with a in the middle of its quarter.
  std::size_t PlaceOf(int cell) const {
    const int code = cell % symbols - most - 1;
    const int at = 2 * tables * code;
    return static_cast<std::size_t>(code > 0 ? at - 1 - TableOf(cell) : TableOf(cell) - at);
  }
  // Points needed for each table to have one.
  std::size_t PlacesMin() const { return static_cast<std::size_t>(tables); }
  std::size_t PlacesMax() const { return static_cast<std::size_t>(2 * tables * most + tables); }

  int tables;
  int symbols;
  int most;
};

// Counts and the chances to be counted, by place.
struct Tally {
  std::array<std::uint64_t, 256> hits{};
  std::array<std::uint64_t, 256> tries{};
};

Tally TallyOf(std::span<const std::uint32_t, 256> counts, const Grid& grid) {
  Tally tally;
  std::array<std::uint64_t, kNarrowTables> totals{};
  for (int cell = 0; cell < 256; ++cell) {
    const auto c = static_cast<std::size_t>(cell);
    totals[static_cast<std::size_t>(grid.TableOf(cell))] += counts[c];
    if (!grid.IsEscape(cell)) tally.hits[grid.PlaceOf(cell)] += counts[c];
  }
  for (int cell = 0; cell < 256; ++cell) {
    if (grid.IsEscape(cell)) continue;
    tally.tries[grid.PlaceOf(cell)] = totals[static_cast<std::size_t>(grid.TableOf(cell))];
  }
  return tally;
}

// How many points are worth sending: what lies beyond becomes escapes.
std::size_t WorthwhilePlaces(const Tally& tally, const Grid& grid) {
  std::size_t best = grid.PlacesMax();
  std::uint64_t best_bits = best * kPointBits;
  std::uint64_t beyond = 0;
  for (std::size_t places = grid.PlacesMax(); places-- > grid.PlacesMin();) {
    beyond += tally.hits[places];
    const std::uint64_t bits = places * kPointBits + beyond * kEscapeBits;
    if (bits <= best_bits) {
      best_bits = bits;
      best = places;
    }
  }
  return best;
}

std::uint8_t PooledLevel(const Tally& tally, std::size_t place, std::size_t places) {
  std::uint64_t hits = tally.hits[place];
  std::uint64_t tries = tally.tries[place];
  for (std::size_t reach = 1; reach <= kPoolMax && hits < kEnoughCounts; ++reach) {
    if (place >= reach) {
      hits += tally.hits[place - reach];
      tries += tally.tries[place - reach];
    }
    if (place + reach < places) {
      hits += tally.hits[place + reach];
      tries += tally.tries[place + reach];
    }
  }
  return std::min(LevelOf(hits, std::max<std::uint64_t>(tries, 1)), kLevelMax);
}

}  // namespace

std::uint8_t EnergyClassOf(double energy, std::size_t hidden, float step) {
  if (energy == 0) return 0;
  const double squares = energy / static_cast<double>(hidden) / step / step;
  const int octave = squares < 0x1p-20 ? -20 : std::ilogb(squares);
  return static_cast<std::uint8_t>(
      std::clamp(octave + kClassOffset, 1, static_cast<int>(kEnergyClasses) - 1));
}

DensityTable FitDensity(std::span<const std::uint32_t, 256> counts, bool wide) {
  const Grid grid(wide);
  const Tally tally = TallyOf(counts, grid);
  DensityTable table;
  table.count = WorthwhilePlaces(tally, grid);
  for (std::size_t i = 0; i < table.count; ++i) {
    table.levels[i] = PooledLevel(tally, i, table.count);
  }
  return table;
}

void WriteDensity(const DensityTable& table, BitWriter* writer) {
  writer->Put(static_cast<std::uint32_t>(table.count - 1), kCountBits);
  WriteLevels(std::span(table.levels).first(table.count), writer);
}

bool ReadDensity(BitReader* reader, bool wide, DensityTable* table) {
  const Grid grid(wide);
  table->count = reader->Get(kCountBits) + 1;
  if (table->count < grid.PlacesMin() || table->count > grid.PlacesMax()) return false;
  const auto levels = std::span(table->levels).first(table->count);
  return ReadLevels(reader, levels) &&
         std::all_of(levels.begin(), levels.end(), [](auto l) { return l <= kLevelMax; });
}

std::array<std::uint16_t, 256> CellFrequencies(const DensityTable& table, bool wide) {
  const Grid grid(wide);
  std::array<std::uint8_t, 256> levels;
  levels.fill(kLevelAbsent);
  for (int cell = 0; cell < 256; ++cell) {
    if (grid.IsEscape(cell)) continue;
    const std::size_t place = grid.PlaceOf(cell);
    if (place < table.count) levels[static_cast<std::size_t>(cell)] = table.levels[place];
  }
  std::array<std::uint16_t, 256> frequencies{};
  const auto symbols = static_cast<std::size_t>(grid.symbols);
  for (std::size_t first = 0; first < 256; first += symbols) {
    // The escape takes one of the slots, the symbols share the others.
    FrequenciesOf(std::span(levels).subspan(first, symbols), kRansTotal - 1,
                  std::span(frequencies).subspan(first, symbols));
    frequencies[first] = 1;
  }
  return frequencies;
}

void SetEncodeTable(std::span<const std::uint16_t, 256> frequencies, bool wide,
                    RansEncodeTable* table) {
  const auto symbols = static_cast<std::size_t>(Grid(wide).symbols);
  for (std::size_t first = 0; first < 256; first += symbols) {
    table->Set(frequencies.subspan(first, symbols), first);
  }
}

void FillClassSlots(std::span<const std::uint16_t, 256> frequencies, bool wide,
                    std::uint32_t* slots) {
  const auto symbols = static_cast<std::size_t>(Grid(wide).symbols);
  for (std::size_t first = 0; first < 256; first += symbols, slots += kRansTotal) {
    FillRansSlots(frequencies.subspan(first, symbols), slots);
  }
}

}  // namespace shoal::compression
