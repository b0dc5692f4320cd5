#include "model/families/open_adapter.h"

#include <algorithm>
#include <utility>

#include "common/file.h"
#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"

namespace shoal::model {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20;

}  // namespace

Result<OpenedAdapter> OpenAdapter(const std::string& folder) {
  const auto text = ReadFile(folder + kAdapterConfigName, kConfigBytesMax);
  if (!text.ok()) {
    return Status(text.status().code(), text.status().message() +
                                            "; an adapter is a folder with adapter_config.json "
                                            "and adapter_model.safetensors, as PEFT saves it");
  }
  OpenedAdapter opened;
  SHOAL_ASSIGN_OR_RETURN(opened.config, ParseAdapterConfig(*text, folder + kAdapterConfigName));
  SHOAL_ASSIGN_OR_RETURN(opened.file, storage::OpenSafetensors(folder + kAdapterWeightsName));
  return opened;
}

Result<storage::TensorMap> AdapterTensors(const OpenedAdapter& adapter, const ModelSpec& spec,
                                          const std::string& folder) {
  const std::string path = folder + kAdapterWeightsName;
  const std::string another = "; is it an adapter of another base?";
  storage::TensorMap tensors;
  std::size_t taken = 0;
  for (const std::string& part : spec.PartNames()) {
    for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
      const auto found = adapter.file->tensors().find(AdapterFileName(spec, name));
      if (found == adapter.file->tensors().end()) {
        return InvalidArgument(path + " has no tensor " + AdapterFileName(spec, name) + another);
      }
      if (found->second.shape != tensor.shape || !storage::IsFloat(found->second.dtype)) {
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

}  // namespace shoal::model
