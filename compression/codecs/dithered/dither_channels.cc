#include "compression/codecs/dithered/dither_channels.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shoal::compression {
namespace {

constexpr std::size_t kTokensLooked = 256;
constexpr std::size_t kTokensMin = 64;
// Values of one table whose logarithm of energy is off by d octaves cost about d^2 / 12 bits more.
constexpr double kBitsPerSquaredOffset = 1.0 / 12;
constexpr double kBitsPerChannel = 3;

}  // namespace

std::vector<LookedToken> TokensToLookAt(std::span<const double> energies, std::uint32_t hidden) {
  std::vector<LookedToken> tokens;
  const std::size_t stride = std::max<std::size_t>(energies.size() / kTokensLooked, 1);
  for (std::size_t t = 0; t < energies.size(); t += stride) {
    const double rms = std::sqrt(energies[t] / hidden);
    if (rms < 0x1p-100) continue;
    tokens.push_back({t, static_cast<float>(1 / rms)});
  }
  if (tokens.size() < kTokensMin) tokens.clear();
  return tokens;
}

ChannelOffsets FitChannels(std::span<const float> squares, std::size_t looked, std::size_t tokens) {
  if (looked == 0) return {};
  ChannelOffsets offsets(squares.size());
  double squared = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const double mean = squares[i] / static_cast<double>(looked);
    // The nearest octave of energy.
    const int octave = mean == 0 ? -kChannelOffsetMost : std::ilogb(mean * std::numbers::sqrt2);
    offsets[i] =
        static_cast<std::int8_t>(std::clamp(octave, -kChannelOffsetMost, kChannelOffsetMost));
    squared += offsets[i] * offsets[i];
  }
  const double saved = squared * kBitsPerSquaredOffset * static_cast<double>(tokens);
  const double paid = kBitsPerChannel * static_cast<double>(squares.size());
  return saved > paid ? offsets : ChannelOffsets();
}

void WriteChannels(const ChannelOffsets& offsets, BitWriter* writer) {
  writer->Put(offsets.empty() ? 0 : 1, 1);
  for (const std::int8_t offset : offsets) writer->PutSigned(offset);
}

bool ReadChannels(BitReader* reader, std::size_t hidden, ChannelOffsets* offsets) {
  offsets->clear();
  if (reader->Get(1) == 0) return reader->ok();
  offsets->resize(hidden);
  for (std::int8_t& offset : *offsets) {
    offset = static_cast<std::int8_t>(reader->GetSigned(kChannelOffsetMost));
    if (!reader->ok()) return false;
  }
  return true;
}

std::uint16_t TableOfValue(std::size_t energy_class, int offset) {
  const int c = static_cast<int>(energy_class) + offset;
  const int least = IsWideClass(energy_class) ? kNarrowClassMax + 1 : 1;
  const int most =
      IsWideClass(energy_class) ? static_cast<int>(kEnergyClasses) - 1 : int{kNarrowClassMax};
  return static_cast<std::uint16_t>(std::clamp(c, least, most));
}

std::array<bool, kEnergyClasses> TablesUsed(const std::array<bool, kEnergyClasses>& classes,
                                            const ChannelOffsets& offsets) {
  if (offsets.empty()) return classes;
  std::array<bool, 2 * kChannelOffsetMost + 1> seen{};
  for (const std::int8_t offset : offsets) {
    seen[static_cast<std::size_t>(offset + kChannelOffsetMost)] = true;
  }
  std::array<bool, kEnergyClasses> used{};
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    for (int offset = -kChannelOffsetMost; classes[c] && offset <= kChannelOffsetMost; ++offset) {
      if (seen[static_cast<std::size_t>(offset + kChannelOffsetMost)]) {
        used[TableOfValue(c, offset)] = true;
      }
    }
  }
  return used;
}

}  // namespace shoal::compression
