// Tiles of eight rows (or columns) keep their accumulators in registers while a vector of the other
// factor is read once for all eight. Vectors of at most 16 lanes, so that a tile of a factor of
// rank 16 is one of them.

#include "compression/simd/low_rank_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/low_rank_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::compression {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// How the terms of a tile lie in memory: term i multiplies scalar c of the tile, at
// scalars[i * term + c * lane], by the vector at vectors[i * width].
struct Terms {
  const float* scalars;
  std::size_t term;
  std::size_t lane;
  const float* vectors;
  std::size_t width;
  std::size_t count;
};

// Adds the block's sum to `to`, or begins it.
template <class D, class V>
HWY_INLINE void Put(D d, V sum, bool first, float* to) {
  hn::StoreU(first ? sum : hn::Add(hn::LoadU(d, to), sum), d, to);
}

// Results of scalar c go to out + c * width.
template <class D>
HWY_INLINE void EightSums(D d, const Terms& terms, bool first, float* out) {
  auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
  const float* s = terms.scalars;
  const float* v = terms.vectors;
  const std::size_t l = terms.lane;
  for (std::size_t i = 0; i < terms.count; ++i, s += terms.term, v += terms.width) {
    const auto by = hn::LoadU(d, v);
    a0 = hn::Add(a0, hn::Mul(hn::Set(d, s[0]), by));
    a1 = hn::Add(a1, hn::Mul(hn::Set(d, s[l]), by));
    a2 = hn::Add(a2, hn::Mul(hn::Set(d, s[2 * l]), by));
    a3 = hn::Add(a3, hn::Mul(hn::Set(d, s[3 * l]), by));
    a4 = hn::Add(a4, hn::Mul(hn::Set(d, s[4 * l]), by));
    a5 = hn::Add(a5, hn::Mul(hn::Set(d, s[5 * l]), by));
    a6 = hn::Add(a6, hn::Mul(hn::Set(d, s[6 * l]), by));
    a7 = hn::Add(a7, hn::Mul(hn::Set(d, s[7 * l]), by));
  }
  const std::size_t w = terms.width;
  Put(d, a0, first, out);
  Put(d, a1, first, out + w);
  Put(d, a2, first, out + 2 * w);
  Put(d, a3, first, out + 3 * w);
  Put(d, a4, first, out + 4 * w);
  Put(d, a5, first, out + 5 * w);
  Put(d, a6, first, out + 6 * w);
  Put(d, a7, first, out + 7 * w);
}

template <class D>
HWY_INLINE void OneSum(D d, const Terms& terms, bool first, float* out) {
  auto sum = hn::Zero(d);
  const float* s = terms.scalars;
  const float* v = terms.vectors;
  for (std::size_t i = 0; i < terms.count; ++i, s += terms.term, v += terms.width) {
    sum = hn::Add(sum, hn::Mul(hn::Set(d, *s), hn::LoadU(d, v)));
  }
  Put(d, sum, first, out);
}

// The terms of one block for `sums` scalars and all columns of the factor.
void Block(Terms terms, std::size_t sums, bool first, float* out) {
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, kFactorPad> narrow;
  const float* scalars = terms.scalars;
  const float* vectors = terms.vectors;
  for (std::size_t c = 0; c < sums;) {
    const bool eight = c + 8 <= sums;
    terms.scalars = scalars + c * terms.lane;
    for (std::size_t at = 0; at < terms.width;) {
      terms.vectors = vectors + at;
      float* to = out + c * terms.width + at;
      if (at + hn::Lanes(wide) <= terms.width) {
        eight ? EightSums(wide, terms, first, to) : OneSum(wide, terms, first, to);
        at += hn::Lanes(wide);
      } else {
        eight ? EightSums(narrow, terms, first, to) : OneSum(narrow, terms, first, to);
        at += hn::Lanes(narrow);
      }
    }
    c += eight ? 8 : 1;
  }
}

void TimesFactorImpl(const float* m, std::size_t rows, std::size_t columns, const float* q,
                     std::size_t width, float* p) {
  // Few rows at a time: they stay in the cache while the blocks of columns pass.
  constexpr std::size_t kRows = 8;
  for (std::size_t r = 0; r < rows; r += kRows) {
    const std::size_t some = std::min(kRows, rows - r);
    for (std::size_t c = 0; c < columns; c += kTermsBlock) {
      const std::size_t count = std::min(kTermsBlock, columns - c);
      Block({m + r * columns + c, 1, columns, q + c * width, width, count}, some, c == 0,
            p + r * width);
    }
  }
}

void TransposedTimesFactorImpl(const float* m, std::size_t rows, std::size_t columns,
                               const float* p, std::size_t width, float* q) {
  for (std::size_t r = 0; r < rows; r += kTermsBlock) {
    const std::size_t count = std::min(kTermsBlock, rows - r);
    Block({m + r * columns, columns, 1, p + r * width, width, count}, columns, r == 0, q);
  }
}

template <bool kSubtract, class D, class V>
HWY_INLINE void Finish(D d, const FactorProduct& product, V t, std::size_t count, float* to) {
  t = hn::IfThenZeroElse(hn::Lt(hn::Abs(t), hn::Set(d, product.least)), t);
  t = hn::Mul(t, hn::Set(d, product.factor));
  if (count == hn::Lanes(d)) {
    hn::StoreU(kSubtract ? hn::Sub(hn::LoadU(d, to), t) : t, d, to);
    return;
  }
  float edge[16];
  hn::StoreU(t, d, edge);
  for (std::size_t i = 0; i < count; ++i) to[i] = kSubtract ? to[i] - edge[i] : edge[i];
}

// A tile of the product: kRows rows by kVectors vectors of columns, of which `count` values count.
template <bool kSubtract, std::size_t kRows, std::size_t kVectors, class D>
HWY_INLINE void ProductTile(D d, const FactorProduct& product, std::size_t row, std::size_t column,
                            std::size_t count, float* out) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> sums[kRows][kVectors];
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  }
  const std::size_t rank = product.rank;
  const float* s = product.p + row * rank;
  const float* from = product.qt + column;
  for (std::size_t k = 0; k < rank; ++k, ++s, from += product.stride) {
    hn::Vec<D> by[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) by[v] = hn::LoadU(d, from + v * lanes);
    for (std::size_t i = 0; i < kRows; ++i) {
      const auto scalar = hn::Set(d, s[i * rank]);
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[i][v] = hn::Add(sums[i][v], hn::Mul(scalar, by[v]));
      }
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    float* const to = out + (row + i) * product.columns + column;
    for (std::size_t v = 0; v < kVectors; ++v) {
      Finish<kSubtract>(d, product, sums[i][v], std::min(lanes, count - v * lanes), to + v * lanes);
    }
  }
}

template <bool kSubtract, std::size_t kRows>
HWY_INLINE void ProductRows(const FactorProduct& product, std::size_t row, std::size_t first,
                            std::size_t last, float* out) {
  const hn::CappedTag<float, kColumnPad> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t c = first; c < last;) {
    const std::size_t count = last - c;
    if (count > lanes) {
      ProductTile<kSubtract, kRows, 2>(d, product, row, c, count, out);
      c += 2 * lanes;
    } else {
      ProductTile<kSubtract, kRows, 1>(d, product, row, c, count, out);
      c += lanes;
    }
  }
}

template <bool kSubtract>
void Product(const FactorProduct& product, float* out) {
  constexpr std::size_t kColumns = 256;  // of qt, which stay in the cache for all rows
  constexpr std::size_t kRows = 4;
  for (std::size_t first = 0; first < product.columns; first += kColumns) {
    const std::size_t last = std::min(first + kColumns, product.columns);
    std::size_t row = 0;
    for (; row + kRows <= product.rows; row += kRows) {
      ProductRows<kSubtract, kRows>(product, row, first, last, out);
    }
    for (; row < product.rows; ++row) ProductRows<kSubtract, 1>(product, row, first, last, out);
  }
}

void WriteProductImpl(const FactorProduct& product, float* out) { Product<false>(product, out); }
void SubtractProductImpl(const FactorProduct& product, float* values) {
  Product<true>(product, values);
}

double DotImpl(const double* a, const double* b, std::size_t n) {
  double s[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t l = 0; l < 8; ++l) s[l] += a[i + l] * b[i + l];
  }
  for (std::size_t l = 0; i < n; ++i, ++l) s[l] += a[i] * b[i];
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

void SubtractScaledImpl(const double* b, double factor, std::size_t n, double* a) {
  for (std::size_t i = 0; i < n; ++i) a[i] -= factor * b[i];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::compression
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::compression {

HWY_EXPORT(TimesFactorImpl);
HWY_EXPORT(TransposedTimesFactorImpl);
HWY_EXPORT(WriteProductImpl);
HWY_EXPORT(SubtractProductImpl);
HWY_EXPORT(DotImpl);
HWY_EXPORT(SubtractScaledImpl);

void TimesFactor(const float* m, std::size_t rows, std::size_t columns, const float* q,
                 std::size_t width, float* p) {
  HWY_DYNAMIC_DISPATCH(TimesFactorImpl)(m, rows, columns, q, width, p);
}
void TransposedTimesFactor(const float* m, std::size_t rows, std::size_t columns, const float* p,
                           std::size_t width, float* q) {
  HWY_DYNAMIC_DISPATCH(TransposedTimesFactorImpl)(m, rows, columns, p, width, q);
}
void WriteProduct(const FactorProduct& product, float* out) {
  HWY_DYNAMIC_DISPATCH(WriteProductImpl)(product, out);
}
void SubtractProduct(const FactorProduct& product, float* values) {
  HWY_DYNAMIC_DISPATCH(SubtractProductImpl)(product, values);
}
double Dot(const double* a, const double* b, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(DotImpl)(a, b, n);
}
void SubtractScaled(const double* b, double factor, std::size_t n, double* a) {
  HWY_DYNAMIC_DISPATCH(SubtractScaledImpl)(b, factor, n, a);
}

}  // namespace shoal::compression
#endif  // HWY_ONCE
