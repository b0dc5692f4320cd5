#include "model/families/open_adapter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/file.h"
#include "storage/files/atomic_file.h"
#include "storage/files/foreign_text.h"
#include "storage/files/new_folder.h"

namespace shoal::model {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20;
constexpr const char* kConfigName = "/adapter_config.json";
constexpr const char* kWeightsName = "/adapter_model.safetensors";

bool IsFloat(storage::DType dtype) {
  return dtype == storage::DType::kF32 || dtype == storage::DType::kF16 ||
         dtype == storage::DType::kBF16;
}

}  // namespace

Result<OpenedAdapter> OpenAdapter(const std::string& folder) {
  const auto text = ReadFile(folder + kConfigName, kConfigBytesMax);
  if (!text.ok()) {
    return Status(text.status().code(), text.status().message() +
                                            "; an adapter is a folder with adapter_config.json "
                                            "and adapter_model.safetensors, as PEFT saves it");
  }
  OpenedAdapter opened;
  SHOAL_ASSIGN_OR_RETURN(opened.config, ParseAdapterConfig(*text, folder + kConfigName));
  SHOAL_ASSIGN_OR_RETURN(opened.file, storage::OpenSafetensors(folder + kWeightsName));
  return opened;
}

Result<storage::TensorMap> AdapterTensors(const OpenedAdapter& adapter, const ModelSpec& spec,
                                          const std::string& folder) {
  const std::string path = folder + kWeightsName;
  const std::string another = "; is it an adapter of another base?";
  storage::TensorMap tensors;
  std::size_t taken = 0;
  for (const std::string& part : spec.PartNames()) {
    for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
      const auto found = adapter.file->tensors().find(AdapterFileName(spec, name));
      if (found == adapter.file->tensors().end()) {
        return InvalidArgument(path + " has no tensor " + AdapterFileName(spec, name) + another);
      }
      if (found->second.shape != tensor.shape || !IsFloat(found->second.dtype)) {
        return InvalidArgument(path + ": tensor " + found->first +
                               " has another shape or number format than the model's" + another);
      }
      taken += tensors.insert_or_assign(name, found->second).second ? 1 : 0;
    }
  }
  if (taken == adapter.file->tensors().size()) return tensors;
  for (const auto& [name, view] : adapter.file->tensors()) {
    const bool known = std::ranges::any_of(tensors, [&, &name = name](const auto& entry) {
      return AdapterFileName(spec, entry.first) == name;
    });
    if (!known) {
      return InvalidArgument(path + ": the model has no place for tensor " + storage::Quoted(name) +
                             another);
    }
  }
  return tensors;
}

Status ExportAdapter(const AdapterConfig& config, const ModelSpec& spec,
                     const AdapterExport& request) {
  std::vector<std::shared_ptr<const storage::SafetensorsFile>> files;
  std::map<std::string, storage::TensorView> tensors;
  for (const std::string& part : spec.PartNames()) {
    const storage::TensorMap* const given = [&]() -> const storage::TensorMap* {
      const auto path = request.part_files.find(part);
      if (path == request.part_files.end()) return nullptr;
      auto file = storage::OpenSafetensors(path->second);
      if (!file.ok()) return nullptr;
      files.push_back(std::move(*file));
      return &files.back()->tensors();
    }();
    for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
      const auto found =
          given == nullptr ? storage::TensorMap::const_iterator() : given->find(name);
      if (given == nullptr || found == given->end() || found->second.shape != tensor.shape) {
        return DataLoss("the checkpoint's part " + part + " lacks tensor " + name);
      }
      tensors.insert_or_assign(AdapterFileName(spec, name), found->second);
    }
  }
  std::vector<storage::TensorToWrite> list;
  for (const auto& [name, view] : tensors)
    list.push_back({name, view.dtype, view.shape, view.data});
  SHOAL_ASSIGN_OR_RETURN(storage::NewFolder folder, storage::NewFolder::Begin(request.path));
  SHOAL_RETURN_IF_ERROR(
      storage::WriteSafetensors(folder.path() + kWeightsName, list, {{"format", "pt"}}));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder.path() + "/README.md", request.model_card));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder.path() + kConfigName,
                                        FormatAdapterConfig(config, spec, request.base)));
  return folder.Commit();
}

}  // namespace shoal::model
