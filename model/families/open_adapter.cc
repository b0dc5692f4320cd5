#include "model/families/open_adapter.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"

namespace shoal::model {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20;
constexpr char kFolder[] =
    "; an adapter is a folder with adapter_config.json and adapter_model.safetensors, as PEFT "
    "saves it";

Status CheckWeightsFile(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder + kAdapterWeightsName, error)) return Status::Ok();
  if (std::filesystem::exists(folder + "/adapter_model.bin", error)) {
    return NotFound(folder +
                    "/adapter_model.bin is a pickle and is never read; save the adapter again "
                    "with safe_serialization=True");
  }
  return NotFound(folder + " has no adapter_model.safetensors" + kFolder);
}

}  // namespace

Result<OpenedAdapter> OpenAdapter(const std::string& folder) {
  const auto text = ReadFile(folder + kAdapterConfigName, kConfigBytesMax);
  if (!text.ok()) {
    return Status(text.status().code(), text.status().message() + kFolder);
  }
  OpenedAdapter opened;
  SHOAL_ASSIGN_OR_RETURN(opened.config, ParseAdapterConfig(*text, folder + kAdapterConfigName));
  SHOAL_RETURN_IF_ERROR(CheckWeightsFile(folder));
  SHOAL_ASSIGN_OR_RETURN(opened.file, storage::OpenSafetensors(folder + kAdapterWeightsName));
  return opened;
}

Result<storage::TensorMap> AdapterTensors(const OpenedAdapter& adapter, const ModelSpec& spec,
                                          const std::string& folder) {
  const std::string path = folder + kAdapterWeightsName;
  const std::string another =
      "; is it an adapter of another base? give the model that it was trained beside";
  storage::TensorMap tensors;
  std::size_t taken = 0;
  for (const std::string& part : spec.PartNames()) {
    for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
      const auto found = adapter.file->tensors().find(AdapterFileName(spec, name));
      if (found == adapter.file->tensors().end()) {
        return InvalidArgument(path + " has no tensor " + AdapterFileName(spec, name) + another);
      }
      const storage::TensorView& view = found->second;
      if (!storage::IsFloat(view.dtype)) {
        return InvalidArgument(path + ": tensor " + storage::Quoted(found->first) + " has dtype " +
                               std::string(storage::DTypeName(view.dtype)) +
                               "; save the adapter again as F32, F16 or BF16");
      }
      if (view.shape != tensor.shape) {
        return InvalidArgument(path + ": tensor " + storage::Quoted(found->first) + " has shape " +
                               storage::ShapeText(view.shape) +
                               ", but the model and adapter_config.json ask for " +
                               storage::ShapeText(tensor.shape) + another);
      }
      SHOAL_RETURN_IF_ERROR(storage::CheckFinite(found->first, view).WithContext(path));
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
