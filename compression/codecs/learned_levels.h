// Levels that fit the values: where in a bucket's range the 2^b points of a code should lie.
//
// Source: QSDP (Markov, Vladu, Guo, Alistarh, ICML 2023), section 5.2 and appendix C. The paper
// moves levels by one pass of stochastic gradient descent over the values. Here Lloyd's algorithm
// ("Least squares quantization in PCM", IEEE Trans. Inf. Theory, 1982) runs on a histogram: the
// errors are the same, and the order of values does not matter. The members of a stage group add
// up their histograms and compute the same levels from the same sums. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LEARNED_LEVELS_H_
#define SHOAL_COMPRESSION_CODECS_LEARNED_LEVELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::compression {

inline constexpr std::size_t kLevelBins = 256;
inline constexpr int kLearnedBitsMax = 5;  // more gain little

// Counts as fp32, which is what exchanges add up.
using LevelHistogram = std::array<float, kLevelBins>;

// Where the values of each bucket lie between its smallest and its largest: bin i counts those in
// [i, i + 1) / 256 of its range, the largest in the last. Buckets are `bucket` adjacent values, the
// last of what is left; those of one value only do not count. Values are finite.
LevelHistogram HistogramOf(std::span<const float> values, std::uint32_t bucket);
void AddCounts(const LevelHistogram& counts, LevelHistogram* sum);

// 2^bits points, strictly ascending; p stands for smallest value + width * p / 65535.
using LevelTable = std::vector<std::uint16_t>;

// Points at equal distances, both ends included.
LevelTable UniformLevels(int bits);
// The points with the least mean squared error that Lloyd's algorithm finds from equal distances.
// `counts`: kLevelBins, finite, not negative; bits 1 to 5. No counts at all: UniformLevels. Only
// fp64 additions, multiplications and divisions in a fixed order: the same on every machine.
Result<LevelTable> LearnLevels(std::span<const float> counts, int bits);

// Four hexadecimal digits a point, and back: an error unless these are 2^bits ascending points.
std::string LevelText(std::span<const std::uint16_t> levels);
Result<LevelTable> ParseLevels(std::string_view text, int bits);
// XXH3-64 of the points as u16: what sections carry.
std::uint64_t LevelChecksum(std::span<const std::uint16_t> levels);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LEARNED_LEVELS_H_
