#include "compression/codecs/learned_levels.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::compression {
namespace {

constexpr int kLloydSteps = 300;
constexpr double kUnits = 65535;
constexpr std::size_t kDigits = 4;  // of a point

// Integrals from 0 to a place of the density that the counts stand for, constant in each bin, and
// of it times place.
class Density {
 public:
  explicit Density(std::span<const float> counts) : counts_(counts) {
    for (std::size_t i = 0; i < kLevelBins; ++i) {
      const Sums part = Part(i, 1);
      const Sums& last = before_[i];
      before_[i + 1] = {last.mass + part.mass, last.first + part.first};
    }
  }

  struct Sums {
    double mass = 0, first = 0;
  };
  Sums Between(double from, double to) const {
    const Sums a = UpTo(from), b = UpTo(to);
    return {b.mass - a.mass, b.first - a.first};
  }
  double mass() const { return before_[kLevelBins].mass; }

 private:
  // Of the first `share` of bin i.
  Sums Part(std::size_t i, double share) const {
    const double from = static_cast<double>(i) / kLevelBins, to = from + share / kLevelBins;
    const double mass = double{counts_[i]} * share;
    return {mass, mass * (from + to) / 2};
  }
  Sums UpTo(double place) const {
    const double bins = std::clamp(place, 0.0, 1.0) * kLevelBins;
    const auto i = std::min(static_cast<std::size_t>(bins), kLevelBins - 1);
    const Sums part = Part(i, bins - static_cast<double>(i));
    const Sums& last = before_[i];
    return {last.mass + part.mass, last.first + part.first};
  }

  const std::span<const float> counts_;
  std::array<Sums, kLevelBins + 1> before_;
};

// What belongs to point k.
Density::Sums Cell(const Density& density, std::span<const double> points, std::size_t k) {
  const double from = k == 0 ? 0 : (points[k - 1] + points[k]) / 2;
  const double to = k + 1 == points.size() ? 1 : (points[k] + points[k + 1]) / 2;
  return density.Between(from, to);
}

LevelTable Rounded(std::span<const double> points) {
  LevelTable levels(points.size());
  std::int32_t least = 0;
  for (std::size_t k = 0; k < points.size(); ++k) {
    const auto most = static_cast<std::int32_t>(kUnits) - static_cast<std::int32_t>(levels.size()) +
                      1 + static_cast<std::int32_t>(k);
    const auto point = static_cast<std::int32_t>(points[k] * kUnits + 0.5);
    const std::int32_t level = std::clamp(point, least, most);
    levels[k] = static_cast<std::uint16_t>(level);
    least = level + 1;
  }
  return levels;
}

Status CheckBits(int bits) {
  if (bits >= 1 && bits <= kLearnedBitsMax) return Status::Ok();
  return InvalidArgument("levels are learned for 1 to 5 bits, not " + std::to_string(bits) +
                         "; with more take shifted or direct, which lose little then");
}

}  // namespace

LevelHistogram HistogramOf(std::span<const float> values, std::uint32_t bucket) {
  SHOAL_CHECK(bucket > 0);
  std::array<std::uint64_t, kLevelBins> counts{};
  for (std::size_t first = 0; first < values.size(); first += bucket) {
    const auto part = values.subspan(first, std::min<std::size_t>(bucket, values.size() - first));
    const auto [low, high] = std::minmax_element(part.begin(), part.end());
    const double from = *low, width = double{*high} - from;
    if (width == 0) continue;
    const double scale = kLevelBins / width;
    for (const float v : part) {
      const auto bin = static_cast<std::size_t>((double{v} - from) * scale);
      ++counts[std::min(bin, kLevelBins - 1)];
    }
  }
  LevelHistogram histogram;
  for (std::size_t i = 0; i < kLevelBins; ++i) histogram[i] = static_cast<float>(counts[i]);
  return histogram;
}

void AddCounts(const LevelHistogram& counts, LevelHistogram* sum) {
  for (std::size_t i = 0; i < counts.size(); ++i) (*sum)[i] += counts[i];
}

LevelTable UniformLevels(int bits) {
  SHOAL_CHECK(bits >= 1 && bits <= kLearnedBitsMax);
  std::vector<double> points(std::size_t{1} << bits);
  for (std::size_t k = 0; k < points.size(); ++k) {
    points[k] = static_cast<double>(k) / static_cast<double>(points.size() - 1);
  }
  return Rounded(points);
}

Result<LevelTable> LearnLevels(std::span<const float> counts, int bits) {
  SHOAL_RETURN_IF_ERROR(CheckBits(bits));
  if (counts.size() != kLevelBins) {
    return InvalidArgument("a histogram for levels has 256 counts, not " +
                           std::to_string(counts.size()));
  }
  for (const float count : counts) {
    if (std::isfinite(count) && count >= 0 && count <= 0x1p100F) continue;
    return InvalidArgument("a histogram for levels has a count of " + std::to_string(count) +
                           "; counts are finite and not negative");
  }
  const Density density(counts);
  if (density.mass() == 0) return UniformLevels(bits);
  std::vector<double> points(std::size_t{1} << bits);
  for (std::size_t k = 0; k < points.size(); ++k) {
    points[k] = (static_cast<double>(k) + 0.5) / static_cast<double>(points.size());
  }
  for (int step = 0; step < kLloydSteps; ++step) {
    std::vector<double> next = points;
    for (std::size_t k = 0; k < points.size(); ++k) {
      const Density::Sums cell = Cell(density, points, k);
      if (cell.mass > 0) next[k] = std::clamp(cell.first / cell.mass, 0.0, 1.0);
    }
    points = std::move(next);
  }
  std::sort(points.begin(), points.end());
  return Rounded(points);
}

std::string LevelText(std::span<const std::uint16_t> levels) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const std::uint16_t level : levels) {
    for (int shift = 12; shift >= 0; shift -= 4) text += kHex[level >> shift & 15];
  }
  return text;
}

Result<LevelTable> ParseLevels(std::string_view text, int bits) {
  SHOAL_RETURN_IF_ERROR(CheckBits(bits));
  LevelTable levels(std::size_t{1} << bits);
  const auto wrong = [&levels] {
    return InvalidArgument("levels= takes " + std::to_string(levels.size()) +
                           " ascending numbers of four hexadecimal digits without anything between "
                           "them");
  };
  if (text.size() != kDigits * levels.size()) return wrong();
  for (std::size_t k = 0; k < levels.size(); ++k) {
    const char* const from = text.data() + kDigits * k;
    const auto [end, error] = std::from_chars(from, from + kDigits, levels[k], 16);
    if (error != std::errc() || end != from + kDigits) return wrong();
    if (k > 0 && levels[k] <= levels[k - 1]) return wrong();
  }
  return levels;
}

std::uint64_t LevelChecksum(std::span<const std::uint16_t> levels) {
  std::vector<std::byte> bytes(2 * levels.size());
  for (std::size_t k = 0; k < levels.size(); ++k) StoreLittle(bytes.data() + 2 * k, levels[k]);
  return Checksum64(bytes);
}

}  // namespace shoal::compression
