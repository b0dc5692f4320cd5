#include <cstdio>

#include "model/families/open_adapter.h"
#include "model/families/open_model.h"
#include "model/load_adapter.h"
#include "model/run/commands.h"

namespace shoal::model {

Result<std::unique_ptr<StageModel>> OpenWholeModel(const RunOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(options.model));
  storage::TensorMap adapter_tensors;
  OpenedAdapter adapter;
  if (!options.adapter.empty()) {
    SHOAL_ASSIGN_OR_RETURN(adapter, OpenAdapter(options.adapter));
    if (const Status fits = Adapt(adapter.config, &opened.spec); !fits.ok()) {
      return Status(fits.code(), options.adapter + ": " + fits.message() +
                                     "; is it an adapter of another base?");
    }
    SHOAL_ASSIGN_OR_RETURN(adapter_tensors, AdapterTensors(adapter, opened.spec, options.adapter));
  }
  for (const std::string& note : NotesOn(*opened.directory)) {
    std::fprintf(stderr, "shoal-run: %s: %s\n", options.model.c_str(), note.c_str());
  }
  StageOptions stage_options;
  stage_options.range = {0, opened.spec.layers()};
  stage_options.device = options.device;
  stage_options.compute = options.compute;
  stage_options.threads = options.threads;
  stage_options.held = ZeroMode::kWeights;
  SHOAL_ASSIGN_OR_RETURN(auto stage, NewTorchStage(opened.spec, stage_options));
  SHOAL_RETURN_IF_ERROR(stage->LoadDirectory(*opened.directory).WithContext(options.model));
  if (!options.adapter.empty()) SHOAL_RETURN_IF_ERROR(LoadAdapter(adapter_tensors, stage.get()));
  return stage;
}

}  // namespace shoal::model
