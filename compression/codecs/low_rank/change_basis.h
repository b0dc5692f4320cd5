// The leading directions of one sample's change, found in two passes over it (Halko, Martinsson
// and Tropp, "Finding structure with randomness", SIAM Review 2011, with half a power iteration).
//
// The rows of the change D, each with a random sign, are dealt out to a few sums Z^T. These lie in
// D's row space, where its large directions weigh most, and cost one addition a value. Then P =
// orthonormal(D Z), B = D^T P, and the eigenvectors of B^T B turn both so that D is about
// left right^T with orthonormal columns on the left and orthogonal ones, largest first, on the
// right. Only the encoder does this: nothing here needs to be the same on two machines.
// Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_BASIS_H_
#define SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_BASIS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/api/codec.h"
#include "compression/codecs/low_rank/small_matrix.h"

namespace shoal::compression {

// Sums beyond the directions that are wanted, without which the last of these are missed.
inline constexpr std::size_t kSketchMore = 8;

// 1 or -1 for each of `count` tokens, drawn by counter from `stream` of a message.
std::vector<float> RandomSigns(const RandomKey& key, std::uint32_t stream, std::size_t count);

// A change whose rows are multiplied by `token_factors`, powers of two; empty: by 1. Magnitudes are
// below 2^41.
struct ScaledChange {
  std::span<const float> values;
  SampleShape shape;
  std::span<const float> token_factors;
};

// Row-major, `width` columns each.
struct ChangeBasis {
  std::size_t width = 0;
  std::vector<float> left;   // of a row per token
  std::vector<float> right;  // of a row per hidden position
};

class ChangeSketch {
 public:
  // For `rank` directions at most. `signs`: RandomSigns of the tokens.
  ChangeSketch(const ScaledChange& change, std::size_t rank, std::span<const float> signs);

  // Squares of the norms of the right columns, largest first.
  const std::vector<double>& energies() const { return energies_; }
  // The first `rank` directions.
  ChangeBasis Leading(std::size_t rank) const;

 private:
  std::vector<float> RowSums(const ScaledChange& change, std::span<const float> signs) const;

  SampleShape shape_;
  std::size_t columns_;  // of the sketch
  std::size_t width_;    // the same, padded
  std::vector<float> left_, right_;
  SmallMatrix turn_;  // width_ x width_
  std::vector<double> energies_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_BASIS_H_
