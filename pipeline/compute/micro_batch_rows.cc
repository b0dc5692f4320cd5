#include "pipeline/compute/micro_batch_rows.h"

namespace shoal::pipeline {

Status ReadRows(const dataset::PreparedData* data, bool first, bool last,
                model::MicroBatch* micro_batch, BatchRows* rows) {
  *rows = {};
  const bool segmented = data != nullptr && data->info().segmented;
  if (!first && !last && !segmented) return Status::Ok();
  if (data == nullptr) return FailedPrecondition("this stage has no data to read rows of");
  for (const SampleId sample : micro_batch->samples) {
    SHOAL_RETURN_IF_ERROR(data->AppendRow(sample, &rows->tokens, &rows->labels, &rows->segments));
    if (data->info().typed) rows->type_borders.push_back(data->TypeBorder(sample));
  }
  const std::size_t expected = std::size_t{micro_batch->rows} * micro_batch->tokens;
  if (rows->tokens.size() != expected || rows->labels.size() != expected ||
      rows->segments.size() != (segmented ? expected : 0)) {
    return Internal("the prepared data gave rows of another length");
  }
  if (first) micro_batch->token_ids = rows->tokens;
  if (first) micro_batch->type_borders = rows->type_borders;
  if (last) micro_batch->labels = rows->labels;
  micro_batch->segments = rows->segments;
  return Status::Ok();
}

}  // namespace shoal::pipeline
