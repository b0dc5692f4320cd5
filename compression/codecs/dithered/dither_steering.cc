#include "compression/codecs/dithered/dither_steering.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "compression/codecs/dithered/dither_tables.h"
#include "compression/entropy/rans_table.h"
#include "compression/simd/dither_kernels.h"

namespace shoal::compression {
namespace {

// Bits of a Gaussian value of 2^(-7 + i/2) steps, given which quarter the dither lies in.
constexpr double kGaussianBits[] = {0.0407, 0.0541, 0.0709, 0.0916, 0.1168, 0.1473, 0.1879,
                                    0.2487, 0.3390, 0.4701, 0.6578, 0.9187, 1.2572, 1.6599,
                                    2.1057, 2.5770, 3.0622, 3.5547, 4.0509};
constexpr int kPoints = static_cast<int>(std::size(kGaussianBits));
constexpr int kFirstOctave = -14;  // of the square

// Energies fall into eighths of an octave: the model is then a sum over bins.
constexpr int kBinsPerOctave = 8;
constexpr int kOctaveMin = -256;
constexpr int kBins = (256 + 256) * kBinsPerOctave;

constexpr std::size_t kSampledTokens = 128;
constexpr std::size_t kSampledValues = 256;
constexpr int kHalvings = 24;
// Steps, sizes, states, and a table for a class.
constexpr double kFixedBits = 8 * (28 + 8);
constexpr double kLaneBits = 32;
constexpr double kTableBits = 100;
constexpr double kClassBits = 3;

// Bits of a value whose mean square is 2^octave steps squared.
double GaussianBits(double octave) {
  const double at = octave - kFirstOctave;
  if (at <= 0) return kGaussianBits[0] * std::exp2(0.4 * at);
  if (at >= kPoints - 1) return kGaussianBits[kPoints - 1] + (at - (kPoints - 1)) / 2;
  const int below = static_cast<int>(at);
  const double part = at - below;
  return kGaussianBits[below] * (1 - part) + kGaussianBits[below + 1] * part;
}

// How many tokens have which mean square, on a logarithmic scale.
class EnergyHistogram {
 public:
  EnergyHistogram(std::span<const double> energies, std::size_t hidden) : bins_(kBins) {
    for (const double energy : energies) {
      if (energy == 0) continue;
      const double octave = std::log2(energy / static_cast<double>(hidden));
      const int bin = static_cast<int>((octave - kOctaveMin) * kBinsPerOctave);
      ++bins_[static_cast<std::size_t>(std::clamp(bin, 0, kBins - 1))];
    }
    tokens_ = static_cast<double>(energies.size());
  }
  // Bits a value that the model expects at a step of 2^log_step.
  double Bits(double log_step) const {
    double bits = 0;
    for (int b = 0; b < kBins; ++b) {
      const auto count = bins_[static_cast<std::size_t>(b)];
      if (count == 0) continue;
      const double octave = kOctaveMin + (b + 0.5) / kBinsPerOctave;
      bits += count * GaussianBits(octave - 2 * log_step);
    }
    return bits / tokens_;
  }
  // The step (log2) within [least, most] with `bits` bits a value.
  double LogStep(double bits, double least, double most) const {
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (least + most) / 2;
      (Bits(middle) > bits ? least : most) = middle;
    }
    return (least + most) / 2;
  }

 private:
  std::vector<std::uint32_t> bins_;
  double tokens_ = 0;
};

// Coded bits of evenly spaced tokens over what the model says of them.
double MeasuredOverModel(double step, std::size_t tokens, std::span<const float* const> rows,
                         std::uint32_t hidden, const std::array<std::uint32_t, 2>& key) {
  std::vector<CellCounter> counters(kEnergyClasses);
  const std::size_t values = SteeringValues(hidden);
  const auto inverse = static_cast<float>(1 / step);
  std::uint16_t words[kSampledValues];
  std::uint8_t cells[kSampledValues];
  double model = 0;
  const std::vector<std::size_t> sampled = SteeringTokens(tokens);
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    const float* x = rows[i];
    const double energy = SumOfSquares(x, values);
    const std::uint8_t c = EnergyClassOf(energy, values, static_cast<float>(step));
    if (c == 0) continue;
    DitherWords(key, sampled[i], 0, (values + kDitherGroup - 1) / kDitherGroup, words);
    QuantiseDithered(x, words, values, inverse, IsWideClass(c), cells);
    counters[c].Add({cells, values});
    const double octave = std::log2(energy / static_cast<double>(values)) - 2 * std::log2(step);
    model += GaussianBits(octave) * static_cast<double>(values);
  }
  double measured = 0;
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    const auto counts = counters[c].Totals();
    if (std::all_of(counts.begin(), counts.end(), [](auto n) { return n == 0; })) continue;
    const auto frequencies = CellFrequencies(FitDensity(counts, IsWideClass(c)), IsWideClass(c));
    for (std::size_t cell = 0; cell < counts.size(); ++cell) {
      if (counts[cell] == 0) continue;
      const int eighths = LevelOf(std::max<std::uint16_t>(frequencies[cell], 1), kRansTotal);
      measured += counts[cell] * (eighths / 8.0);
    }
  }
  return model > 0 ? std::clamp(measured / model, 0.25, 4.0) : 1.0;
}

// Bits of what a message holds besides codes.
double SideBits(std::size_t tokens, std::size_t values) {
  const double tables = kTableBits * static_cast<double>(std::min<std::size_t>(tokens, 10));
  return kFixedBits + kLaneBits * static_cast<double>(RansLanesFor(values)) + tables +
         kClassBits * static_cast<double>(tokens);
}

}  // namespace

std::vector<std::size_t> SteeringTokens(std::size_t tokens) {
  std::vector<std::size_t> sampled;
  const std::size_t stride = std::max<std::size_t>(tokens / kSampledTokens, 1);
  for (std::size_t t = 0; t < tokens; t += stride) sampled.push_back(t);
  return sampled;
}

std::size_t SteeringValues(std::uint32_t hidden) {
  return std::min<std::size_t>(hidden, kSampledValues);
}

double StepForRate(double rate, std::span<const double> energies,
                   std::span<const float* const> rows, std::uint32_t hidden,
                   const std::array<std::uint32_t, 2>& key, double least, double most) {
  double total = 0;
  for (const double energy : energies) total += energy;
  const auto values = static_cast<double>(energies.size()) * hidden;
  const double log_rms = std::log2(total / values) / 2;
  const double low = log_rms + std::log2(least);
  const double high = log_rms + std::log2(most);
  const double side = SideBits(energies.size(), energies.size() * hidden) / values;
  const double wanted = std::max(rate - side, rate / 8);
  const EnergyHistogram histogram(energies, hidden);
  double log_step = histogram.LogStep(wanted, low, high);
  for (int i = 0; i < 2; ++i) {
    const double ratio = MeasuredOverModel(std::exp2(log_step), energies.size(), rows, hidden, key);
    log_step = histogram.LogStep(wanted / ratio, low, high);
  }
  return std::exp2(log_step);
}

}  // namespace shoal::compression
