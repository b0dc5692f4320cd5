// Plain loops are left to the vectoriser; Philox and the sum of squares, whose order is specified,
// are written with Highway.

#include "compression/simd/dither_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/dither_kernels.cc"
// Vectors of a length unknown to the compiler would need other loops than these.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef SHOAL_COMPRESSION_DITHER_SHARED
#define SHOAL_COMPRESSION_DITHER_SHARED
namespace shoal::compression {
namespace {

// Philox 4x32: the multipliers and the increments of the key.
constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

constexpr std::size_t kBlocksPerGroup = kDitherGroup / 8;
constexpr std::size_t kSums = 16;

}  // namespace
}  // namespace shoal::compression
#endif  // SHOAL_COMPRESSION_DITHER_SHARED

HWY_BEFORE_NAMESPACE();
namespace shoal::compression {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_SCALAR
void DitherWordsImpl(const std::uint32_t* key, std::uint64_t token, std::uint32_t first,
                     std::size_t groups, std::uint16_t* words) {
  for (std::size_t i = 0; i < groups * kBlocksPerGroup; ++i) {
    std::uint32_t c[4] = {static_cast<std::uint32_t>(first * kBlocksPerGroup + i),
                          static_cast<std::uint32_t>(token), kDitherStream,
                          static_cast<std::uint32_t>(token >> 32)};
    std::uint32_t k0 = key[0];
    std::uint32_t k1 = key[1];
    for (int round = 0; round < kRounds; ++round, k0 += kWeyl0, k1 += kWeyl1) {
      const std::uint64_t p0 = std::uint64_t{c[0]} * kMultiplier0;
      const std::uint64_t p1 = std::uint64_t{c[2]} * kMultiplier1;
      c[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
      c[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
      c[1] = static_cast<std::uint32_t>(p1);
      c[3] = static_cast<std::uint32_t>(p0);
    }
    std::uint16_t* group = words + i / kBlocksPerGroup * kDitherGroup;
    for (std::size_t j = 0; j < 8; ++j) {
      group[j / 4 * (kDitherGroup / 2) + 4 * (i % kBlocksPerGroup) + j % 4] =
          static_cast<std::uint16_t>(c[j / 2] >> 16 * (j % 2));
    }
  }
}
#else
// A Philox word per 64-bit lane: the upper halves hold what multiplications left there.
using Words = hn::ScalableTag<std::uint64_t>;
using Narrow = hn::Repartition<std::uint32_t, Words>;
using Lanes = hn::Vec<Words>;

inline Lanes Product(Lanes a, Lanes b) {
  return hn::MulEven(hn::BitCast(Narrow(), a), hn::BitCast(Narrow(), b));
}

struct Block {
  Lanes c0, c1, c2, c3;
};

// All rounds of several blocks a lane; the keys are those of each round, in turn.
template <std::size_t kBlocks>
inline void Rounds(const Lanes* keys, Block* blocks) {
  const auto m0 = hn::Set(Words(), kMultiplier0);
  const auto m1 = hn::Set(Words(), kMultiplier1);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t j = 0; j < kBlocks; ++j) {
      Block& b = blocks[j];
      const auto p0 = Product(b.c0, m0);
      const auto p1 = Product(b.c2, m1);
      b.c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), b.c1), keys[2 * round]);
      b.c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), b.c3), keys[2 * round + 1]);
      b.c1 = p1;
      b.c3 = p0;
    }
  }
}

void DitherWordsImpl(const std::uint32_t* key, std::uint64_t token, std::uint32_t first,
                     std::size_t groups, std::uint16_t* words) {
  const Words d;
  const auto low = hn::Set(d, 0xffffffffU);
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  // Two vectors at a time hide the latency of the multiplications.
  constexpr std::size_t kAtOnce = 2;
  static_assert(kBlocksPerGroup % (kAtOnce * kLanes) == 0);
  Lanes keys[2 * kRounds];
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    keys[2 * round] = hn::Set(d, std::uint64_t{key[0] + round * kWeyl0} & 0xffffffffU);
    keys[2 * round + 1] = hn::Set(d, std::uint64_t{key[1] + round * kWeyl1} & 0xffffffffU);
  }
  const Block start = {hn::Iota(d, std::uint64_t{first} * kBlocksPerGroup),
                       hn::Set(d, token & 0xffffffffU), hn::Set(d, kDitherStream),
                       hn::Set(d, token >> 32)};
  const auto step = hn::Set(d, kLanes);
  auto counter = start.c0;
  auto* out = reinterpret_cast<std::uint64_t*>(words);
  for (std::size_t g = 0; g < groups; ++g, out += 2 * kBlocksPerGroup) {
    for (std::size_t b = 0; b < kBlocksPerGroup; b += kAtOnce * kLanes) {
      Block blocks[kAtOnce];
      for (Block& block : blocks) {
        block = start;
        block.c0 = counter;
        counter = hn::Add(counter, step);
      }
      Rounds<kAtOnce>(keys, blocks);
      for (std::size_t j = 0; j < kAtOnce; ++j) {
        const Block& block = blocks[j];
        std::uint64_t* to = out + b + j * kLanes;
        hn::StoreU(hn::Or(hn::And(block.c0, low), hn::ShiftLeft<32>(block.c1)), d, to);
        hn::StoreU(hn::Or(hn::And(block.c2, low), hn::ShiftLeft<32>(block.c3)), d,
                   to + kBlocksPerGroup);
      }
    }
  }
}
#endif

double SumOfSquaresImpl(const float* x, std::size_t n) {
  const hn::CappedTag<double, kSums> d;
  const hn::Rebind<float, decltype(d)> f;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  constexpr std::size_t kVectors = kSums / kLanes;
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      // The square of a float is exact in double: fused or not is the same.
      const auto wide = hn::PromoteTo(d, hn::LoadU(f, x + i + v * kLanes));
      sums[v] = hn::MulAdd(wide, wide, sums[v]);
    }
  }
  alignas(64) double all[kSums];
  for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sums[v], d, all + v * kLanes);
  for (std::size_t j = 0; i < n; ++i, ++j) all[j] += double{x[i]} * double{x[i]};
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) all[j] += all[j + half];
  }
  return all[0];
}

void AddScaledSquaresImpl(const float* x, float scale, std::size_t n, float* sums) {
  for (std::size_t i = 0; i < n; ++i) {
    const float scaled = x[i] * scale;
    sums[i] += scaled * scaled;
  }
}

template <bool kWide>
bool Quantise(const float* x, const std::uint16_t* words, std::size_t n, float inverse_step,
              std::uint8_t* cells) {
  constexpr std::int32_t kMost = kWide ? kWideMost : kNarrowMost;
  std::uint32_t escapes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t shifted = FoldedCode(x[i], words[i], inverse_step) + kMost;
    const bool fits = static_cast<std::uint32_t>(shifted) <= std::uint32_t{2 * kMost};
    const std::uint32_t symbol = fits ? static_cast<std::uint32_t>(shifted + 1) : 0U;
    const std::uint32_t context = kWide ? 0U : (std::uint32_t{words[i]} & 0x6000U) >> 7;
    escapes |= fits ? 0U : 1U;
    cells[i] = static_cast<std::uint8_t>(context | symbol);
  }
  return escapes != 0;
}

bool QuantiseImpl(const float* x, const std::uint16_t* words, std::size_t n, float inverse_step,
                  bool wide, std::uint8_t* cells) {
  return wide ? Quantise<true>(x, words, n, inverse_step, cells)
              : Quantise<false>(x, words, n, inverse_step, cells);
}

void DequantiseImpl(const std::uint8_t* cells, const std::uint16_t* words, std::size_t n,
                    float step, bool wide, float* x) {
  const std::int32_t mask = wide ? 0xff : kNarrowSymbolMask;
  const std::int32_t zero = (wide ? kWideMost : kNarrowMost) + 1;
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = FoldedValue((static_cast<std::int32_t>(cells[i]) & mask) - zero, words[i], step);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::compression
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::compression {

HWY_EXPORT(DitherWordsImpl);
HWY_EXPORT(SumOfSquaresImpl);
HWY_EXPORT(AddScaledSquaresImpl);
HWY_EXPORT(QuantiseImpl);
HWY_EXPORT(DequantiseImpl);

void DitherWords(const std::array<std::uint32_t, 2>& key, std::uint64_t token, std::uint32_t first,
                 std::size_t groups, std::uint16_t* words) {
  HWY_DYNAMIC_DISPATCH(DitherWordsImpl)(key.data(), token, first, groups, words);
}
double SumOfSquares(const float* x, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquaresImpl)(x, n);
}
void AddScaledSquares(const float* x, float scale, std::size_t n, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddScaledSquaresImpl)(x, scale, n, sums);
}
bool QuantiseDithered(const float* x, const std::uint16_t* words, std::size_t n, float inverse_step,
                      bool wide, std::uint8_t* cells) {
  return HWY_DYNAMIC_DISPATCH(QuantiseImpl)(x, words, n, inverse_step, wide, cells);
}
std::int32_t DitheredCode(float x, std::uint16_t word, float inverse_step) {
  return FoldedCode(x, word, inverse_step);
}
void DequantiseDithered(const std::uint8_t* cells, const std::uint16_t* words, std::size_t n,
                        float step, bool wide, float* x) {
  HWY_DYNAMIC_DISPATCH(DequantiseImpl)(cells, words, n, step, wide, x);
}
float DitheredValue(std::int32_t code, std::uint16_t word, float step) {
  return FoldedValue(code, word, step);
}

}  // namespace shoal::compression
#endif  // HWY_ONCE
