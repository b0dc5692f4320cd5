// SpotComparison: a micro-batch that a member of the stage group has computed, computed again, and
// how far its output is from what was sent.
//
// What was sent is rounded by a codec, coarsely perhaps. So the own output is coded, too, against
// the same m, with the same random numbers: honest members then send nearly the same, whatever the
// codec. Each function runs on the thread that it names, one after the other.

#ifndef SHOAL_PIPELINE_COMPUTE_SPOT_COMPARISON_H_
#define SHOAL_PIPELINE_COMPUTE_SPOT_COMPARISON_H_

#include <memory>
#include <optional>

#include "common/clock.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "dataset/prepared_data.h"
#include "model/stage_model.h"
#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/evidence.h"

namespace shoal::pipeline {

struct SpotComparison {
  MicroBatchId id;
  MicroBatchPlan plan;
  compression::SampleShape sample;
  std::optional<DirectionConfig> before, behind;  // of the boundaries; none: first or last stage
  TransferEvidence input, output;                 // of these
  std::shared_ptr<const compression::ValueHome> home;
  std::shared_ptr<const dataset::PreparedData> data;  // as ReadRows needs it
  model::StageModel* model = nullptr;
  const Clock* clock = nullptr;

  Buffer input_values, output_values;  // where `home` says
  // As SpotResult has them.
  model::StepLoss loss;
  double difference = 0, coding_error = 0;
};

// An error: the evidence cannot be decoded. Thread: codec.
Status DecodeInput(SpotComparison* of);
// Nothing is kept, and no random mask drawn. Thread: compute.
Status ComputeAgain(SpotComparison* of);
// An error: the evidence cannot be decoded, or the own output not be coded. Thread: codec.
Status CompareOutput(SpotComparison* of);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_COMPUTE_SPOT_COMPARISON_H_
