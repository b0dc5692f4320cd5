#include "model/families/open_model.h"

#include <utility>

#include "model/families/family.h"
#include "model/families/fresh_weights.h"

namespace shoal::model {
namespace {

// Of tensors that a directory lacks: the same for everybody who opens it.
constexpr std::uint64_t kFreshSeed = 0;

}  // namespace

std::vector<std::string> NotesOn(const storage::ModelDirectory& directory) {
  std::string names;
  for (const std::string& name : directory.FreshTensors()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  if (names.empty()) return {};
  return {"the files have no " + names + ": these are new and know nothing until they are trained"};
}

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
  layout.unused_begins = spec.files.unused_begins;
  layout.old_ends = spec.files.old_ends;
  layout.fresh_groups = spec.files.fresh_groups;
  layout.draw = [tensors = spec.PartTensors("head")](const std::string& name,
                                                     std::span<float> values) {
    InitTensor(tensors.at(name), name, kFreshSeed, values);
  };
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
