#include "compression/codecs/dithered/dither_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compression/entropy/rans_table.h"
#include "compression/simd/dither_kernels.h"

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
constexpr int kSpacingBits = 2;
constexpr std::size_t kSmallClassValues = 400;

// -log2(f / kRansTotal) in units of 2^-12 bit, by squaring: integers, so that every machine makes
// the same choice of tables.
constexpr int kCostBits = 12;
constexpr std::uint32_t CostOf(std::uint32_t f) {
  const int whole = std::bit_width(f) - 1;
  std::uint64_t x = (std::uint64_t{f} << 31) >> whole;
  std::uint32_t log = static_cast<std::uint32_t>(whole) << kCostBits;
  for (int bit = kCostBits - 1; bit >= 0; --bit) {
    x = x * x >> 31;
    if (x >> 32 == 0) continue;
    x >>= 1;
    log |= 1U << bit;
  }
  return (static_cast<std::uint32_t>(kRansBits) << kCostBits) - log;
}
constexpr auto kCosts = [] {
  std::array<std::uint32_t, kRansTotal> costs{};
  for (std::uint32_t f = 1; f < kRansTotal; ++f) costs[f] = CostOf(f);
  return costs;
}();

// One kind of class: how its cells lie on the grid.
struct Grid {
  explicit Grid(bool wide)
      : tables(wide ? 1 : static_cast<int>(kNarrowTables)),
        symbols(256 / tables),
        most(wide ? kWideMost : kNarrowMost) {}

  int TableOf(int cell) const { return cell / symbols; }
  bool IsEscape(int cell) const { return cell % symbols == 0; }
  // The slot of a cell's point: |code - a| with a in the middle of its quarter.
  std::size_t SlotOf(int cell) const {
    const int code = cell % symbols - most - 1;
    const int at = 2 * tables * code;
    return static_cast<std::size_t>(code > 0 ? at - 1 - TableOf(cell) : TableOf(cell) - at);
  }
  // Points needed for each table to have one.
  std::size_t SlotsMin() const { return static_cast<std::size_t>(tables); }
  std::size_t SlotsMax() const { return static_cast<std::size_t>(2 * tables * most + tables); }

  int tables;
  int symbols;
  int most;
};

// Counts and the chances to be counted, by slot.
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
    if (!grid.IsEscape(cell)) tally.hits[grid.SlotOf(cell)] += counts[c];
  }
  for (int cell = 0; cell < 256; ++cell) {
    if (grid.IsEscape(cell)) continue;
    tally.tries[grid.SlotOf(cell)] = totals[static_cast<std::size_t>(grid.TableOf(cell))];
  }
  return tally;
}

// How many points are worth sending: what lies beyond becomes escapes.
std::size_t WorthwhileSlots(const Tally& tally, const Grid& grid) {
  std::size_t best = grid.SlotsMax();
  std::uint64_t best_bits = best * kPointBits;
  std::uint64_t beyond = 0;
  for (std::size_t slots = grid.SlotsMax(); slots-- > grid.SlotsMin();) {
    beyond += tally.hits[slots];
    const std::uint64_t bits = slots * kPointBits + beyond * kEscapeBits;
    if (bits <= best_bits) {
      best_bits = bits;
      best = slots;
    }
  }
  return best;
}

std::uint8_t PooledLevel(const Tally& tally, std::size_t slot, std::size_t slots) {
  std::uint64_t hits = tally.hits[slot];
  std::uint64_t tries = tally.tries[slot];
  for (std::size_t reach = 1; reach <= kPoolMax && hits < kEnoughCounts; ++reach) {
    if (slot >= reach) {
      hits += tally.hits[slot - reach];
      tries += tally.tries[slot - reach];
    }
    if (slot + reach < slots) {
      hits += tally.hits[slot + reach];
      tries += tally.tries[slot + reach];
    }
  }
  return std::min(LevelOf(hits, std::max<std::uint64_t>(tries, 1)), kLevelMax);
}

// Points that are sent of `count`: the last one may lie behind the last point of the table.
std::size_t KnotsOf(std::size_t count, int spacing) {
  const std::size_t apart = std::size_t{1} << spacing;
  return (count - 1 + apart - 1) / apart + 1;
}

// All levels of a table from those that are sent.
void SpreadKnots(DensityTable* table) {
  const auto& knots = table->knots;
  const int apart = 1 << table->spacing;
  for (std::size_t i = 0; i < table->count; ++i) {
    const std::size_t knot = i >> table->spacing;
    const int rest = static_cast<int>(i) & (apart - 1);
    const int next = rest == 0 ? 0 : knots[knot + 1];
    table->levels[i] =
        static_cast<std::uint8_t>((knots[knot] * (apart - rest) + next * rest + apart / 2) / apart);
  }
}

// The knots whose lines come nearest to the levels, in weighted squares: one tridiagonal system.
std::array<std::uint8_t, 256> FitKnots(std::span<const std::uint8_t> levels, const Tally& tally,
                                       int spacing) {
  const std::size_t knots = KnotsOf(levels.size(), spacing);
  const double apart = 1 << spacing;
  std::array<double, 257> diagonal{}, beside{}, right{};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const std::size_t knot = i >> spacing;
    const double part = static_cast<double>(i - (knot << spacing)) / apart;
    const double weight = static_cast<double>(tally.hits[i]) + 0.5;
    diagonal[knot] += weight * (1 - part) * (1 - part);
    right[knot] += weight * (1 - part) * levels[i];
    if (part == 0) continue;
    beside[knot] += weight * (1 - part) * part;
    diagonal[knot + 1] += weight * part * part;
    right[knot + 1] += weight * part * levels[i];
  }
  for (std::size_t k = 1; k < knots; ++k) {
    const double ratio = beside[k - 1] / diagonal[k - 1];
    diagonal[k] -= ratio * beside[k - 1];
    right[k] -= ratio * right[k - 1];
  }
  std::array<std::uint8_t, 256> fitted{};
  double next = 0;
  for (std::size_t k = knots; k-- > 0;) {
    next = (right[k] - beside[k] * next) / diagonal[k];
    fitted[k] = static_cast<std::uint8_t>(std::clamp(next + 0.5, 0.0, double{kLevelMax}));
  }
  return fitted;
}

// Bits of the table and of the counted cells, in units of 2^-12.
std::uint64_t CostOfTable(const DensityTable& table, std::span<const std::uint32_t, 256> counts,
                          bool wide) {
  BitWriter writer;
  WriteDensity(table, &writer);
  std::uint64_t cost = std::uint64_t{8 * writer.bytes().size()} << kCostBits;
  const auto frequencies = CellFrequencies(table, wide);
  for (std::size_t cell = 0; cell < counts.size(); ++cell) {
    cost += std::uint64_t{counts[cell]} * kCosts[std::max<std::uint16_t>(frequencies[cell], 1)];
  }
  return cost;
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
  std::array<std::uint8_t, 256> levels{};
  const std::size_t count = WorthwhileSlots(tally, grid);
  for (std::size_t i = 0; i < count; ++i) levels[i] = PooledLevel(tally, i, count);

  DensityTable best;
  std::uint64_t best_cost = ~std::uint64_t{0};
  // From few points to many, as long as more of them pay.
  for (int spacing = (1 << kSpacingBits) - 1; spacing >= 0; --spacing) {
    DensityTable table;
    table.count = count;
    table.spacing = spacing;
    table.knots = FitKnots(std::span(levels).first(count), tally, spacing);
    SpreadKnots(&table);
    const std::uint64_t cost = CostOfTable(table, counts, wide);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = table;
  }
  return best;
}

void MergeSmallClasses(std::size_t hidden, std::span<std::uint8_t> classes) {
  std::array<std::size_t, kEnergyClasses> tokens{};
  for (const std::uint8_t c : classes) ++tokens[c];
  std::array<std::uint8_t, kEnergyClasses> to{};
  for (std::uint8_t c = 0; c < kEnergyClasses; ++c) to[c] = c;
  const auto move = [&](std::size_t from, std::size_t target) {
    if (tokens[from] == 0) return true;
    // A class further away would not fit: then the table is worth its bytes.
    if (tokens[from] * hidden >= kSmallClassValues || tokens[target] == 0) return false;
    tokens[target] += tokens[from];
    tokens[from] = 0;
    std::replace(to.begin(), to.end(), static_cast<std::uint8_t>(from),
                 static_cast<std::uint8_t>(target));
    return true;
  };
  // From both ends towards the middle, each kind for itself.
  for (std::size_t c = 1; c < kNarrowClassMax && move(c, c + 1);) ++c;
  for (std::size_t c = kEnergyClasses - 1; c > kNarrowClassMax + 1 && move(c, c - 1);) --c;
  for (std::uint8_t& c : classes) c = to[c];
}

void WriteDensity(const DensityTable& table, BitWriter* writer) {
  writer->Put(static_cast<std::uint32_t>(table.count - 1), kCountBits);
  writer->Put(static_cast<std::uint32_t>(table.spacing), kSpacingBits);
  WriteLevels(std::span(table.knots).first(KnotsOf(table.count, table.spacing)), writer);
}

bool ReadDensity(BitReader* reader, bool wide, DensityTable* table) {
  const Grid grid(wide);
  table->count = reader->Get(kCountBits) + 1;
  table->spacing = static_cast<int>(reader->Get(kSpacingBits));
  if (table->count < grid.SlotsMin() || table->count > grid.SlotsMax()) return false;
  const auto knots = std::span(table->knots).first(KnotsOf(table->count, table->spacing));
  if (!ReadLevels(reader, knots) ||
      std::any_of(knots.begin(), knots.end(), [](auto l) { return l > kLevelMax; })) {
    return false;
  }
  SpreadKnots(table);
  return true;
}

std::array<std::uint16_t, 256> CellFrequencies(const DensityTable& table, bool wide) {
  const Grid grid(wide);
  std::array<std::uint8_t, 256> levels;
  levels.fill(kLevelAbsent);
  for (int cell = 0; cell < 256; ++cell) {
    if (grid.IsEscape(cell)) continue;
    const std::size_t slot = grid.SlotOf(cell);
    if (slot < table.count) levels[static_cast<std::size_t>(cell)] = table.levels[slot];
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
