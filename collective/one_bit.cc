#include "collective/one_bit.h"

#include <Random123/philox.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace shoal::collective {
namespace {

constexpr std::uint32_t kExponent = 0x7f800000;
constexpr std::uint32_t kMinusZero = 0x80000000;

std::uint64_t PlusOf(float value) {
  // Positive numbers lie below -0 as integers, negative ones above.
  return std::bit_cast<std::uint32_t>(value) <= kMinusZero ? 1 : 0;
}

// Signs of 64 values, in two steps that vectorise: a byte a value, then 8 bytes to 8 bits.
std::uint64_t SignsOfWord(const float* values) {
  std::array<std::uint8_t, kSignsPerWord> plus;
  for (std::size_t j = 0; j < plus.size(); ++j) plus[j] = PlusOf(values[j]);
  std::uint64_t word = 0;
  for (std::size_t k = 0; k < 8; ++k) {
    std::uint64_t bytes;
    std::memcpy(&bytes, plus.data() + 8 * k, 8);
    // Byte i (0 or 1) times 2^(56 - 7i) is bit 56 + i; no other product reaches the top byte.
    word |= (bytes * 0x0102040810204080 >> 56) << 8 * k;
  }
  return word;
}

bool AllFinite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float value : values) {
    bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return bad == 0;
}

// The values of one byte of signs.
void UnpackByte(std::uint32_t byte, std::uint32_t plus, float* out) {
  constexpr std::uint32_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  for (std::size_t j = 0; j < 8; ++j) {
    out[j] = std::bit_cast<float>(plus ^ ((byte & kBits[j]) == 0 ? kMinusZero : 0));
  }
}

// Lanes of `open` whose number is below `threshold` (1 to 2^32 - 1). The comparison goes from the
// highest bit down and ends when no lane is left whose bits equal the threshold's so far: after
// some 8 of 32 levels, or at once where the threshold has no more ones.
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

Status PackSigns(std::span<const float> values, std::span<std::uint64_t> words) {
  SHOAL_CHECK(words.size() == SignWords(values.size()));
  if (!AllFinite(values)) {
    const auto at = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    return InvalidArgument("value " + std::to_string(at - values.begin()) + " of " +
                           std::to_string(values.size()) +
                           " is not finite, so it has no sign to exchange; lower the learning rate "
                           "or skip this step");
  }
  const std::size_t whole = values.size() / kSignsPerWord;
  for (std::size_t w = 0; w < whole; ++w) {
    words[w] = SignsOfWord(values.data() + w * kSignsPerWord);
  }
  if (whole < words.size()) words[whole] = 0;
  for (std::size_t i = whole * kSignsPerWord; i < values.size(); ++i) {
    words[whole] |= PlusOf(values[i]) << i % kSignsPerWord;
  }
  return Status::Ok();
}

void UnpackSigns(std::span<const std::uint64_t> words, float magnitude, std::span<float> out) {
  SHOAL_CHECK(words.size() == SignWords(out.size()));
  const auto plus = std::bit_cast<std::uint32_t>(magnitude);
  const std::size_t bytes = out.size() / 8;
  for (std::size_t k = 0; k < bytes; ++k) {
    UnpackByte(words[k / 8] >> k % 8 * 8 & 0xff, plus, out.data() + 8 * k);
  }
  for (std::size_t i = bytes * 8; i < out.size(); ++i) {
    const bool minus = (words[i / kSignsPerWord] >> i % kSignsPerWord & 1) == 0;
    out[i] = std::bit_cast<float>(plus ^ (minus ? kMinusZero : 0));
  }
}

MergeNoise::MergeNoise(std::uint64_t seed, std::uint64_t round, std::uint32_t segment,
                       std::uint32_t draw) {
  const auto block = r123::Philox4x32()(
      {{static_cast<std::uint32_t>(round), static_cast<std::uint32_t>(round >> 32), segment, draw}},
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
