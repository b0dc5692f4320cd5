// Samples and labelled texts as rows.

#ifndef SHOAL_DATASET_PREPARE_MAKE_SAMPLES_H_
#define SHOAL_DATASET_PREPARE_MAKE_SAMPLES_H_

#include <vector>

#include "common/status.h"
#include "dataset/prepare/made_rows.h"
#include "dataset/prepare/prepare_options.h"
#include "dataset/prepare/sample_encoder.h"
#include "dataset/prepare/sample_reader.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// All files have samples of `kind`, kSamples or kClasses, or none. The rows do not depend on the
// number of threads.
Result<MadeRows> MakeSampleRows(const PrepareOptions& options, const Tokenizer& tokenizer,
                                const SampleEncoder& encoder, DataKind kind,
                                std::vector<SampleReader> train,
                                std::vector<SampleReader> validation);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_MAKE_SAMPLES_H_
