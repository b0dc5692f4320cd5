// TokenChanges: how much the tokens of messages changed between visits, ||x - m|| / ||x|| of each,
// counted by size.
//
// AQ-SGD's theorem is about the changes of what is coded. A ratio of energies over a message says
// little of them where one token holds most of the energy (attention sinks): so tokens are counted,
// and quantiles read off. Pure. Thread: one at a time.

#ifndef SHOAL_COMPRESSION_API_TOKEN_CHANGES_H_
#define SHOAL_COMPRESSION_API_TOKEN_CHANGES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace shoal::compression {

class TokenChanges {
 public:
  // Cells are quarters of an octave from 2^kLeast to 2^kMost; one on either side takes the rest.
  static constexpr int kLeast = -12;
  static constexpr int kMost = 4;
  static constexpr std::size_t kCells = std::size_t{4} * (kMost - kLeast) + 2;

  // A token whose values have the energy (sum of squares) `values` and changed by `change`. One
  // without energy and change is passed over; one that is not finite counts as the largest.
  void Count(double change, double values);
  void Add(const TokenChanges& other);
  // What was counted since `before`, an earlier state of this.
  TokenChanges Since(const TokenChanges& before) const;

  std::uint64_t tokens() const;
  // The ratio that a share `q` (0 to 1) of the tokens does not exceed, within a ninth; 0 where none
  // was counted, and below 2^kLeast.
  double Quantile(double q) const;
  double median() const { return Quantile(0.5); }
  double p90() const { return Quantile(0.9); }

  bool operator==(const TokenChanges&) const = default;
  const std::array<std::uint64_t, kCells>& cells() const { return cells_; }

 private:
  std::array<std::uint64_t, kCells> cells_{};
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_TOKEN_CHANGES_H_
