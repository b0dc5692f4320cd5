// What `shoal prepare` does: text files to one file of token rows (prepared_data.h).

#ifndef SHOAL_DATASET_PREPARE_PREPARE_DATA_H_
#define SHOAL_DATASET_PREPARE_PREPARE_DATA_H_

#include "common/status.h"
#include "dataset/prepare/prepare_options.h"
#include "dataset/prepared_data.h"

namespace shoal::dataset {

// Nothing is overwritten unless all went well. Errors say what to do.
Result<PrepareReport> PrepareData(const PrepareOptions& options);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_PREPARE_DATA_H_
