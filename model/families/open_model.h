// A Hugging Face model directory with what its config.json describes. Thread: any one at a time.

#ifndef SHOAL_MODEL_FAMILIES_OPEN_MODEL_H_
#define SHOAL_MODEL_FAMILIES_OPEN_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

struct OpenedModel {
  ModelSpec spec;
  std::shared_ptr<const storage::ModelDirectory> directory;
};

// What a user should know of the weights, one line each; empty if there is nothing.
std::vector<std::string> NotesOn(const storage::ModelDirectory& directory);
storage::ModelLayout LayoutOf(const ModelSpec& spec);
// Checks config.json and that the files hold the model that it describes.
Result<OpenedModel> OpenModel(const std::string& path);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_OPEN_MODEL_H_
