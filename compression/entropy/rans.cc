#include "compression/entropy/rans.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/bytes.h"
#include "common/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/entropy/rans.cc"
// Vectors of a length unknown to the compiler would need other loops than these.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef SHOAL_COMPRESSION_RANS_SHARED
#define SHOAL_COMPRESSION_RANS_SHARED
namespace shoal::compression {
namespace {

constexpr std::uint32_t kFrequencyMask = kRansTotal - 1;
constexpr int kBiasShift = kRansBits;
constexpr int kSymbolShift = 2 * kRansBits;
constexpr std::uint32_t kPackedBiasMask = 0xfff;
constexpr int kPackedRestShift = 12;
constexpr int kPackedShiftShift = 24;
constexpr int kFullShift = 31 - kRansBits;
// Which of four tables: bits 13 and 14 of a context word, as an offset of slots.
constexpr int kContextShift = 13;
constexpr std::uint32_t kContextMask = 3;

// Of more codes than this each comparison counts too little.
constexpr std::size_t kVectorAlphabetMax = 16;

// Tables of one row: an encoder's, or a decoder's slots.
constexpr int kRowCellsShift = 9;
static_assert(sizeof(RansEncodeTable) == sizeof(std::uint32_t) << kRowCellsShift);
constexpr int kRowSlotsShift = kRansBits + 2;
static_assert(kRansRowSlots == std::size_t{1} << kRowSlotsShift);

inline std::byte* EncodeOne(const RansEncodeTable& table, std::uint8_t cell, std::uint32_t* state,
                            std::byte* to) {
  const std::uint32_t packed = table.packed[cell];
  const std::uint32_t rest = packed >> kPackedRestShift & kFrequencyMask;
  std::uint32_t x = *state;
  if (x >= (kRansTotal - rest) << kFullShift) {
    StoreLittle(to, static_cast<std::uint16_t>(x));
    to += 2;
    x >>= 16;
  }
  const auto high = static_cast<std::uint32_t>(std::uint64_t{x} * table.reciprocals[cell] >> 32);
  const std::uint32_t quotient = high >> (packed >> kPackedShiftShift);
  *state = x + (packed & kPackedBiasMask) + quotient * rest;
  return to;
}

// One symbol; nullptr if it needs a word and there is none.
inline const std::byte* DecodeOne(const std::uint32_t* slots, std::uint32_t context,
                                  std::uint32_t* state, const std::byte* begin,
                                  const std::byte* end, std::uint8_t* symbol) {
  const std::uint32_t table = (context >> kContextShift & kContextMask) << kRansBits;
  const std::uint32_t slot = slots[table + (*state & kFrequencyMask)];
  std::uint32_t x =
      (slot & kFrequencyMask) * (*state >> kRansBits) + (slot >> kBiasShift & kFrequencyMask);
  if (x < kRansLow) {
    if (end - begin < 2) return nullptr;
    end -= 2;
    x = x << 16 | LoadLittle<std::uint16_t>(end);
  }
  *symbol = static_cast<std::uint8_t>(slot >> kSymbolShift);
  *state = x;
  return end;
}

// The numbers from which a run's symbols begin; absent arrays stay absent.
inline const std::uint16_t* Skip(const std::uint16_t* numbers, std::size_t n) {
  return numbers == nullptr ? nullptr : numbers + n;
}

std::byte* EncodePlain(const RansEncodeTable* tables, const std::uint16_t* rows,
                       const std::uint8_t* cells, std::size_t n, std::uint32_t* states,
                       std::byte* to) {
  for (std::size_t lane = 0; lane < n; ++lane) {
    const std::size_t row = rows == nullptr ? 0 : rows[lane];
    to = EncodeOne(tables[row], cells[lane], &states[lane], to);
  }
  return to;
}

// What a decoder looks symbols up in.
struct Lookup {
  const std::uint32_t* slots;
  const std::uint16_t* rows;
  const std::uint16_t* contexts;

  Lookup Behind(std::size_t n) const { return {slots, Skip(rows, n), Skip(contexts, n)}; }
};

const std::byte* DecodePlain(const Lookup& from, std::size_t n, std::uint32_t* states,
                             const std::byte* begin, const std::byte* end, std::uint8_t* symbols) {
  for (std::size_t lane = n; lane-- > 0 && end != nullptr;) {
    const std::size_t row = from.rows == nullptr ? 0 : from.rows[lane];
    const std::uint32_t context = from.contexts == nullptr ? 0U : from.contexts[lane];
    end = DecodeOne(from.slots + row * kRansRowSlots, context, &states[lane], begin, end,
                    &symbols[lane]);
  }
  return end;
}

// kExpand[mask]: the byte shuffle that puts 16-bit words 0, 1, ... to the lanes that `mask` has.
constexpr auto MakeExpand() {
  std::array<std::array<std::uint8_t, 16>, 256> shuffles{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned word = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      const bool takes = (mask >> lane & 1) != 0;
      shuffles[mask][2 * lane] = takes ? static_cast<std::uint8_t>(2 * word) : 0x80;
      shuffles[mask][2 * lane + 1] = takes ? static_cast<std::uint8_t>(2 * word + 1) : 0x80;
      word += takes ? 1 : 0;
    }
  }
  return shuffles;
}
alignas(64) constexpr auto kExpand = MakeExpand();

// kCompress[mask]: the byte shuffle that puts the words of the lanes in `mask` one after the other.
constexpr auto MakeCompress() {
  std::array<std::array<std::uint8_t, 16>, 256> shuffles{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned word = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      shuffles[mask][2 * word] = static_cast<std::uint8_t>(2 * lane);
      shuffles[mask][2 * word + 1] = static_cast<std::uint8_t>(2 * lane + 1);
      ++word;
    }
  }
  return shuffles;
}
alignas(64) constexpr auto kCompress = MakeCompress();

}  // namespace
}  // namespace shoal::compression
#endif  // SHOAL_COMPRESSION_RANS_SHARED

HWY_BEFORE_NAMESPACE();
namespace shoal::compression {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Without gathers the plain loops are as fast.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

#if HWY_TARGET <= HWY_AVX3
constexpr std::size_t kWidth = 16;
#else
constexpr std::size_t kWidth = 8;
#endif
constexpr std::size_t kVectors = kRansLanes / kWidth;
using Words = hn::FixedTag<std::uint32_t, kWidth>;
using Signed = hn::RebindToSigned<Words>;
using Bytes = hn::Rebind<std::uint8_t, Words>;
using Halves = hn::Rebind<std::uint16_t, Words>;
using States = hn::Vec<Words>;

inline States MulHigh(States a, States b) {
  const hn::RepartitionToWide<Words> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(wide, a))),
                               hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(wide, b))));
  return hn::OddEven(hn::BitCast(Words(), odd), hn::BitCast(Words(), hn::ShiftRight<32>(even)));
}

inline States Gather(const std::uint32_t* from, States index) {
  return hn::GatherIndex(Words(), from, hn::BitCast(Signed(), index));
}

// The low halves of the lanes in `mask`, one after the other.
inline std::byte* Emit(States x, hn::Mask<Words> mask, std::byte* to) {
  const auto low = hn::And(x, hn::Set(Words(), 0xffff));
#if HWY_TARGET <= HWY_AVX3
  const auto halves = hn::DemoteTo(Halves(), hn::BitCast(Signed(), hn::Compress(low, mask)));
#else
  std::uint8_t bits[8];
  hn::StoreMaskBits(Words(), mask, bits);
  const hn::Repartition<std::uint8_t, Halves> octets;
  const auto all = hn::BitCast(octets, hn::DemoteTo(Halves(), hn::BitCast(Signed(), low)));
  const auto halves =
      hn::BitCast(Halves(), hn::TableLookupBytes(all, hn::Load(octets, kCompress[bits[0]].data())));
#endif
  hn::StoreU(halves, Halves(), reinterpret_cast<std::uint16_t*>(to));
  return to + 2 * hn::CountTrue(Words(), mask);
}

// The words in front of `end` to the lanes in `mask`, which are as many as words are taken.
inline States TakeWords(hn::Mask<Words> mask, const std::byte** end) {
  *end -= 2 * hn::CountTrue(Words(), mask);
#if HWY_TARGET <= HWY_AVX3
  const auto words =
      hn::PromoteTo(Words(), hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(*end)));
  return States{_mm512_maskz_expand_epi32(mask.raw, words.raw)};
#else
  std::uint8_t bits[8];
  hn::StoreMaskBits(Words(), mask, bits);
  const hn::Repartition<std::uint8_t, Halves> octets;
  const auto words = hn::LoadU(octets, reinterpret_cast<const std::uint8_t*>(*end));
  const auto spread = hn::TableLookupBytes(words, hn::Load(octets, kExpand[bits[0]].data()));
  return hn::PromoteTo(Words(), hn::BitCast(Halves(), spread));
#endif
}

template <bool kRows>
inline States EncodeStep(const RansEncodeTable* tables, const std::uint16_t* rows, States x,
                         const std::uint8_t* cells, std::byte** to) {
  auto cell = hn::PromoteTo(Words(), hn::LoadU(Bytes(), cells));
  if constexpr (kRows) {
    const auto row = hn::PromoteTo(Words(), hn::LoadU(Halves(), rows));
    cell = hn::Or(cell, hn::ShiftLeft<kRowCellsShift>(row));
  }
  const auto packed = Gather(tables->packed.data(), cell);
  const auto reciprocal = Gather(tables->reciprocals.data(), cell);
  const auto rest =
      hn::And(hn::ShiftRight<kPackedRestShift>(packed), hn::Set(Words(), kFrequencyMask));
  const auto full = hn::ShiftLeft<kFullShift>(hn::Sub(hn::Set(Words(), kRansTotal), rest));
  // States and limits stay below 2^31, so the signed comparison is right.
  const auto over =
      hn::RebindMask(Words(), hn::Not(hn::BitCast(Signed(), x) < hn::BitCast(Signed(), full)));
  *to = Emit(x, over, *to);
  x = hn::IfThenElse(over, hn::ShiftRight<16>(x), x);
  const auto quotient = hn::Shr(MulHigh(x, reciprocal), hn::ShiftRight<kPackedShiftShift>(packed));
  const auto bias = hn::And(packed, hn::Set(Words(), kPackedBiasMask));
  return hn::Add(hn::Add(x, bias), hn::Mul(quotient, rest));
}

template <bool kRows>
std::byte* EncodeLanes(const RansEncodeTable* tables, const std::uint16_t* rows,
                       const std::uint8_t* cells, std::size_t n, std::uint32_t* states,
                       std::byte* to) {
  const std::size_t whole = n / kRansLanes * kRansLanes;
  to = EncodePlain(tables, Skip(rows, whole), cells + whole, n - whole, states, to);
  States x[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) x[v] = hn::Load(Words(), states + v * kWidth);
  for (std::size_t first = whole; first > 0;) {
    first -= kRansLanes;
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = first + v * kWidth;
      x[v] = EncodeStep<kRows>(tables, kRows ? rows + at : nullptr, x[v], cells + at, &to);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::Store(x[v], Words(), states + v * kWidth);
  return to;
}

template <bool kRows, bool kContexts>
inline States DecodeStep(States x, const Lookup& from, std::size_t at, const std::byte** end,
                         std::uint8_t* symbols) {
  const auto mask = hn::Set(Words(), kFrequencyMask);
  auto index = hn::And(x, mask);
  if constexpr (kContexts) {
    const auto context = hn::PromoteTo(Words(), hn::LoadU(Halves(), from.contexts + at));
    const auto tables = hn::And(hn::ShiftRight<kContextShift - kRansBits>(context),
                                hn::Set(Words(), kContextMask << kRansBits));
    index = hn::Or(index, tables);
  }
  if constexpr (kRows) {
    const auto row = hn::PromoteTo(Words(), hn::LoadU(Halves(), from.rows + at));
    index = hn::Or(index, hn::ShiftLeft<kRowSlotsShift>(row));
  }
  const auto slot = Gather(from.slots, index);
  x = hn::Add(hn::Mul(hn::And(slot, mask), hn::ShiftRight<kRansBits>(x)),
              hn::And(hn::ShiftRight<kBiasShift>(slot), mask));
  const auto under =
      hn::RebindMask(Words(), hn::BitCast(Signed(), x) < hn::Set(Signed(), std::int32_t{kRansLow}));
  const auto words = TakeWords(under, end);
  const auto symbol = hn::BitCast(Signed(), hn::ShiftRight<kSymbolShift>(slot));
  hn::StoreU(hn::DemoteTo(Bytes(), symbol), Bytes(), symbols + at);
  return hn::IfThenElse(under, hn::Or(hn::ShiftLeft<16>(x), words), x);
}

template <bool kRows, bool kContexts>
const std::byte* DecodeLanes(const Lookup& from, std::size_t n, std::uint32_t* states,
                             const std::byte* begin, const std::byte* end, std::uint8_t* symbols) {
  States x[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) x[v] = hn::Load(Words(), states + v * kWidth);
  std::size_t first = 0;
  // A step takes at most one word a lane.
  constexpr auto kStepBytes = static_cast<std::ptrdiff_t>(2 * kRansLanes);
  for (; first + kRansLanes <= n && end - begin >= kStepBytes; first += kRansLanes) {
    for (std::size_t v = kVectors; v-- > 0;) {
      x[v] = DecodeStep<kRows, kContexts>(x[v], from, first + v * kWidth, &end, symbols);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::Store(x[v], Words(), states + v * kWidth);
  for (; first < n && end != nullptr; first += kRansLanes) {
    end = DecodePlain(from.Behind(first), std::min(kRansLanes, n - first), states, begin, end,
                      symbols + first);
  }
  return end;
}

std::byte* EncodeImpl(const RansEncodeTable* tables, const std::uint16_t* rows,
                      const std::uint8_t* cells, std::size_t n, std::uint32_t* states,
                      std::byte* to) {
  return rows == nullptr ? EncodeLanes<false>(tables, rows, cells, n, states, to)
                         : EncodeLanes<true>(tables, rows, cells, n, states, to);
}

const std::byte* DecodeImpl(const Lookup& from, std::size_t n, std::uint32_t* states,
                            const std::byte* begin, const std::byte* end, std::uint8_t* symbols) {
  if (from.rows == nullptr) {
    return from.contexts == nullptr
               ? DecodeLanes<false, false>(from, n, states, begin, end, symbols)
               : DecodeLanes<false, true>(from, n, states, begin, end, symbols);
  }
  return from.contexts == nullptr ? DecodeLanes<true, false>(from, n, states, begin, end, symbols)
                                  : DecodeLanes<true, true>(from, n, states, begin, end, symbols);
}
#else
std::byte* EncodeImpl(const RansEncodeTable* tables, const std::uint16_t* rows,
                      const std::uint8_t* cells, std::size_t n, std::uint32_t* states,
                      std::byte* to) {
  for (std::size_t first = (n + kRansLanes - 1) / kRansLanes * kRansLanes; first > 0;) {
    first -= kRansLanes;
    to = EncodePlain(tables, Skip(rows, first), cells + first, std::min(kRansLanes, n - first),
                     states, to);
  }
  return to;
}

const std::byte* DecodeImpl(const Lookup& from, std::size_t n, std::uint32_t* states,
                            const std::byte* begin, const std::byte* end, std::uint8_t* symbols) {
  for (std::size_t first = 0; first < n && end != nullptr; first += kRansLanes) {
    end = DecodePlain(from.Behind(first), std::min(kRansLanes, n - first), states, begin, end,
                      symbols + first);
  }
  return end;
}
#endif

#if HWY_TARGET != HWY_SCALAR
constexpr std::size_t kVectorsMax = 255;  // a lane counts in a byte

// How often each of the four codes from `first` on is in `vectors` vectors.
void CountFour(const std::uint8_t* codes, std::size_t vectors, std::size_t first,
               std::uint32_t* counts) {
  const hn::ScalableTag<std::uint8_t> d;
  const hn::RepartitionToWide<hn::RepartitionToWide<hn::RepartitionToWide<decltype(d)>>> d64;
  const auto code0 = hn::Set(d, static_cast<std::uint8_t>(first));
  const auto code1 = hn::Set(d, static_cast<std::uint8_t>(first + 1));
  const auto code2 = hn::Set(d, static_cast<std::uint8_t>(first + 2));
  const auto code3 = hn::Set(d, static_cast<std::uint8_t>(first + 3));
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  for (std::size_t i = 0; i < vectors; ++i) {
    const auto v = hn::LoadU(d, codes + i * hn::Lanes(d));
    sum0 = hn::Sub(sum0, hn::VecFromMask(d, hn::Eq(v, code0)));
    sum1 = hn::Sub(sum1, hn::VecFromMask(d, hn::Eq(v, code1)));
    sum2 = hn::Sub(sum2, hn::VecFromMask(d, hn::Eq(v, code2)));
    sum3 = hn::Sub(sum3, hn::VecFromMask(d, hn::Eq(v, code3)));
  }
  const auto total = [&](auto sum) {
    return static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d64, hn::SumsOf8(sum))));
  };
  counts[first] += total(sum0);
  counts[first + 1] += total(sum1);
  counts[first + 2] += total(sum2);
  counts[first + 3] += total(sum3);
}

std::size_t CountImpl(const std::uint8_t* codes, std::size_t n, std::size_t alphabet,
                      std::uint32_t* counts) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<std::uint8_t>());
  std::size_t done = 0;
  while (done + lanes <= n) {
    const std::size_t vectors = std::min(kVectorsMax, (n - done) / lanes);
    for (std::size_t first = 0; first < alphabet; first += 4) {
      CountFour(codes + done, vectors, first, counts);
    }
    done += vectors * lanes;
  }
  return done;
}
#else
std::size_t CountImpl(const std::uint8_t*, std::size_t, std::size_t, std::uint32_t*) { return 0; }
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::compression
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::compression {

HWY_EXPORT(EncodeImpl);
HWY_EXPORT(DecodeImpl);
HWY_EXPORT(CountImpl);

void RansLanes::Store(std::byte* to) const {
  for (std::size_t i = 0; i < count; ++i) StoreLittle(to + 4 * i, states[i]);
}

bool RansLanes::Load(const std::byte* from) {
  bool valid = true;
  for (std::size_t i = 0; i < count; ++i) {
    states[i] = LoadLittle<std::uint32_t>(from + 4 * i);
    valid = valid && states[i] >= kRansLow && states[i] < kRansLow << 16;
  }
  return valid;
}

bool RansLanes::AtStart() const {
  return std::all_of(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(count),
                     [](std::uint32_t x) { return x == kRansLow; });
}

void CellCounter::Add(std::span<const std::uint8_t> cells) {
  std::size_t i = 0;
  for (; i + tables_.size() <= cells.size(); i += tables_.size()) {
    for (std::size_t t = 0; t < tables_.size(); ++t) ++tables_[t][cells[i + t]];
  }
  for (; i < cells.size(); ++i) ++tables_[0][cells[i]];
}

std::array<std::uint32_t, 256> CountCodes(std::span<const std::uint8_t> codes,
                                          std::size_t alphabet) {
  if (alphabet > kVectorAlphabetMax) {
    CellCounter counter;
    counter.Add(codes);
    return counter.Totals();
  }
  std::array<std::uint32_t, 256> counts{};
  const std::size_t done =
      HWY_DYNAMIC_DISPATCH(CountImpl)(codes.data(), codes.size(), alphabet, counts.data());
  for (const std::uint8_t code : codes.subspan(done)) ++counts[code];
  return counts;
}

void RowCounter::Add(std::span<const std::uint8_t> cells, const std::uint16_t* rows) {
  std::uint32_t* const even = counts_[0].data();
  std::uint32_t* const odd = counts_[1].data();
  std::size_t i = 0;
  for (; i + 2 <= cells.size(); i += 2) {
    ++even[std::size_t{rows[i]} << 8 | cells[i]];
    ++odd[std::size_t{rows[i + 1]} << 8 | cells[i + 1]];
  }
  if (i < cells.size()) ++even[std::size_t{rows[i]} << 8 | cells[i]];
}

std::array<std::uint32_t, 256> RowCounter::Totals(std::size_t row) const {
  std::array<std::uint32_t, 256> totals{};
  for (const auto& counts : counts_) {
    for (std::size_t c = 0; c < totals.size(); ++c) totals[c] += counts[row << 8 | c];
  }
  return totals;
}

std::array<std::uint32_t, 256> CellCounter::Totals() const {
  std::array<std::uint32_t, 256> totals{};
  for (const auto& table : tables_) {
    for (std::size_t c = 0; c < totals.size(); ++c) totals[c] += table[c];
  }
  return totals;
}

void RansEncodeTable::Set(std::span<const std::uint16_t> frequencies, std::size_t first) {
  std::uint32_t start = 0;
  for (std::size_t s = 0; s < frequencies.size(); ++s) {
    const std::uint32_t f = frequencies[s];
    SHOAL_CHECK(f < kRansTotal);
    // Division by multiplication, exact for states below 2^31 (Alverson, "Integer division using
    // reciprocals", 1991). For f = 1 the quotient comes out as x - 1, which the bias makes good.
    const int shift = f < 2 ? 0 : std::bit_width(f - 1) - 1;
    const std::uint64_t power = std::uint64_t{1} << (shift + 32);
    reciprocals[first + s] = f < 2 ? 0xffffffffU : static_cast<std::uint32_t>((power + f - 1) / f);
    const std::uint32_t bias = f == 1 ? start + kRansTotal - 1 : start;
    packed[first + s] = bias | (kRansTotal - std::max(f, 1U)) << kPackedRestShift |
                        static_cast<std::uint32_t>(shift) << kPackedShiftShift;
    start += f;
  }
  SHOAL_CHECK(start == kRansTotal);
}

void FillRansSlots(std::span<const std::uint16_t> frequencies, std::uint32_t* slots) {
  std::uint32_t start = 0;
  for (std::uint32_t s = 0; s < frequencies.size(); ++s) {
    const std::uint32_t f = frequencies[s];
    SHOAL_CHECK(f < kRansTotal && start + f <= kRansTotal);
    for (std::uint32_t i = 0; i < f; ++i) {
      slots[start + i] = f | i << kBiasShift | s << kSymbolShift;
    }
    start += f;
  }
  SHOAL_CHECK(start == kRansTotal);
}

std::byte* RansEncode(const RansEncodeTable* tables, const std::uint16_t* rows,
                      const std::uint8_t* cells, std::size_t n, RansLanes* lanes, std::byte* to) {
  if (lanes->count == kRansLanes) {
    return HWY_DYNAMIC_DISPATCH(EncodeImpl)(tables, rows, cells, n, lanes->states.data(), to);
  }
  for (std::size_t i = n; i-- > 0;) {
    to = EncodePlain(tables, Skip(rows, i), cells + i, 1, lanes->states.data(), to);
  }
  return to;
}

const std::byte* RansDecode(const std::uint32_t* slots, const std::uint16_t* rows,
                            const std::uint16_t* contexts, std::size_t n, RansLanes* lanes,
                            const std::byte* begin, const std::byte* end, std::uint8_t* symbols) {
  const Lookup from = {slots, rows, contexts};
  if (lanes->count == kRansLanes) {
    return HWY_DYNAMIC_DISPATCH(DecodeImpl)(from, n, lanes->states.data(), begin, end, symbols);
  }
  for (std::size_t i = 0; i < n && end != nullptr; ++i) {
    end = DecodePlain(from.Behind(i), 1, lanes->states.data(), begin, end, symbols + i);
  }
  return end;
}

}  // namespace shoal::compression
#endif  // HWY_ONCE
