// Dithered codes as lanes of a GPU's warp make and read them (lane_values.h says how this is built
// and tested; dither_code.h has the arithmetic). Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_DITHER_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_DITHER_H_

#include "compression/device/jobs/dither_jobs.h"
#include "compression/device/lane_values.h"
#include "compression/simd/dither_code.h"

namespace shoal::compression {

// ---- what an encoder looks at ----------------------------------------------------------------

// The sum of squares of values lane, lane + 16, ... of a token. The sums of lanes l and l + 8 are
// then added, those of l and l + 4, and so on.
SHOAL_LANE double LaneEnergy(const EnergyJob& job, const DeviceSample& sample, std::uint32_t token,
                             std::uint32_t lane) {
  const float* x = sample.x + std::size_t{token} * job.hidden;
  double sum = 0;
  SHOAL_UNROLL_BY(8)
  for (std::uint32_t i = lane; i < job.hidden; i += kEnergyLanes) {
    const double wide = x[i];
    // The square of a float is exact in double: fused or not is the same.
#ifdef __CUDA_ARCH__
    sum = fma(wide, wide, sum);
#else
    sum += wide * wide;
#endif
  }
  return sum;
}
SHOAL_LANE double* EnergyAddress(const EnergyJob& job, const DeviceSample& sample,
                                 std::uint32_t token) {
  return job.energies + (std::size_t{sample.index} * job.tokens + token);
}

SHOAL_LANE const float* LookedAt(const LookJob& job, const LookRow& from) {
  return job.samples[from.sample].x + std::size_t{from.token} * job.hidden;
}
SHOAL_LANE void CopyLooked(const LookJob& job, std::uint32_t row, std::uint32_t column) {
  job.out[std::size_t{row} * job.width + column] = LookedAt(job, job.look_rows[row])[column];
}
SHOAL_LANE void AddLooked(const LookJob& job, std::uint32_t channel) {
  float sum = 0;
  SHOAL_UNROLL_BY(8)
  for (std::uint32_t i = 0; i < job.count; ++i) {
    const LookRow from = job.look_rows[i];
    const float scaled = LookedAt(job, from)[channel] * from.scale;
    sum = sum + scaled * scaled;
  }
  job.out[channel] = sum;
}

// ---- the dither ------------------------------------------------------------------------------

// Four neighbours get their words from one half of a Philox block.
struct DitherFour {
  std::uint32_t low, high;

  SHOAL_LANE std::uint16_t Get(int k) const {
    return static_cast<std::uint16_t>((k < 2 ? low : high) >> (16 * (k % 2)));
  }
};
// Half p (0 or 1) of a block, and where its values begin in the token.
SHOAL_LANE DitherFour HalfOfBlock(const std::uint32_t (&words)[4], int p) {
  return p == 0 ? DitherFour{words[0], words[1]} : DitherFour{words[2], words[3]};
}
SHOAL_LANE std::uint32_t FirstOfHalf(std::uint32_t block, int p) {
  return block / 16 * 128 + static_cast<std::uint32_t>(p) * 64 + block % 16 * 4;
}
SHOAL_LANE void DitherBlock(const DitherJob& job, std::uint64_t token, std::uint32_t block,
                            std::uint32_t (&words)[4]) {
  PhiloxAt(job.key, block, static_cast<std::uint32_t>(token), kDitherStream,
           static_cast<std::uint32_t>(token >> 32), words);
}
// The word of one value of a token.
SHOAL_LANE std::uint16_t DitherWordAt(const DitherJob& job, std::uint64_t token,
                                      std::uint32_t value) {
  if (!job.drawn) return 0;
  const std::uint32_t in_half = value % 64;
  std::uint32_t words[4];
  DitherBlock(job, token, value / 128 * 16 + in_half / 4, words);
  return HalfOfBlock(words, value % 128 < 64 ? 0 : 1).Get(static_cast<int>(in_half % 4));
}

// ---- cells -----------------------------------------------------------------------------------

SHOAL_LANE void LoadFour(const float* from, int count, float (&to)[4]) {
#ifdef __CUDA_ARCH__
  if (count == 4 && Aligned16(from)) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
    return;
  }
#endif
  SHOAL_UNROLL
  for (int k = 0; k < 4; ++k) to[k] = k < count ? from[k] : 0.0F;
}
SHOAL_LANE void StoreFour(const float (&from)[4], int count, float* to) {
#ifdef __CUDA_ARCH__
  if (count == 4 && Aligned16(to)) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
    return;
  }
#endif
  SHOAL_UNROLL
  for (int k = 0; k < 4; ++k) {
    if (k < count) to[k] = from[k];
  }
}
SHOAL_LANE bool Aligned4(const void* at) { return (reinterpret_cast<std::uintptr_t>(at) & 3) == 0; }
SHOAL_LANE std::uint32_t LoadCells(const std::uint8_t* from, int count) {
  if (count == 4 && Aligned4(from)) {
    return LoadAligned<std::uint32_t>(reinterpret_cast<const std::byte*>(from));
  }
  std::uint32_t cells = 0;
  SHOAL_UNROLL
  for (int k = 0; k < 4; ++k) cells |= k < count ? std::uint32_t{from[k]} << (8 * k) : 0U;
  return cells;
}
SHOAL_LANE void StoreCells(std::uint32_t cells, int count, std::uint8_t* to) {
  if (count == 4 && Aligned4(to)) {
    return StoreAligned<std::uint32_t>(reinterpret_cast<std::byte*>(to), cells);
  }
  SHOAL_UNROLL
  for (int k = 0; k < 4; ++k) {
    if (k < count) to[k] = static_cast<std::uint8_t>(cells >> (8 * k));
  }
}

SHOAL_LANE std::uint32_t EncodeFour(const float (&x)[4], DitherFour dither, float inverse,
                                    bool wide) {
  std::uint32_t cells = 0;
  SHOAL_UNROLL
  for (int k = 0; k < 4; ++k) {
    const std::uint16_t word = dither.Get(k);
    cells |= std::uint32_t{CellOf(FoldedCode(x[k], word, inverse), word, wide)} << (8 * k);
  }
  return cells;
}
SHOAL_LANE void DecodeFour(std::uint32_t cells, DitherFour dither, float step, bool wide,
                           float (&x)[4]) {
  SHOAL_UNROLL
  for (int k = 0; k < 4; ++k) {
    const auto cell = static_cast<std::uint8_t>(cells >> (8 * k));
    x[k] = FoldedValue(CodeOfCell(cell, wide), dither.Get(k), step);
  }
}

// The values of one Philox block of a token.
template <CodingPass kPass>
SHOAL_LANE void CodeBlock(const DitherJob& job, const DeviceSample& sample, std::uint32_t token,
                          std::uint32_t block) {
  const std::uint64_t index = std::uint64_t{sample.index} * job.tokens + token;
  const std::size_t start = std::size_t{token} * job.hidden;
  std::uint8_t* const cells = job.cells + index * job.hidden;
  const DitherKind kind = job.kinds[index];
  const bool wide = kind == DitherKind::kWide;
  std::uint32_t words[4] = {};
  if (kind != DitherKind::kZeros && job.drawn) DitherBlock(job, index, block, words);
  SHOAL_UNROLL
  for (int p = 0; p < 2; ++p) {
    const std::uint32_t first = FirstOfHalf(block, p);
    if (first >= job.hidden) continue;
    const int count = job.hidden - first < 4 ? static_cast<int>(job.hidden - first) : 4;
    float x[4] = {};
    if constexpr (kPass == CodingPass::kEncode) {
      std::uint32_t made = 0;
      if (kind != DitherKind::kZeros) {
        LoadFour(sample.x + start + first, count, x);
        made = EncodeFour(x, HalfOfBlock(words, p), job.inverse_step, wide);
      }
      StoreCells(made, count, cells + first);
    } else {
      if (kind != DitherKind::kZeros) {
        DecodeFour(LoadCells(cells + first, count), HalfOfBlock(words, p), job.step, wide, x);
      }
      StoreFour(x, count, sample.values + start + first);
    }
  }
}

SHOAL_LANE void CodeEscape(const EscapeJob& job, std::uint32_t i) {
  const DitherEscape escape = job.list[i];
  const DeviceSample sample = job.dither.samples[escape.sample];
  const std::uint64_t token =
      std::uint64_t{sample.index} * job.dither.tokens + escape.position / job.dither.hidden;
  const std::uint16_t word = DitherWordAt(job.dither, token, escape.position % job.dither.hidden);
  if (job.dither.pass == CodingPass::kEncode) {
    job.list[i].code = FoldedCode(sample.x[escape.position], word, job.dither.inverse_step);
  } else {
    sample.values[escape.position] = FoldedValue(escape.code, word, job.dither.step);
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_DITHER_H_
