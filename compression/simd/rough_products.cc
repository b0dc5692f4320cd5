// Blocks of the matrix are copied into one piece, so that neither rows that lie a power of two
// apart nor long rows push each other out of the cache. Tiles of four results by three vectors keep
// their sums in registers: seven loads for twelve operations.

#include "compression/simd/rough_products.h"

#include <algorithm>

#include "compression/simd/low_rank_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/rough_products.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::compression {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, kFactorPad>;

constexpr std::size_t kBlock = 64;  // rows and columns
constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileVectors = 3;

// A tile's terms: term i is scalars[c * kBlock + i] for result c, or scalars[i * kBlock + c] of a
// transposed block, times the vectors at vectors + i * width. Results of c go to out + c * width.
struct Tile {
  const float* scalars;
  const float* vectors;
  std::size_t width;
  std::size_t count;
  float* out;
};

template <bool kTransposed, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void AddTile(const Tile& tile) {
  constexpr std::size_t kLane = kTransposed ? 1 : kBlock;
  constexpr std::size_t kTerm = kTransposed ? kBlock : 1;
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<Tag> sums[kRows][kVectors];
  for (std::size_t c = 0; c < kRows; ++c) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[c][v] = hn::LoadU(d, tile.out + c * tile.width + v * lanes);
    }
  }
  const float* s = tile.scalars;
  const float* from = tile.vectors;
  for (std::size_t i = 0; i < tile.count; ++i, s += kTerm, from += tile.width) {
    hn::Vec<Tag> by[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) by[v] = hn::LoadU(d, from + v * lanes);
    for (std::size_t c = 0; c < kRows; ++c) {
      const auto scalar = hn::Set(d, s[c * kLane]);
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[c][v] = hn::MulAdd(scalar, by[v], sums[c][v]);
      }
    }
  }
  for (std::size_t c = 0; c < kRows; ++c) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[c][v], d, tile.out + c * tile.width + v * lanes);
    }
  }
}

template <bool kTransposed, std::size_t kVectors>
void AddRows(Tile tile, std::size_t results) {
  constexpr std::size_t kLane = kTransposed ? 1 : kBlock;
  std::size_t c = 0;
  for (; c + kTileRows <= results; c += kTileRows) {
    AddTile<kTransposed, kTileRows, kVectors>(tile);
    tile.scalars += kTileRows * kLane;
    tile.out += kTileRows * tile.width;
  }
  for (; c < results; ++c) {
    AddTile<kTransposed, 1, kVectors>(tile);
    tile.scalars += kLane;
    tile.out += tile.width;
  }
}

// All columns of the factor, for `results` results.
template <bool kTransposed>
void AddBlock(Tile tile, std::size_t results) {
  const std::size_t lanes = hn::Lanes(Tag());
  for (std::size_t left = tile.width / lanes; left > 0;) {
    const std::size_t some = std::min(left, kTileVectors);
    if (some == 3) AddRows<kTransposed, 3>(tile, results);
    if (some == 2) AddRows<kTransposed, 2>(tile, results);
    if (some == 1) AddRows<kTransposed, 1>(tile, results);
    tile.vectors += some * lanes;
    tile.out += some * lanes;
    left -= some;
  }
}

// Calls visit(first row, rows, first column, columns, block) for all blocks of the matrix, of which
// row r begins at block + r * kBlock.
template <typename Visit>
void ForEachBlock(const float* m, std::size_t rows, std::size_t columns, Visit visit) {
  HWY_ALIGN float block[kBlock * kBlock];
  for (std::size_t r = 0; r < rows; r += kBlock) {
    const std::size_t height = std::min(kBlock, rows - r);
    for (std::size_t c = 0; c < columns; c += kBlock) {
      const std::size_t length = std::min(kBlock, columns - c);
      for (std::size_t i = 0; i < height; ++i) {
        std::copy_n(m + (r + i) * columns + c, length, block + i * kBlock);
      }
      visit(r, height, c, length, block);
    }
  }
}

void RoughTimesFactorImpl(const float* m, std::size_t rows, std::size_t columns, const float* q,
                          std::size_t width, float* p) {
  std::fill_n(p, rows * width, 0.0F);
  ForEachBlock(m, rows, columns,
               [&](std::size_t r, std::size_t height, std::size_t c, std::size_t length,
                   const float* block) {
                 AddBlock<false>({block, q + c * width, width, length, p + r * width}, height);
               });
}

void RoughTransposedTimesFactorImpl(const float* m, std::size_t rows, std::size_t columns,
                                    const float* p, std::size_t width, float* q) {
  std::fill_n(q, columns * width, 0.0F);
  ForEachBlock(m, rows, columns,
               [&](std::size_t r, std::size_t height, std::size_t c, std::size_t length,
                   const float* block) {
                 AddBlock<true>({block, p + r * width, width, height, q + c * width}, length);
               });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::compression
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::compression {

HWY_EXPORT(RoughTimesFactorImpl);
HWY_EXPORT(RoughTransposedTimesFactorImpl);

void RoughTimesFactor(const float* m, std::size_t rows, std::size_t columns, const float* q,
                      std::size_t width, float* p) {
  HWY_DYNAMIC_DISPATCH(RoughTimesFactorImpl)(m, rows, columns, q, width, p);
}
void RoughTransposedTimesFactor(const float* m, std::size_t rows, std::size_t columns,
                                const float* p, std::size_t width, float* q) {
  HWY_DYNAMIC_DISPATCH(RoughTransposedTimesFactorImpl)(m, rows, columns, p, width, q);
}

}  // namespace shoal::compression
#endif  // HWY_ONCE
