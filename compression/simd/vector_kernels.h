// Loops over the vectors of an exchange: sums, and one-bit values made and taken away in one pass;
// compiled once per SIMD level and chosen at run time.
//
// Every function gives the same bits at every level: each fp32 operation is rounded once. Sizes are
// not checked here. Arguments do not overlap. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_VECTOR_KERNELS_H_
#define SHOAL_COMPRESSION_SIMD_VECTOR_KERNELS_H_

#include <cstddef>

namespace shoal::compression {

// sum = x + y.
void AddVectors(const float* x, const float* y, std::size_t n, float* sum);
// sum += x; x *= factor; sum += x * factor, rounded in between.
void AddOnto(const float* x, std::size_t n, float* sum);
void Scale(float factor, std::size_t n, float* x);
void AddScaled(const float* x, float factor, std::size_t n, float* sum);
// sum = x * factor + y, rounded in between.
void ScaledSum(const float* x, float factor, const float* y, std::size_t n, float* sum);
// y = x * factors; x *= factors; value by value.
void ScaleEach(const float* x, const float* factors, std::size_t n, float* y);
void MultiplyEach(const float* factors, std::size_t n, float* x);
// x -= y.
void Subtract(const float* y, std::size_t n, float* x);

// The sum of squares in double: value i in sum i mod 8, the sums in order, then the values of an
// incomplete last eight one by one.
double OrderedSquares(const float* x, std::size_t n);
// sum = x + y, and OrderedSquares of it.
double AddVectorsSquared(const float* x, const float* y, std::size_t n, float* sum);

// Signs are bits, value i at bit i mod 8 of byte i / 8: 1 if it is not negative (-0 is +), and 0
// behind the last one. `magnitude` is not negative.
void PackSignBits(const float* x, std::size_t n, std::byte* signs);
// x = +-magnitude; sum += that.
void SetSigned(const std::byte* signs, std::size_t n, float magnitude, float* x);
void AddSigned(const std::byte* signs, std::size_t n, float magnitude, float* sum);
// PackSignBits, and what they leave: x -= +-magnitude. `decoded`, if not null, gets the latter.
void TakeSigned(float* x, std::size_t n, float magnitude, std::byte* signs, float* decoded);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_VECTOR_KERNELS_H_
