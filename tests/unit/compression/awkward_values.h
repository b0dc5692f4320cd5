// Values that codecs may find hard.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_AWKWARD_VALUES_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_AWKWARD_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace shoal::compression {

using Values = std::vector<float>;

// Gaussian values with a bit of everything that is awkward.
inline Values Awkward(std::size_t n, std::uint64_t seed, float scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Values x(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = normal(random) * scale;
    switch (random() % 64) {
      case 0: x[i] = 0; break;
      case 1: x[i] = -0.0F; break;
      case 2: x[i] *= 0x1p-130F; break;  // subnormal
      case 3: x[i] *= 0x1p-20F; break;
      case 4: x[i] *= 30; break;
      default: break;
    }
    if (i / 256 % 7 == 3) x[i] = 0;                 // buckets of zeros
    if (i / 256 % 7 == 5) x[i] = x[i] * 0x1p-110F;  // buckets that count as zero
  }
  return x;
}

inline std::vector<Values> Samples(std::size_t count, std::size_t n, std::uint64_t seed,
                                   float scale = 1) {
  std::vector<Values> samples;
  for (std::size_t i = 0; i < count; ++i) samples.push_back(Awkward(n, seed * 100 + i, scale));
  return samples;
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_AWKWARD_VALUES_H_
