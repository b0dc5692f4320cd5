#include "compression/entropy/rans_table.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>

#include "common/status.h"

namespace shoal::compression {
namespace {

constexpr int kOctave = 8;
// 2^(31 - i/8), rounded.
constexpr std::uint32_t kRoots[kOctave] = {2147483648U, 1969251188U, 1805811301U, 1655936265U,
                                           1518500250U, 1392470869U, 1276901417U, 1170923762U};
// 2^(16 + (i + 1/2) / 8), rounded: the borders between levels.
constexpr std::uint32_t kBorders[kOctave] = {68438, 74632,  81386,  88752,
                                             96785, 105545, 115098, 125515};
constexpr int kFirstBits = 7;
constexpr int kRiceBits = 3;
constexpr std::uint32_t kZigzagMax = 2 * kLevelAbsent;

// The line through the two levels before place i.
int Predict(std::span<const std::uint8_t> levels, std::size_t i) {
  if (i < 2) return levels[i - 1];
  return std::clamp(2 * levels[i - 1] - levels[i - 2], 0, int{kLevelAbsent});
}

std::uint32_t Zigzag(int v) {
  return v < 0 ? static_cast<std::uint32_t>(-2 * v - 1) : static_cast<std::uint32_t>(2 * v);
}

int Unzigzag(std::uint32_t v) {
  const int half = static_cast<int>(v / 2);
  return v % 2 != 0 ? -half - 1 : half;
}

std::uint32_t Weight(std::uint8_t level) {
  return level >= kLevelAbsent ? 0 : kRoots[level % kOctave] >> (level / kOctave);
}

}  // namespace

std::uint8_t LevelOf(std::uint64_t part, std::uint64_t whole) {
  if (part == 0) return kLevelAbsent;
  const std::uint64_t ratio = (whole << 20) / part;
  const int octave = std::bit_width(ratio) - 21;
  const std::uint64_t mantissa = ratio >> (octave + 4);
  const auto* border = std::upper_bound(std::begin(kBorders), std::end(kBorders), mantissa);
  const auto within = static_cast<int>(border - std::begin(kBorders));
  return static_cast<std::uint8_t>(std::min(kOctave * octave + within, int{kLevelMax}));
}

void WriteLevels(std::span<const std::uint8_t> levels, BitWriter* writer) {
  if (levels.empty()) return;
  std::uint32_t cost[1 << kRiceBits] = {};
  for (std::size_t i = 1; i < levels.size(); ++i) {
    const std::uint32_t v = Zigzag(levels[i] - Predict(levels, i));
    for (std::uint32_t k = 0; k < std::size(cost); ++k) cost[k] += (v >> k) + 1 + k;
  }
  const auto k = static_cast<int>(std::min_element(std::begin(cost), std::end(cost)) - cost);
  writer->Put(levels[0], kFirstBits);
  writer->Put(static_cast<std::uint32_t>(k), kRiceBits);
  for (std::size_t i = 1; i < levels.size(); ++i) {
    const std::uint32_t v = Zigzag(levels[i] - Predict(levels, i));
    writer->PutUnary(v >> k);
    writer->Put(v, k);
  }
}

bool ReadLevels(BitReader* reader, std::span<std::uint8_t> levels) {
  if (levels.empty()) return true;
  const std::uint32_t first = reader->Get(kFirstBits);
  if (first > kLevelAbsent) return false;
  levels[0] = static_cast<std::uint8_t>(first);
  const auto k = static_cast<int>(reader->Get(kRiceBits));
  for (std::size_t i = 1; i < levels.size(); ++i) {
    const std::uint32_t high = reader->GetUnary(kZigzagMax);
    const std::uint32_t v = high << k | reader->Get(k);
    const int level = Predict(levels, i) + Unzigzag(v);
    if (!reader->ok() || level < 0 || level > int{kLevelAbsent}) return false;
    levels[i] = static_cast<std::uint8_t>(level);
  }
  return reader->ok();
}

void FrequenciesOf(std::span<const std::uint8_t> levels, std::uint32_t total,
                   std::span<std::uint16_t> frequencies) {
  SHOAL_CHECK(levels.size() == frequencies.size() && 2 * levels.size() <= total);
  std::uint64_t weights = 0;
  for (const std::uint8_t level : levels) weights += Weight(level);
  SHOAL_CHECK(weights > 0);
  std::int64_t left = total;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    frequencies[i] = 0;
    const std::uint64_t weight = Weight(levels[i]);
    if (weight == 0) continue;
    const std::uint64_t share = (weight * total + weights / 2) / weights;
    frequencies[i] = static_cast<std::uint16_t>(std::max<std::uint64_t>(share, 1));
    left -= frequencies[i];
  }
  // What rounding left over goes to the largest, or comes from the largest.
  while (left != 0) {
    const auto largest = std::max_element(frequencies.begin(), frequencies.end());
    const std::int64_t most = *largest / 2;
    const std::int64_t change = left > 0 ? left : std::max(left, -most);
    *largest = static_cast<std::uint16_t>(*largest + change);
    left -= change;
  }
}

}  // namespace shoal::compression
