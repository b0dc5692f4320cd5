#include "pipeline/compute/micro_batch_rows.h"

namespace shoal::pipeline {

Status ReadRows(const dataset::PreparedData& data, const model::MicroBatch& micro_batch,
                std::vector<std::int32_t>* tokens, std::vector<std::int32_t>* labels,
                std::vector<std::int32_t>* segments) {
  tokens->clear();
  labels->clear();
  segments->clear();
  for (const SampleId sample : micro_batch.samples) {
    SHOAL_RETURN_IF_ERROR(data.AppendRow(sample, tokens, labels, segments));
  }
  const std::size_t expected = std::size_t{micro_batch.rows} * micro_batch.tokens;
  const std::size_t expected_segments = data.info().segmented ? expected : 0;
  if (tokens->size() == expected && labels->size() == expected &&
      segments->size() == expected_segments) {
    return Status::Ok();
  }
  return Internal("the prepared data gave rows of another length");
}

}  // namespace shoal::pipeline
