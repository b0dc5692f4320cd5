// Interleaved rANS: symbols to 16-bit words and back, with up to four tables at a time.
//
// Source: Duda, "Asymmetric numeral systems" (2013); interleaving as in Giesen, "Interleaved
// entropy coders" (2014). Symbol i belongs to lane i mod lanes; each lane has a state in
// [2^15, 2^31); probabilities have 11 bits; a lane takes or gives at most one word a symbol. The
// encoder works from the last symbol to the first and appends words, the decoder reads them from
// the end: docs/WIRE.md, "rANS words". Compiled once per SIMD level; every level and the plain
// loops give the same bytes.
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_ENTROPY_RANS_H_
#define SHOAL_COMPRESSION_ENTROPY_RANS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal::compression {

inline constexpr int kRansBits = 11;
inline constexpr std::uint32_t kRansTotal = 1U << kRansBits;
inline constexpr std::uint32_t kRansLow = 1U << 15;
inline constexpr std::size_t kRansLanes = 32;
// Shorter streams have a single lane: 32 states would outweigh what they code.
inline constexpr std::size_t kRansManySymbols = 16384;
// RansEncode may write this many bytes beyond the words it returns.
inline constexpr std::size_t kRansSlack = 32;

inline std::size_t RansLanesFor(std::size_t symbols) {
  return symbols < kRansManySymbols ? 1 : kRansLanes;
}

// One state per lane.
struct RansLanes {
  explicit RansLanes(std::size_t lanes) : count(lanes) { states.fill(kRansLow); }

  std::size_t bytes() const { return count * 4; }
  void Store(std::byte* to) const;
  // False if a state is outside [2^15, 2^31).
  [[nodiscard]] bool Load(const std::byte* from);
  // All states as they were before the first symbol was encoded: nothing was lost or changed.
  bool AtStart() const;

  alignas(64) std::array<std::uint32_t, kRansLanes> states;
  std::size_t count;  // 1 or kRansLanes
};

// How often each of `alphabet` codes occurs; all codes are below it.
std::array<std::uint32_t, 256> CountCodes(std::span<const std::uint8_t> codes,
                                          std::size_t alphabet);

// How often each byte occurs.
class CellCounter {
 public:
  void Add(std::span<const std::uint8_t> cells);
  std::array<std::uint32_t, 256> Totals() const;

 private:
  // Several tables, so that equal neighbours do not wait for each other.
  std::array<std::array<std::uint32_t, 256>, 4> tables_{};
};

// The same of each row.
class RowCounter {
 public:
  static constexpr std::size_t kRows = 24;
  void Add(std::span<const std::uint8_t> cells, const std::uint16_t* rows);
  std::array<std::uint32_t, 256> Totals(std::size_t row) const;

 private:
  std::array<std::array<std::uint32_t, 256 * kRows>, 2> counts_{};
};

// What the encoder needs of a cell: a symbol of one of the tables. Frequencies of a table add up to
// kRansTotal, each at most kRansTotal - 1; cells of frequency 0 may not be encoded.
struct RansEncodeTable {
  // Lays a table's symbols at cells first, first + 1, ...
  void Set(std::span<const std::uint16_t> frequencies, std::size_t first);

  std::array<std::uint32_t, 256> reciprocals{};
  std::array<std::uint32_t, 256> packed{};  // bias | (total - frequency) << 12 | shift << 24
};

// Fills the kRansTotal slots that the decoder looks a table's symbols up in.
void FillRansSlots(std::span<const std::uint16_t> frequencies, std::uint32_t* slots);

// Slots of a row of tables.
inline constexpr std::size_t kRansRowSlots = 4 * kRansTotal;

// Encodes n cells, of which the first is lane 0's, in front of what the lanes hold, and appends
// words at `to`; returns their end. Cell i is one of tables[rows[i]], without rows of the first. At
// most 2 n bytes, and kRansSlack beyond are scratch.
std::byte* RansEncode(const RansEncodeTable* tables, const std::uint16_t* rows,
                      const std::uint8_t* cells, std::size_t n, RansLanes* lanes, std::byte* to);

// Decodes n symbols, of which the first is lane 0's, taking words from `end` downwards to `begin`;
// returns the new end, or nullptr if the words do not suffice. Symbol i is looked up in the table
// that bits 13 and 14 of contexts[i] number (without contexts the first), kRansTotal slots long, of
// row rows[i] (without rows the first), kRansRowSlots long. With kRansLanes lanes kRansSlack bytes
// behind `end` must be readable.
const std::byte* RansDecode(const std::uint32_t* slots, const std::uint16_t* rows,
                            const std::uint16_t* contexts, std::size_t n, RansLanes* lanes,
                            const std::byte* begin, const std::byte* end, std::uint8_t* symbols);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_ENTROPY_RANS_H_
