// Rows of samples as the bytes of a prepared file of version 2 or 3.

#ifndef SHOAL_DATASET_PREPARE_SAMPLE_ROWS_H_
#define SHOAL_DATASET_PREPARE_SAMPLE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset/data_header.h"
#include "dataset/prepare/sample_store.h"

namespace shoal::dataset {

// The row of each sample of a store: the first `train_samples` are in training rows, the others in
// validation rows behind them.
struct SampleRows {
  std::vector<std::uint64_t> row_of;
  std::uint64_t train_rows = 0;
  std::uint64_t rows = 0;
};

// One sample a row, or several (PackFirstFit) with `pack`. `train_samples`: 1 .. lengths.size().
SampleRows ArrangeRows(std::span<const std::uint32_t> lengths, std::size_t train_samples,
                       std::uint32_t row_tokens, bool pack);

// The file's bytes, with kDataHeaderBytes zeros in place of the header. Of `header` everything must
// be set but the splits and the payload's checksum, which this sets.
std::string WriteSampleRows(const SampleStore& samples, std::size_t train_samples,
                            const SampleRows& rows, DataHeader* header);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_SAMPLE_ROWS_H_
