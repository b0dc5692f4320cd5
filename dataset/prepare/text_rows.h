// Running text as rows: documents follow one another, through rows.

#ifndef SHOAL_DATASET_PREPARE_TEXT_ROWS_H_
#define SHOAL_DATASET_PREPARE_TEXT_ROWS_H_

#include "common/status.h"
#include "dataset/prepare/made_rows.h"
#include "dataset/prepare/prepare_options.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// Reads the files of `options` as plain text, JSON lines or JSON arrays of {"text"}. The rows do
// not depend on the number of threads.
Result<MadeRows> MakeTextRows(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_TEXT_ROWS_H_
