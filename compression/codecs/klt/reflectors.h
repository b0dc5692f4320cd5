// Reflectors: an orthogonal matrix as a product of a few Householder reflections, whose vectors are
// whole numbers, so that two machines that know these compute the same matrix.
//
// With the vectors as the columns of Y, Q = H_0 H_1 ... = I - W Y^T, where column k of W is H_0 ...
// H_(k-1) v_k times 2 / |v_k|^2 (Bischof and Van Loan, "The WY representation for products of
// Householder matrices", SIAM J. Sci. Stat. Comput. 8, 1987). That holds for any Y: rounded vectors
// give another orthogonal matrix, not one that is less orthogonal, and no value of W exceeds 2. The
// arithmetic is specified in docs/WIRE.md, "klt".
// Pure. Thread: any; one object may be used by several threads at once.

#ifndef SHOAL_COMPRESSION_CODECS_KLT_REFLECTORS_H_
#define SHOAL_COMPRESSION_CODECS_KLT_REFLECTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal::compression {

inline constexpr int kReflectorCodeMost = 127;
inline constexpr int kReflectorExponentMost = 7;

// Vector k is 0 before position k, 1 at k, and codes times 2^-exponent behind it.
struct ReflectorCodes {
  std::size_t rank = 0;  // vectors, below hidden
  std::uint32_t hidden = 0;
  int exponent = 0;                // 0 to kReflectorExponentMost
  std::vector<std::int8_t> codes;  // rank x hidden; those up to position k of vector k do not count
};
// How many codes count.
std::size_t ReflectorCodeCount(std::size_t rank, std::size_t hidden);

class Reflectors {
 public:
  explicit Reflectors(const ReflectorCodes& codes);

  std::size_t rank() const { return rank_; }
  // Y and W, `hidden` rows of width() values, and their transposes, rank() rows (then zeros) of
  // stride() values.
  std::size_t width() const { return width_; }
  std::size_t stride() const { return stride_; }
  std::span<const float> y() const { return y_; }
  std::span<const float> w() const { return w_; }
  std::span<const float> yt() const { return yt_; }
  std::span<const float> wt() const { return wt_; }

  // y = x Q of rows of `hidden` values, the same bits on every machine.
  void Turn(std::span<const float> x, std::span<float> y) const;
  // Rows y become y Q^T, the same bits on every machine.
  void TurnBack(std::span<float> y) const;

 private:
  std::size_t rank_, hidden_;
  std::size_t width_, stride_;  // rank and hidden, padded with zeros
  std::vector<float> y_, w_;    // hidden x width
  std::vector<float> yt_, wt_;  // width x stride: their transposes
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_KLT_REFLECTORS_H_
