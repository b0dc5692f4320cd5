#include "storage/models/model_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"

namespace shoal::storage {
namespace {

bool SameBytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0);
}

Status CheckPart(const TensorShapes& shapes, const SafetensorsFile& file, const std::string& path,
                 const std::string& part) {
  for (const auto& [name, shape] : shapes) {
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end() || found->second.shape != shape) {
      return InvalidArgument(path + " is not part " + Quoted(part) + " of this model: tensor " +
                             Quoted(name) + " is missing or has another shape");
    }
    if (!IsFloat(found->second.dtype)) {
      return InvalidArgument(path + ": tensor " + Quoted(name) + " has dtype " +
                             std::string(DTypeName(found->second.dtype)) +
                             "; supported are F32, F16 and BF16");
    }
  }
  if (file.tensors().size() != shapes.size()) {
    return InvalidArgument(path + " holds more tensors than part " + Quoted(part) + " has");
  }
  return Status::Ok();
}

// `seen` holds what earlier parts gave.
Status AddPart(const TensorMap& tensors, const std::string& part, TensorMap* seen,
               ModelTensors* all) {
  for (const auto& [name, view] : tensors) {
    const auto [other, is_new] = seen->emplace(name, view);
    if (is_new) {
      all->list.push_back({name, view});
    } else if (!SameBytes(view, other->second)) {
      return DataLoss("tensor " + Quoted(name) + " of part " + Quoted(part) +
                      " differs from that of an earlier part; export from a checkpoint whose "
                      "ends agree");
    }
  }
  return Status::Ok();
}

}  // namespace

const TensorView* ModelTensors::Find(const std::string& name) const {
  const auto found = std::ranges::find(list, name, &NamedTensor::name);
  return found == list.end() ? nullptr : &found->view;
}

Result<ModelTensors> OpenParts(const ModelLayout& layout, std::span<const std::string> part_files) {
  if (layout.parts.size() != part_files.size()) {
    return InvalidArgument("the model has " + std::to_string(layout.parts.size()) + " parts, but " +
                           std::to_string(part_files.size()) + " part files were given");
  }
  ModelTensors all;
  TensorMap seen;
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    const ModelLayout::Part& part = layout.parts[i];
    SHOAL_ASSIGN_OR_RETURN(auto file, OpenSafetensors(part_files[i]));
    SHOAL_RETURN_IF_ERROR(CheckPart(part.tensors, *file, part_files[i], part.name));
    SHOAL_RETURN_IF_ERROR(AddPart(file->tensors(), part.name, &seen, &all));
    all.owners.push_back(std::move(file));
  }
  return all;
}

Result<ModelTensors> TensorsOf(std::shared_ptr<const ModelDirectory> directory) {
  ModelTensors all;
  TensorMap seen;
  for (const ModelLayout::Part& part : directory->layout().parts) {
    SHOAL_ASSIGN_OR_RETURN(const TensorMap tensors, directory->Part(part.name));
    SHOAL_RETURN_IF_ERROR(AddPart(tensors, part.name, &seen, &all));
  }
  all.owners.push_back(std::move(directory));
  return all;
}

}  // namespace shoal::storage
