// One-bit sums: signs as bits, and the merge that keeps their average unbiased.
//
// Source: Marsit, "Sign Bit is Enough" (DAC 2022), section 4.1. A bit that stands for n_rx members
// meets one that stands for n_lo. If they differ, the local one is taken with probability n_lo /
// (n_rx + n_lo). So every member's bit ends up as the outcome equally often. Bits are 64 to a word,
// value i at bit i % 64 of word i / 64; 1 is +. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_ONE_BIT_H_
#define SHOAL_REPLICA_COLLECTIVE_ONE_BIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"

namespace shoal::collective {

inline constexpr std::size_t kSignsPerWord = 64;

inline std::size_t SignWords(std::size_t values) {
  return values / kSignsPerWord + (values % kSignsPerWord == 0 ? 0 : 1);
}

// The random words of one merge, by counter: nothing is stored, and none is used twice as long as
// no two merges have the same key. Philox 4x32-10 (Salmon et al., SC 2011). The key of the merge is
// the first half of the block at counter (round low, round high, slice, draw) under `seed`. Level l
// of word w is half l % 2 of that key's block at counter (k low, k high, 0, 0), k = 16 w + l / 2.
class MergeNoise {
 public:
  static constexpr std::size_t kLevels = 32;

  // `draw`: see RingDrawOf.
  MergeNoise(std::uint64_t seed, std::uint64_t round, std::uint32_t slice, std::uint32_t draw);
  // Levels 2 * pair and 2 * pair + 1 of word `word` of the slice; pair below kLevels / 2.
  std::array<std::uint64_t, 2> Pair(std::uint64_t word, std::size_t pair) const;

 private:
  std::array<std::uint32_t, 2> key_;
};

// n_lo / (n_rx + n_lo) in units of 2^-32, rounded to nearest; at least one of both must not be 0.
std::uint64_t TakeThreshold(std::uint32_t received, std::uint32_t own);

// words = received xor ((received xor words) and take). Bit j of word w of `take` is 1 if a random
// 32-bit number is below TakeThreshold. That number's bits, highest first, are bit j of levels 0 to
// 31 of word first_word + w. `words`: this member's bits, then the outcome; equal sizes. Where one
// side has no members (count 0), the other side's bits are taken.
void MergeSigns(std::span<const std::uint64_t> received, std::uint32_t received_members,
                std::uint32_t own_members, const MergeNoise& noise, std::uint64_t first_word,
                std::span<std::uint64_t> words);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_ONE_BIT_H_
