// The arithmetic of dithered codes (dither_kernels.h says what it means), constexpr, so that GPU
// code compiles the same lines. Every fp32 operation is one rounded operation.
//
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_DITHER_CODE_H_
#define SHOAL_COMPRESSION_SIMD_DITHER_CODE_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace shoal::compression {

// Values that one group of sixteen Philox blocks gives words for, and the third word of their
// counters.
inline constexpr std::size_t kDitherGroup = 128;
inline constexpr std::uint32_t kDitherStream = 7;

// Codes -most ... most have symbols of a byte, others are escapes.
inline constexpr int kNarrowMost = 31;
inline constexpr int kWideMost = 127;
inline constexpr std::uint8_t kNarrowSymbolMask = 63;

// Adding 1.5 * 2^23 to a number below 2^22 leaves it, rounded to an integer, in the low bits.
inline constexpr float kDitherRounder = 0x1.8p23F;

constexpr float DitherMagnitude(std::uint16_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word & 0x7fff)) * 0x1p-16F + 0x1p-17F;
}
constexpr std::uint32_t DitherSign(std::uint16_t word) {
  return static_cast<std::uint32_t>(word & 0x8000) << 16;
}
constexpr float DitherFlip(float x, std::uint32_t sign) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ sign);
}

// The folded code of a value.
constexpr std::int32_t FoldedCode(float x, std::uint16_t word, float inverse_step) {
  const float y = DitherFlip(x, DitherSign(word)) * inverse_step + DitherMagnitude(word);
  return std::bit_cast<std::int32_t>(y + kDitherRounder) -
         std::bit_cast<std::int32_t>(kDitherRounder);
}
// The value of a folded code.
constexpr float FoldedValue(std::int32_t code, std::uint16_t word, float step) {
  return DitherFlip((static_cast<float>(code) - DitherMagnitude(word)) * step, DitherSign(word));
}

constexpr bool HasSymbol(std::int32_t code, std::int32_t most) {
  return static_cast<std::uint32_t>(code + most) <= static_cast<std::uint32_t>(2 * most);
}
// The cell of a code: what its dither says (narrow), and its symbol, 0 for an escape.
constexpr std::uint8_t CellOf(std::int32_t code, std::uint16_t word, bool wide) {
  const std::int32_t most = wide ? kWideMost : kNarrowMost;
  const std::uint32_t symbol =
      HasSymbol(code, most) ? static_cast<std::uint32_t>(code + most + 1) : 0U;
  const std::uint32_t context = wide ? 0U : (std::uint32_t{word} & 0x6000U) >> 7;
  return static_cast<std::uint8_t>(context | symbol);
}
// The code of a symbol that is no escape, of a whole cell.
constexpr std::int32_t CodeOfCell(std::uint8_t cell, bool wide) {
  return wide ? std::int32_t{cell} - (kWideMost + 1)
              : (std::int32_t{cell} & kNarrowSymbolMask) - (kNarrowMost + 1);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_DITHER_CODE_H_
