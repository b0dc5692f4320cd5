#include "replica/collective/one_bit.h"

#include <Random123/philox.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace shoal::collective {
namespace {

// Lanes of `open` whose number is below `threshold` (1 to 2^32 - 1). The comparison goes from the
// highest bit down. It ends when no lane is left whose bits equal the threshold's so far, after
// some 8 of 32 levels. It ends at once where the threshold has no more ones.
std::uint64_t TakeMask(const MergeNoise& noise, std::uint64_t word, std::uint32_t threshold,
                       std::uint64_t open) {
  std::uint64_t take = 0;
  for (std::size_t pair = 0; open != 0 && threshold != 0; ++pair) {
    for (const std::uint64_t random : noise.Pair(word, pair)) {
      if (threshold >> 31 != 0) {
        take |= open & ~random;
        open &= random;
      } else {
        open &= ~random;
      }
      threshold <<= 1;
    }
  }
  return take;
}

}  // namespace

MergeNoise::MergeNoise(std::uint64_t seed, std::uint64_t round, std::uint32_t slice,
                       std::uint32_t draw) {
  const auto block = r123::Philox4x32()(
      {{static_cast<std::uint32_t>(round), static_cast<std::uint32_t>(round >> 32), slice, draw}},
      {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
  key_ = {block[0], block[1]};
}

std::array<std::uint64_t, 2> MergeNoise::Pair(std::uint64_t word, std::size_t pair) const {
  const std::uint64_t k = word * (kLevels / 2) + pair;
  const auto block = r123::Philox4x32()(
      {{static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32), 0, 0}},
      {{key_[0], key_[1]}});
  return {block[0] | static_cast<std::uint64_t>(block[1]) << 32,
          block[2] | static_cast<std::uint64_t>(block[3]) << 32};
}

std::uint64_t TakeThreshold(std::uint32_t received, std::uint32_t own) {
  const std::uint64_t all = std::uint64_t{received} + own;
  SHOAL_CHECK(all != 0);
  return ((std::uint64_t{own} << 32) + all / 2) / all;
}

void MergeSigns(std::span<const std::uint64_t> received, std::uint32_t received_members,
                std::uint32_t own_members, const MergeNoise& noise, std::uint64_t first_word,
                std::span<std::uint64_t> words) {
  SHOAL_CHECK(received.size() == words.size());
  if (received_members == 0) return;
  if (own_members == 0) {
    std::ranges::copy(received, words.begin());
    return;
  }
  const std::uint64_t exact = TakeThreshold(received_members, own_members);
  // 2^32 - 1 stands in for certainty, which only counts beyond 2^31 could round to.
  const auto threshold = static_cast<std::uint32_t>(std::min<std::uint64_t>(exact, 0xffffffff));
  for (std::size_t w = 0; w < words.size(); ++w) {
    const std::uint64_t differ = received[w] ^ words[w];
    words[w] = received[w] ^ (differ & TakeMask(noise, first_word + w, threshold, differ));
  }
}

}  // namespace shoal::collective
