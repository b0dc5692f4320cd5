// How long samples are, as bars of text. Pure.

#ifndef SHOAL_DATASET_PREPARE_LENGTH_HISTOGRAM_H_
#define SHOAL_DATASET_PREPARE_LENGTH_HISTOGRAM_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shoal::dataset {

// Samples of `from` to `to` tokens, both included.
struct LengthBar {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t samples = 0;

  bool operator==(const LengthBar&) const = default;
};

// Bars whose ends are powers of two, from that of the shortest sample to that of the longest; what
// is below the last eight is in the first of them. Nothing without lengths.
std::vector<LengthBar> HistogramOf(std::span<const std::uint32_t> lengths);

// A line each: "   33-64      120  ########".
std::string FormatHistogram(std::span<const LengthBar> bars);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_LENGTH_HISTOGRAM_H_
