#include "model/families/open_model.h"

#include <utility>

#include "model/families/family.h"

namespace shoal::model {

storage::ModelLayout LayoutOf(const ModelSpec& spec) {
  storage::ModelLayout layout;
  for (const std::string& name : spec.PartNames()) {
    storage::ModelLayout::Part& part = layout.parts.emplace_back();
    part.name = name;
    for (const auto& [tensor, described] : spec.PartTensors(name)) {
      part.tensors[tensor] = described.shape;
    }
  }
  layout.prefix = spec.files.prefix;
  layout.without_prefix = spec.files.without_prefix;
  layout.buffer_ends = spec.files.buffer_ends;
  layout.architecture = spec.files.architecture;
  if (spec.tied_head()) {
    layout.shared = spec.embedding.tokens.weight;
    layout.copy = spec.files.tied_copy;
  }
  return layout;
}

Result<OpenedModel> OpenModel(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const std::string json, storage::ReadModelConfig(path));
  OpenedModel opened;
  SHOAL_ASSIGN_OR_RETURN(opened.spec, ParseModelSpec(json, path + "/config.json"));
  SHOAL_ASSIGN_OR_RETURN(opened.directory,
                         storage::OpenModelDirectory(path, LayoutOf(opened.spec)));
  return opened;
}

}  // namespace shoal::model
