#include "compression/codecs/klt/klt_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/memory/buffer.h"
#include "compression/api/typical_energy.h"
#include "compression/codecs/low_rank/change_basis.h"
#include "compression/simd/low_rank_kernels.h"
#include "compression/simd/rough_products.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kSignStream = 17;
// Evenly spaced tokens that are looked at: so many at least, or a few times the directions.
constexpr std::size_t kLookedLeast = 512;
constexpr std::size_t kLookedPerDirection = 12;
// One in so many of them is not for finding directions, but for judging what these save: in the
// tokens that it was found in, any direction seems to.
constexpr std::size_t kJudgesOneIn = 4;
// Of a vector, what rounding may be, relative to its norm. A direction loses twice the square of
// it to the others.
constexpr double kVectorError = 0.1;
// What a code of a vector takes then.
constexpr double kBitsPerCode = 3.7;

// Tokens in one piece, over the step; those far above the median count as if they were not.
class LookedTokens {
 public:
  // `tokens`: which ones, `rows`: their values, `energies`: of all tokens.
  LookedTokens(std::span<const std::size_t> tokens, std::span<const float* const> rows,
               std::uint32_t hidden, std::span<const double> energies, float step)
      : hidden_(hidden), energies_(energies), step_(step), loudest_(TypicalEnergyMost(energies)) {
    std::vector<Row> finders, judges;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      (i % kJudgesOneIn == kJudgesOneIn - 1 ? judges : finders).push_back({tokens[i], rows[i]});
    }
    finders_ = Take(finders);
    judges_ = Take(judges);
  }

  struct Matrix {
    SampleShape shape;
    Buffer values;
    double energy = 0;
  };
  const Matrix& finders() const { return finders_; }
  const Matrix& judges() const { return judges_; }

 private:
  struct Row {
    std::size_t token = 0;
    const float* values = nullptr;
  };

  Matrix Take(std::span<const Row> rows) const {
    Matrix taken;
    taken.shape = {static_cast<std::uint32_t>(rows.size()), hidden_};
    taken.values = Buffer(taken.shape.values() * sizeof(float));
    float* to = taken.values.floats().data();
    for (const auto& [token, x] : rows) {
      const double counted = std::min(energies_[token], loudest_);
      const double root = counted == energies_[token] ? 1 : std::sqrt(counted / energies_[token]);
      const double factor = root / step_;
      for (std::size_t h = 0; h < hidden_; ++h) *to++ = static_cast<float>(x[h] * factor);
      taken.energy += counted / step_ / step_;
    }
    return taken;
  }

  const std::uint32_t hidden_;
  const std::span<const double> energies_;
  const double step_;
  const double loudest_;
  Matrix finders_, judges_;
};

// The energy of the judges along each direction.
std::vector<double> JudgedEnergies(const LookedTokens::Matrix& judges, const ChangeBasis& found,
                                   std::size_t rank) {
  const std::size_t width = found.width, tokens = judges.shape.tokens;
  std::vector<float> along(tokens * width);
  RoughTimesFactor(judges.values.floats().data(), tokens, judges.shape.hidden, found.right.data(),
                   width, along.data());
  std::vector<double> energies(rank), norms(rank);
  for (std::size_t i = 0; i < along.size(); ++i) {
    if (i % width < rank) energies[i % width] += double{along[i]} * along[i];
  }
  for (std::size_t i = 0; i < found.right.size(); ++i) {
    if (i % width < rank) norms[i % width] += double{found.right[i]} * found.right[i];
  }
  for (std::size_t k = 0; k < rank; ++k) energies[k] = norms[k] > 0 ? energies[k] / norms[k] : 0;
  return energies;
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
  std::vector<double> norms, x(hidden);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t h = 0; h < hidden; ++h) x[h] = directions.right[h * directions.width + k];
    for (std::size_t i = 0; i < k; ++i) {
      const double* v = vectors[i].data();
      SubtractScaled(v, 2 * Dot(v, x.data(), hidden) / norms[i], hidden, x.data());
    }
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
    norms.push_back(Dot(v.data(), v.data(), hidden));
  }
  return made;
}

// The most directions that a message of so many tokens is looked at for.
std::size_t DirectionsMost(std::size_t tokens, std::uint32_t hidden, std::size_t rank_most) {
  return std::min<std::size_t>({rank_most, hidden - 1, tokens / kLookedPerDirection});
}

}  // namespace

std::vector<std::size_t> TokensToFit(std::size_t tokens, std::uint32_t hidden,
                                     std::size_t rank_most) {
  std::vector<std::size_t> looked;
  const std::size_t most = DirectionsMost(tokens, hidden, rank_most);
  if (most == 0) return looked;
  const std::size_t count = std::max(kLookedLeast, kLookedPerDirection * most);
  const std::size_t stride = (tokens + count - 1) / count;
  for (std::size_t t = stride / 2; t < tokens; t += stride) looked.push_back(t);
  return looked;
}

ReflectorCodes FitReflectors(std::span<const float* const> rows, std::uint32_t hidden,
                             std::span<const double> energies, float step, std::size_t rank_most,
                             const RandomKey& key) {
  ReflectorCodes none;
  none.hidden = hidden;
  const std::vector<std::size_t> tokens = TokensToFit(energies.size(), hidden, rank_most);
  SHOAL_CHECK(rows.size() == tokens.size());
  if (tokens.empty()) return none;
  const std::size_t most = DirectionsMost(energies.size(), hidden, rank_most);
  const LookedTokens looked(tokens, rows, hidden, energies, step);
  const LookedTokens::Matrix& finders = looked.finders();
  const LookedTokens::Matrix& judges = looked.judges();
  const auto signs = RandomSigns(key, kSignStream, finders.shape.tokens);
  const ChangeSketch sketch({finders.values.floats(), finders.shape, {}}, most, signs);
  const std::size_t found = std::min(most, sketch.energies().size());
  const ChangeBasis directions = sketch.Leading(found);
  const std::size_t rank = BestRank(JudgedEnergies(judges, directions, found), judges.energy,
                                    judges.shape.tokens, energies.size(), hidden);
  return rank == 0 ? none : RoundReflectors(directions, rank, hidden);
}

}  // namespace shoal::compression
