// Checks of what a stage of a model is given: options, micro-batches. Internal to model/. Pure.
// Thread: any.

#ifndef SHOAL_MODEL_MICRO_BATCH_CHECK_H_
#define SHOAL_MODEL_MICRO_BATCH_CHECK_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "common/status.h"
#include "model/stage_model.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

// Invalid argument, with what is allowed, if they do not fit each other or the model. Device and
// number format are checked where they are chosen (torch_device.h).
Status CheckStageOptions(const ModelSpec& spec, const StageOptions& options);

// Which ends of the model a stage has: the embeddings, the head.
struct StageEnds {
  bool first, last;
};

// "micro-batch STEP/INDEX".
std::string NameOf(MicroBatchId id);
// Invalid argument unless `have` is `want`, both in values.
Status CheckSize(std::string_view what, std::size_t have, std::size_t want);
// Invalid argument if sizes do not fit each other and the model, an id is outside the vocabulary,
// a label outside of it or of the classes, a segment is in pieces, or a token type is none of the
// model's. `labels`: they are needed at the last stage.
Status CheckMicroBatch(const ModelSpec& spec, StageEnds ends, const MicroBatch& micro_batch,
                       bool labels);
// Invalid argument unless the output has room for activations or, at the last stage, there is one
// for the loss.
Status CheckOutput(const ModelSpec& spec, StageEnds ends, const MicroBatch& micro_batch,
                   std::size_t output_values, const StepLoss* loss);
// Scores at a place: the vocabulary, or the classes.
std::uint32_t LogitsOf(const ModelSpec& spec);
// `sum`: of the losses of all labels that count.
StepLoss LossOf(const MicroBatch& micro_batch, double sum);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_MICRO_BATCH_CHECK_H_
