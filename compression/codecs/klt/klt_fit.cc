#include "compression/codecs/klt/klt_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/buffer.h"
#include "compression/api/message_noise.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/low_rank/change_basis.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kSignStream = 17;
// Directions are looked for in so many tokens, evenly spaced, or a few times their number.
constexpr std::size_t kLookedMost = 1024;
constexpr std::size_t kLookedPerDirection = 8;
// Of a vector, what rounding may be, relative to its norm. A direction loses twice the square of
// it to the others.
constexpr double kVectorError = 0.1;
// What a code of a vector takes then.
constexpr double kBitsPerCode = 3.7;

// Tokens in one piece, over the step; those far above the median count as if they were not.
struct LookedTokens {
  SampleShape shape;
  Buffer values;
  double energy = 0;
};

LookedTokens LookAt(std::span<const std::span<const float>> samples, SampleShape shape,
                    std::span<const double> energies, float step, std::size_t most) {
  std::vector<double> sorted(energies.begin(), energies.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double loudest = *middle > 0 ? kTypicalEnergyMost * *middle : HUGE_VAL;
  const std::size_t stride = (energies.size() + most - 1) / most;
  LookedTokens looked;
  looked.shape.hidden = shape.hidden;
  looked.shape.tokens = static_cast<std::uint32_t>(energies.size() / stride);
  looked.values = Buffer(looked.shape.values() * sizeof(float));
  float* to = looked.values.floats().data();
  for (std::size_t i = 0; i < looked.shape.tokens; ++i, to += shape.hidden) {
    const std::size_t t = i * stride + stride / 2;
    const double counted = std::min(energies[t], loudest);
    const double root = counted == energies[t] ? 1 : std::sqrt(counted / energies[t]);
    const double factor = root / static_cast<double>(step);
    const float* x = samples[t / shape.tokens].data() + t % shape.tokens * shape.hidden;
    for (std::size_t h = 0; h < shape.hidden; ++h) to[h] = static_cast<float>(x[h] * factor);
    looked.energy += counted / static_cast<double>(step) / static_cast<double>(step);
  }
  return looked;
}

// Bits of a dithered Gaussian value of this variance in steps, about (Zamir and Feder, 1992).
double BitsOf(double variance) { return 0.5 * std::log2(1 + 12 * variance); }

// The number of directions, the largest first, with which a message of `tokens` takes the fewest
// bits. `energy` and `directions` are sums over `looked` tokens.
std::size_t BestRank(std::span<const double> directions, double energy, std::size_t looked,
                     std::size_t tokens, std::size_t hidden) {
  const auto count = static_cast<double>(looked);
  double leading = 0, left = energy;
  double best =
      static_cast<double>(tokens * hidden) * BitsOf(energy / count / static_cast<double>(hidden));
  std::size_t rank = 0;
  for (std::size_t k = 0; k < directions.size(); ++k) {
    leading += BitsOf(directions[k] / count);
    left = std::max(left - directions[k], 0.0);
    const auto rest = static_cast<double>(hidden - k - 1);
    const double bits =
        static_cast<double>(tokens) * (leading + rest * BitsOf(left / count / rest));
    const double side = kBitsPerCode * static_cast<double>(ReflectorCodeCount(k + 1, hidden));
    if (bits + side >= best) continue;
    best = bits + side;
    rank = k + 1;
  }
  return rank;
}

// x becomes H x for the reflection of vector v, of which only positions from `first` on are not 0.
void Reflect(std::span<const double> v, std::size_t first, std::span<double> x) {
  double along = 0, norm = 0;
  for (std::size_t h = first; h < v.size(); ++h) {
    along += v[h] * x[h];
    norm += v[h] * v[h];
  }
  const double factor = 2 * along / norm;
  for (std::size_t h = first; h < v.size(); ++h) x[h] -= factor * v[h];
}

// Reflectors that turn column k of `directions` onto position k. Each is chosen behind the rounded
// ones before it, so that their errors do not add up.
ReflectorCodes RoundReflectors(const ChangeBasis& directions, std::size_t rank,
                               std::uint32_t hidden) {
  ReflectorCodes made;
  made.rank = rank;
  made.hidden = hidden;
  const double unit = kVectorError * std::sqrt(12.0 / hidden);
  made.exponent =
      std::clamp(static_cast<int>(std::lround(-std::log2(unit))), 0, kReflectorExponentMost);
  made.codes.resize(rank * hidden);
  std::vector<std::vector<double>> vectors;
  std::vector<double> x(hidden);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t h = 0; h < hidden; ++h) x[h] = directions.right[h * directions.width + k];
    for (std::size_t i = 0; i < k; ++i) Reflect(vectors[i], i, x);
    double norm = 0;
    for (std::size_t h = k; h < hidden; ++h) norm += x[h] * x[h];
    const double pivot = x[k] + std::copysign(std::sqrt(norm), x[k]);
    std::vector<double>& v = vectors.emplace_back(hidden);
    v[k] = 1;
    for (std::size_t h = k + 1; h < hidden && pivot != 0; ++h) {
      const double code = std::clamp(std::round(std::ldexp(x[h] / pivot, made.exponent)),
                                     -1.0 * kReflectorCodeMost, 1.0 * kReflectorCodeMost);
      made.codes[k * hidden + h] = static_cast<std::int8_t>(code);
      v[h] = std::ldexp(code, -made.exponent);
    }
  }
  return made;
}

}  // namespace

ReflectorCodes FitReflectors(std::span<const std::span<const float>> samples, SampleShape shape,
                             std::span<const double> energies, float step, std::size_t rank_most,
                             const RandomKey& key) {
  ReflectorCodes none;
  none.hidden = shape.hidden;
  const std::size_t most =
      std::min<std::size_t>({rank_most, shape.hidden - 1, energies.size() / kLookedPerDirection});
  if (most == 0) return none;
  const LookedTokens looked =
      LookAt(samples, shape, energies, step, std::max(kLookedMost, kLookedPerDirection * most));
  std::vector<float> signs(looked.shape.tokens);
  FillUniform(key, kSignStream, 0, signs);
  for (float& sign : signs) sign = sign < 0.5F ? -1.0F : 1.0F;
  const ChangeSketch sketch({looked.values.floats(), looked.shape, {}}, most, signs);
  const auto found = std::span(sketch.energies());
  const std::size_t rank = BestRank(found.first(std::min(most, found.size())), looked.energy,
                                    looked.shape.tokens, energies.size(), shape.hidden);
  return rank == 0 ? none : RoundReflectors(sketch.Leading(rank), rank, shape.hidden);
}

}  // namespace shoal::compression
