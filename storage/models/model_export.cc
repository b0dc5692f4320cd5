// Writes parts as artefacts, and a trained model back into a Hugging Face directory.

#include "storage/models/model_export.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/bytes.h"
#include "common/file.h"
#include "common/nesting.h"
#include "storage/files/atomic_file.h"
#include "storage/files/atomic_folder.h"
#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"
#include "storage/models/safetensors_header.h"

namespace shoal::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kExtraFileBytesMax = 256ull << 20;
// Of a tensor, in memory at a time.
constexpr std::size_t kValuesAtOnce = std::size_t{1} << 18;

const std::map<std::string, std::string>& PtMetadata() {
  static const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  return metadata;
}

DType FormatOf(const NamedTensor& tensor, const ExportOptions& options) {
  const auto found = options.dtypes.find(tensor.name);
  return found == options.dtypes.end() ? tensor.view.dtype : found->second;
}

// What model.safetensors declares; the views are still in their own format.
std::vector<TensorToWrite> Declared(const ModelLayout& layout, const ModelTensors& tensors,
                                    const ExportOptions& options) {
  std::vector<TensorToWrite> declared;
  for (const NamedTensor& tensor : tensors.list) {
    const bool bare =
        std::ranges::find(layout.without_prefix, tensor.name) != layout.without_prefix.end();
    declared.push_back({(bare ? "" : layout.prefix) + tensor.name, FormatOf(tensor, options),
                        tensor.view.shape, tensor.view.data});
  }
  return declared;
}

Status AppendAs(DType format, const NamedTensor& tensor, AtomicFile* file) {
  const TensorView& view = tensor.view;
  if (view.dtype == format) return file->Append(view.data);
  const std::size_t from = DTypeBytes(view.dtype), to = DTypeBytes(format);
  std::vector<float> values(std::min(kValuesAtOnce, view.data.size() / from));
  std::vector<std::byte> bytes(values.size() * to);
  for (std::size_t done = 0; done < view.data.size() / from; done += values.size()) {
    const std::size_t count = std::min(values.size(), view.data.size() / from - done);
    const std::span<float> some = std::span(values).first(count);
    const std::span<std::byte> made = std::span(bytes).first(count * to);
    ReadFloats(view.dtype, view.data.subspan(done * from, count * from), some);
    if (const auto lost = WriteFloats(format, some, made)) {
      return InvalidArgument("tensor " + Quoted(tensor.name) + " has the value " +
                             std::to_string(*lost) + ", which is too large for " +
                             std::string(ConfigNameOf(format)) + "; export with --dtype fp32");
    }
    SHOAL_RETURN_IF_ERROR(file->Append(made));
  }
  return Status::Ok();
}

Status WriteModel(const std::string& path, const ModelLayout& layout, const ModelTensors& tensors,
                  const ExportOptions& options) {
  const Result<std::string> header =
      BuildSafetensorsHeader(Declared(layout, tensors, options), PtMetadata());
  if (!header.ok()) return header.status().WithContext("cannot write " + path);
  SHOAL_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  std::byte prefix[sizeof(std::uint64_t)];
  StoreLittle<std::uint64_t>(prefix, header->size());
  SHOAL_RETURN_IF_ERROR(file->Append(prefix));
  SHOAL_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(*header))));
  for (const NamedTensor& tensor : tensors.list) {
    SHOAL_RETURN_IF_ERROR(AppendAs(FormatOf(tensor, options), tensor, file.get()));
  }
  return file->Commit();
}

// The format that most values have.
DType CommonFormat(const ModelTensors& tensors, const ExportOptions& options) {
  std::map<DType, std::size_t> values;
  for (const NamedTensor& tensor : tensors.list) {
    values[FormatOf(tensor, options)] += tensor.view.data.size() / DTypeBytes(tensor.view.dtype);
  }
  const auto most = std::ranges::max_element(
      values, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == values.end() ? DType::kF32 : most->first;
}

// The given config text, changed only where it would describe the exported files wrongly: the
// source may have had another head, and its format may be another.
std::string ExportedConfig(const std::string& text, const std::string& architecture, DType format) {
  auto root = ParseJson<nlohmann::ordered_json>(text);
  SHOAL_CHECK(root.is_object());  // the layout was made from this text
  bool changed = false;
  const auto set = [&](const char* key, nlohmann::ordered_json value) {
    if (root.contains(key) && root[key] == value) return;
    root[key] = std::move(value);
    changed = true;
  };
  set("architectures", nlohmann::ordered_json::array({architecture}));
  const std::string name(ConfigNameOf(format));
  const bool said = root.contains("torch_dtype") || root.contains("dtype");
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (root.contains(key)) set(key, name);
  }
  // Files that say nothing are read as fp32.
  if (!said && format != DType::kF32) set("torch_dtype", name);
  return changed ? root.dump(2) + "\n" : text;
}

}  // namespace

Status CopyFilesInto(const std::string& folder, std::span<const std::string> sources,
                     std::set<std::string> taken) {
  for (const std::string& source : sources) {
    const std::string name = fs::path(source).filename().string();
    if (!IsPlainFileName(name) || !taken.insert(name).second) {
      return InvalidArgument("cannot export " + source + ": the name " + Quoted(name) +
                             " is taken or not a file name");
    }
    SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source, kExtraFileBytesMax));
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder + "/" + name, bytes));
  }
  return Status::Ok();
}

std::optional<DType> ConfigFormat(const std::string& config_json) {
  const auto root = ParseJson<nlohmann::json>(config_json);
  if (!root.is_object()) return std::nullopt;
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = root.find(key);
    if (found != root.end() && found->is_string()) return FloatOfConfig(found->get<std::string>());
  }
  return std::nullopt;
}

Status WritePart(const std::string& path, const TensorMap& tensors) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, view] : tensors) {
    list.push_back({name, view.dtype, view.shape, view.data});
  }
  return WriteSafetensors(path, list, PtMetadata());
}

Status ExportModelDirectory(const ModelLayout& layout, const ModelTensors& tensors,
                            const ExportOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(const auto folder, AtomicFolder::Create(options.path));
  const std::string& path = folder->path();
  SHOAL_RETURN_IF_ERROR(WriteModel(path + "/model.safetensors", layout, tensors, options));
  SHOAL_RETURN_IF_ERROR(CopyFilesInto(path, options.extra_files,
                                      {"config.json", "model.safetensors", "MODEL_CARD.md"}));
  if (!options.model_card.empty()) {
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(path + "/MODEL_CARD.md", options.model_card));
  }
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(
      path + "/config.json",
      ExportedConfig(options.config_json, layout.architecture, CommonFormat(tensors, options))));
  return folder->Commit();
}

}  // namespace shoal::storage
