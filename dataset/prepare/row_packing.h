// Which row each sample gets. Pure.

#ifndef SHOAL_DATASET_PREPARE_ROW_PACKING_H_
#define SHOAL_DATASET_PREPARE_ROW_PACKING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shoal::dataset {

// The row of each sample, in order, rows from 0 without gaps. First fit (Johnson, "Near-optimal bin
// packing algorithms", 1973): a sample goes into the first row that has room for it, else into a
// new one. Within a row samples keep their order. Lengths are 1 .. row_tokens. n log n steps.
std::vector<std::uint64_t> PackFirstFit(std::span<const std::uint32_t> lengths,
                                        std::uint32_t row_tokens);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_ROW_PACKING_H_
