#include "model/run_commands.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

Result<std::unique_ptr<StageModel>> OpenWholeModel(const RunOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(const auto directory, storage::OpenModelDirectory(options.model));
  StageOptions stage_options;
  stage_options.range = {0, directory->config().layers};
  stage_options.device = options.device;
  stage_options.compute = options.compute;
  stage_options.threads = options.threads;
  SHOAL_ASSIGN_OR_RETURN(auto stage, NewTorchGpt2Stage(directory->config(), stage_options));
  SHOAL_RETURN_IF_ERROR(stage->LoadDirectory(*directory).WithContext(options.model));
  return stage;
}

}  // namespace shoal::model
