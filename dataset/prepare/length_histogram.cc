#include "dataset/prepare/length_histogram.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>

namespace shoal::dataset {
namespace {

constexpr int kBarsMax = 8;
constexpr int kCells = 40;
constexpr int kBitsMax = 32;

// The bar of lengths in (2^(n-1), 2^n] is n; of 0 and 1 it is 0.
int BarOf(std::uint32_t length) { return length < 2 ? 0 : std::bit_width(length - 1); }

std::uint32_t EndOfBar(int bar) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << bar) - (bar == kBitsMax ? 1 : 0));
}

}  // namespace

std::vector<LengthBar> HistogramOf(std::span<const std::uint32_t> lengths) {
  if (lengths.empty()) return {};
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  const int last = BarOf(*longest);
  const int first = std::max(BarOf(*shortest), last - kBarsMax + 1);
  std::vector<LengthBar> bars;
  for (int bar = first; bar <= last; ++bar) {
    bars.push_back({bar == first ? *shortest : EndOfBar(bar - 1) + 1, EndOfBar(bar), 0});
  }
  bars.back().to = *longest;
  for (const std::uint32_t length : lengths) {
    const int bar = std::max(BarOf(length), first);
    ++bars[static_cast<std::size_t>(bar - first)].samples;
  }
  return bars;
}

std::string FormatHistogram(std::span<const LengthBar> bars) {
  std::uint64_t most = 1;
  for (const LengthBar& bar : bars) most = std::max(most, bar.samples);
  std::string text;
  for (const LengthBar& bar : bars) {
    const std::string range = std::to_string(bar.from) + "-" + std::to_string(bar.to);
    char line[64];
    std::snprintf(line, sizeof(line), "%15s  %10llu  ", range.c_str(),
                  static_cast<unsigned long long>(bar.samples));
    // What is there at all shows.
    const std::uint64_t cells = (bar.samples * kCells + most - 1) / most;
    text += line + std::string(cells, '#') + "\n";
  }
  return text;
}

}  // namespace shoal::dataset
