// What CodingStats look at: the errors of one block of so many of each sample, the changes of all
// tokens. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_CODING_SAMPLE_H_
#define SHOAL_COMPRESSION_CODECS_CODING_SAMPLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/api/codec.h"

namespace shoal::compression {

inline constexpr std::size_t kStatsBlock = 2048;  // values
inline constexpr std::size_t kStatsShare = 8;     // one block of so many is looked at

inline bool Counted(std::size_t sample, std::size_t block) {
  return (sample + block) % kStatsShare == 0;
}
// Figures of a message are estimated from tokens TokenStride / 2, and each TokenStride-th from
// there on: about 64, or all of a small message. Odd and not from the first on, so that the first
// tokens of rows, which are like no others (attention sinks), are not looked at more often than
// others.
inline std::size_t TokenStride(std::size_t tokens) { return tokens / 64 | 1; }

// The errors of a sample.
void CountErrors(std::size_t sample, std::span<const float> x, const float* decoded,
                 CodingStats* stats);

// Counts the tokens of one sample with an m, whose values come in order in runs that may end
// within a token.
class TokenCounter {
 public:
  TokenCounter(std::uint32_t hidden, TokenChanges* changes) : hidden_(hidden), changes_(changes) {}

  // The next `count` values and their changes.
  void Add(const float* x, const float* delta, std::size_t count);

 private:
  const std::size_t hidden_;
  TokenChanges* const changes_;
  std::size_t seen_ = 0;  // values of the token at hand
  double values_ = 0, change_ = 0;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_CODING_SAMPLE_H_
