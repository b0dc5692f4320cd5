// The rows of a micro-batch as the stages read them. Pure. Thread: any.

#ifndef SHOAL_PIPELINE_COMPUTE_MICRO_BATCH_ROWS_H_
#define SHOAL_PIPELINE_COMPUTE_MICRO_BATCH_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "dataset/prepared_data.h"
#include "model/stage_model.h"

namespace shoal::pipeline {

// Token ids, labels and, of segmented data, segments of `micro_batch`'s samples, rows x tokens each
// (no segments otherwise), in place of what was in the vectors. An error where the data has other
// rows than `micro_batch` says.
Status ReadRows(const dataset::PreparedData& data, const model::MicroBatch& micro_batch,
                std::vector<std::int32_t>* tokens, std::vector<std::int32_t>* labels,
                std::vector<std::int32_t>* segments);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_COMPUTE_MICRO_BATCH_ROWS_H_
