// The sums are plain C++ that the compiler vectorises; signs go through Highway's masks, 64 values
// at a time. Multiplication and addition stay apart (-ffp-contract=off).

#include "compression/simd/vector_kernels.h"

#include <cstdint>
#include <cstring>

#include "common/bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/vector_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::compression {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats>;

constexpr std::size_t kWord = 64;  // values whose signs are one word

void AddVectorsImpl(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, std::size_t n,
                    float* HWY_RESTRICT sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = x[i] + y[i];
}

void AddOntoImpl(const float* HWY_RESTRICT x, std::size_t n, float* HWY_RESTRICT sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

void ScaleImpl(float factor, std::size_t n, float* HWY_RESTRICT x) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

void AddScaledImpl(const float* HWY_RESTRICT x, float factor, std::size_t n,
                   float* HWY_RESTRICT sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i] * factor;
}

void ScaledSumImpl(const float* HWY_RESTRICT x, float factor, const float* HWY_RESTRICT y,
                   std::size_t n, float* HWY_RESTRICT sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = x[i] * factor + y[i];
}

void ScaleEachImpl(const float* HWY_RESTRICT x, const float* HWY_RESTRICT factors, std::size_t n,
                   float* HWY_RESTRICT y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * factors[i];
}

void MultiplyEachImpl(const float* HWY_RESTRICT factors, std::size_t n, float* HWY_RESTRICT x) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factors[i];
}

void SubtractImpl(const float* HWY_RESTRICT y, std::size_t n, float* HWY_RESTRICT x) {
  for (std::size_t i = 0; i < n; ++i) x[i] -= y[i];
}

// `value(i)` gives value i, and is called once for each, in order.
template <typename Value>
HWY_INLINE double SquaresInOrder(std::size_t n, const Value& value) {
  double sums[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double v = value(i + j);
      sums[j] += v * v;
    }
  }
  double sum = 0;
  for (const double one : sums) sum += one;
  for (; i < n; ++i) {
    const double v = value(i);
    sum += v * v;
  }
  return sum;
}

double OrderedSquaresImpl(const float* x, std::size_t n) {
  return SquaresInOrder(n, [x](std::size_t i) { return x[i]; });
}

double AddVectorsSquaredImpl(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y,
                             std::size_t n, float* HWY_RESTRICT sum) {
  return SquaresInOrder(n, [x, y, sum](std::size_t i) { return sum[i] = x[i] + y[i]; });
}

HWY_INLINE std::uint64_t WordOf(hn::Mask<Floats> mask) {
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(Floats(), mask, bits);
  return LoadLittle<std::uint64_t>(reinterpret_cast<const std::byte*>(bits));
}

HWY_INLINE hn::Mask<Floats> MaskOf(std::uint64_t word) {
  std::uint8_t bits[8];
  StoreLittle(reinterpret_cast<std::byte*>(bits), word);
  return hn::LoadMaskBits(Floats(), bits);
}

HWY_INLINE float Signed(const std::byte* signs, std::size_t i, float magnitude) {
  const bool plus = (std::to_integer<unsigned>(signs[i / 8]) >> i % 8 & 1) != 0;
  return plus ? magnitude : -magnitude;
}

// `pack(first, lanes)` handles the lanes from value `first` on and returns which are not negative,
// `one(i)` the same for a value behind the last whole word.
template <typename Lanes, typename One>
HWY_INLINE void PackWords(std::size_t n, std::byte* signs, const Lanes& pack, const One& one) {
  const std::size_t step = hn::Lanes(Floats());
  std::size_t i = 0;
  for (; i + kWord <= n; i += kWord) {
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < kWord; j += step) word |= WordOf(pack(i + j)) << j;
    StoreLittle(signs + i / 8, word);
  }
  for (; i < n; i += 8) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < 8 && i + j < n; ++j) byte |= (one(i + j) ? 1u : 0u) << j;
    signs[i / 8] = static_cast<std::byte>(byte);
  }
}

void PackSignBitsImpl(const float* x, std::size_t n, std::byte* signs) {
  const Floats d;
  PackWords(
      n, signs, [&](std::size_t i) HWY_ATTR { return hn::Ge(hn::LoadU(d, x + i), hn::Zero(d)); },
      [x](std::size_t i) { return x[i] >= 0; });
}

void TakeSignedImpl(float* HWY_RESTRICT x, std::size_t n, float magnitude, std::byte* signs,
                    float* HWY_RESTRICT decoded) {
  const Floats d;
  const Vector plus = hn::Set(d, magnitude), minus = hn::Set(d, -magnitude);
  PackWords(
      n, signs,
      [&](std::size_t i) HWY_ATTR {
        const Vector values = hn::LoadU(d, x + i);
        const auto mask = hn::Ge(values, hn::Zero(d));
        const Vector said = hn::IfThenElse(mask, plus, minus);
        if (decoded != nullptr) hn::StoreU(said, d, decoded + i);
        hn::StoreU(hn::Sub(values, said), d, x + i);
        return mask;
      },
      [=](std::size_t i) {
        const bool positive = x[i] >= 0;
        const float said = positive ? magnitude : -magnitude;
        if (decoded != nullptr) decoded[i] = said;
        x[i] -= said;
        return positive;
      });
}

template <bool kAdd>
HWY_INLINE void UnpackWords(const std::byte* signs, std::size_t n, float magnitude,
                            float* HWY_RESTRICT x) {
  const Floats d;
  const std::size_t step = hn::Lanes(d);
  const Vector plus = hn::Set(d, magnitude), minus = hn::Set(d, -magnitude);
  std::size_t i = 0;
  for (; i + kWord <= n; i += kWord) {
    const auto word = LoadLittle<std::uint64_t>(signs + i / 8);
    for (std::size_t j = 0; j < kWord; j += step) {
      Vector said = hn::IfThenElse(MaskOf(word >> j), plus, minus);
      if constexpr (kAdd) said = hn::Add(hn::LoadU(d, x + i + j), said);
      hn::StoreU(said, d, x + i + j);
    }
  }
  for (; i < n; ++i) {
    const float said = Signed(signs, i, magnitude);
    x[i] = kAdd ? x[i] + said : said;
  }
}

void SetSignedImpl(const std::byte* signs, std::size_t n, float magnitude, float* x) {
  UnpackWords<false>(signs, n, magnitude, x);
}

void AddSignedImpl(const std::byte* signs, std::size_t n, float magnitude, float* sum) {
  UnpackWords<true>(signs, n, magnitude, sum);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::compression
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::compression {

HWY_EXPORT(AddVectorsImpl);
HWY_EXPORT(AddOntoImpl);
HWY_EXPORT(ScaleImpl);
HWY_EXPORT(AddScaledImpl);
HWY_EXPORT(ScaledSumImpl);
HWY_EXPORT(ScaleEachImpl);
HWY_EXPORT(MultiplyEachImpl);
HWY_EXPORT(SubtractImpl);
HWY_EXPORT(OrderedSquaresImpl);
HWY_EXPORT(AddVectorsSquaredImpl);
HWY_EXPORT(PackSignBitsImpl);
HWY_EXPORT(SetSignedImpl);
HWY_EXPORT(AddSignedImpl);
HWY_EXPORT(TakeSignedImpl);

void AddVectors(const float* x, const float* y, std::size_t n, float* sum) {
  HWY_DYNAMIC_DISPATCH(AddVectorsImpl)(x, y, n, sum);
}
void AddOnto(const float* x, std::size_t n, float* sum) {
  HWY_DYNAMIC_DISPATCH(AddOntoImpl)(x, n, sum);
}
void Scale(float factor, std::size_t n, float* x) { HWY_DYNAMIC_DISPATCH(ScaleImpl)(factor, n, x); }
void AddScaled(const float* x, float factor, std::size_t n, float* sum) {
  HWY_DYNAMIC_DISPATCH(AddScaledImpl)(x, factor, n, sum);
}
void ScaledSum(const float* x, float factor, const float* y, std::size_t n, float* sum) {
  HWY_DYNAMIC_DISPATCH(ScaledSumImpl)(x, factor, y, n, sum);
}
void ScaleEach(const float* x, const float* factors, std::size_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(ScaleEachImpl)(x, factors, n, y);
}
void MultiplyEach(const float* factors, std::size_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(MultiplyEachImpl)(factors, n, x);
}
void Subtract(const float* y, std::size_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(SubtractImpl)(y, n, x);
}
double OrderedSquares(const float* x, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(OrderedSquaresImpl)(x, n);
}
double AddVectorsSquared(const float* x, const float* y, std::size_t n, float* sum) {
  return HWY_DYNAMIC_DISPATCH(AddVectorsSquaredImpl)(x, y, n, sum);
}
void PackSignBits(const float* x, std::size_t n, std::byte* signs) {
  HWY_DYNAMIC_DISPATCH(PackSignBitsImpl)(x, n, signs);
}
void SetSigned(const std::byte* signs, std::size_t n, float magnitude, float* x) {
  HWY_DYNAMIC_DISPATCH(SetSignedImpl)(signs, n, magnitude, x);
}
void AddSigned(const std::byte* signs, std::size_t n, float magnitude, float* sum) {
  HWY_DYNAMIC_DISPATCH(AddSignedImpl)(signs, n, magnitude, sum);
}
void TakeSigned(float* x, std::size_t n, float magnitude, std::byte* signs, float* decoded) {
  HWY_DYNAMIC_DISPATCH(TakeSignedImpl)(x, n, magnitude, signs, decoded);
}

}  // namespace shoal::compression
#endif  // HWY_ONCE
