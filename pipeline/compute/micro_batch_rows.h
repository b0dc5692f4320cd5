// The rows of a micro-batch as the stages read them. Pure. Thread: any.

#ifndef SHOAL_PIPELINE_COMPUTE_MICRO_BATCH_ROWS_H_
#define SHOAL_PIPELINE_COMPUTE_MICRO_BATCH_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "dataset/prepared_data.h"
#include "model/stage_model.h"

namespace shoal::pipeline {

// Rows x tokens each, and one border a row; empty where a stage needs none.
struct BatchRows {
  std::vector<std::int32_t> tokens, labels, segments;
  std::vector<std::uint32_t> type_borders;
};

// Reads the rows of `micro_batch`'s samples into `*rows` and has its spans point there: token ids
// and the borders of their types on the first stage, labels on the last, segments on all stages
// where the data has some. `data` may be null where none of that is needed: on stages between,
// where rows are not segmented. An error where the data has other rows than `micro_batch` says.
Status ReadRows(const dataset::PreparedData* data, bool first, bool last,
                model::MicroBatch* micro_batch, BatchRows* rows);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_COMPUTE_MICRO_BATCH_ROWS_H_
