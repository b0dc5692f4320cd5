// Gives a stage the values of an adapter that somebody trained.
//
// Thread: compute.

#ifndef SHOAL_MODEL_LOAD_ADAPTER_H_
#define SHOAL_MODEL_LOAD_ADAPTER_H_

#include "common/status.h"
#include "model/stage_model.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

// `tensors`: of the whole model (AdapterTensors), or of the stage at least.
Status LoadAdapter(const storage::TensorMap& tensors, StageModel* stage);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_LOAD_ADAPTER_H_
