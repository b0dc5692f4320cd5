#include "model/exports/adapter_export.h"

#include <map>
#include <vector>

#include "common/file.h"
#include "model/families/open_adapter.h"
#include "storage/files/atomic_file.h"
#include "storage/files/atomic_folder.h"

namespace shoal::model {

Status WriteAdapter(const ExportedAdapter& adapter, const ModelSpec& spec,
                    const std::string& model_card, const std::string& path) {
  std::map<std::string, storage::TensorView> by_name;  // sorted, as PEFT writes them
  for (const auto& [name, view] : adapter.tensors) by_name[AdapterFileName(spec, name)] = view;
  std::vector<storage::TensorToWrite> tensors;
  tensors.reserve(by_name.size());
  for (const auto& [name, view] : by_name) {
    tensors.push_back({name, view.dtype, view.shape, view.data});
  }
  SHOAL_ASSIGN_OR_RETURN(const auto folder, storage::AtomicFolder::Create(path));
  const std::string config = FormatAdapterConfig(adapter.config, spec, adapter.base);
  SHOAL_RETURN_IF_ERROR(
      storage::WriteSafetensors(folder->path() + kAdapterWeightsName, tensors, {{"format", "pt"}}));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder->path() + kAdapterConfigName, config));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder->path() + "/README.md", model_card));
  return folder->Commit();
}

}  // namespace shoal::model
