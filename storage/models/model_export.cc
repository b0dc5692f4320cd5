// Writes parts as artefacts, and a trained model back into a Hugging Face directory.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"
#include "storage/files/atomic_file.h"
#include "storage/files/foreign_text.h"
#include "storage/models/model_directory.h"

namespace shoal::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kExtraFileBytesMax = 256ull << 20;

const std::map<std::string, std::string>& PtMetadata() {
  static const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  return metadata;
}

// Deletes a half-built folder unless it was renamed into place.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }
  void Release() { path_.clear(); }

 private:
  std::string path_;
};

bool SameBytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0);
}

// The parts' files, and what goes from them into model.safetensors.
struct Collected {
  std::vector<std::shared_ptr<const SafetensorsFile>> files;
  std::vector<TensorToWrite> tensors;
  std::set<DType> dtypes;
};

Status CheckPart(const TensorShapes& shapes, const SafetensorsFile& file, const std::string& path,
                 const std::string& part) {
  for (const auto& [name, shape] : shapes) {
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end() || found->second.shape != shape) {
      return InvalidArgument(path + " is not part " + Quoted(part) + " of this model: tensor " +
                             Quoted(name) + " is missing or has another shape");
    }
    const DType dtype = found->second.dtype;
    if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
      return InvalidArgument(path + ": tensor " + Quoted(name) + " has dtype " +
                             std::string(DTypeName(dtype)) + "; supported are F32, F16 and BF16");
    }
  }
  if (file.tensors().size() != shapes.size()) {
    return InvalidArgument(path + " holds more tensors than part " + Quoted(part) + " has");
  }
  return Status::Ok();
}

Result<Collected> Collect(const ModelLayout& layout, const ExportOptions& options) {
  if (layout.parts.size() != options.part_files.size()) {
    return InvalidArgument("the model has " + std::to_string(layout.parts.size()) + " parts, but " +
                           std::to_string(options.part_files.size()) + " part files were given");
  }
  Collected collected;
  std::map<std::string, TensorView> taken;
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    const std::string& path = options.part_files[i];
    const ModelLayout::Part& part = layout.parts[i];
    SHOAL_ASSIGN_OR_RETURN(auto file, OpenSafetensors(path));
    SHOAL_RETURN_IF_ERROR(CheckPart(part.tensors, *file, path, part.name));
    for (const auto& [name, view] : file->tensors()) {
      const auto [other, is_new] = taken.emplace(name, view);
      if (!is_new) {
        if (SameBytes(view, other->second)) continue;
        return DataLoss("tensor " + Quoted(name) + " of part " + Quoted(part.name) +
                        " differs from that of an earlier part; export from a checkpoint whose "
                        "ends agree");
      }
      const bool bare =
          std::ranges::find(layout.without_prefix, name) != layout.without_prefix.end();
      collected.tensors.push_back(
          {(bare ? "" : layout.prefix) + name, view.dtype, view.shape, view.data});
      collected.dtypes.insert(view.dtype);
    }
    collected.files.push_back(std::move(file));
  }
  return collected;
}

const char* TorchName(DType dtype) {
  return dtype == DType::kF16 ? "float16" : dtype == DType::kBF16 ? "bfloat16" : "float32";
}

// The given config text, changed only where it would describe the exported files wrongly: the
// source may have had another head, and its dtype may be another.
std::string ExportedConfig(const std::string& text, const std::string& architecture,
                           const std::set<DType>& dtypes) {
  auto root = ParseJson<nlohmann::ordered_json>(text);
  SHOAL_CHECK(root.is_object());  // the layout was made from this text
  bool changed = false;
  const auto set = [&](const char* key, nlohmann::ordered_json value) {
    if (root.contains(key) && root[key] == value) return;
    root[key] = std::move(value);
    changed = true;
  };
  set("architectures", nlohmann::ordered_json::array({architecture}));
  if (dtypes.size() == 1) {
    for (const char* key : {"torch_dtype", "dtype"}) {
      if (root.contains(key)) set(key, TorchName(*dtypes.begin()));
    }
  }
  return changed ? root.dump(2) + "\n" : text;
}

Status CheckTarget(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return Status::Ok();
  if (fs::is_directory(status) && fs::is_empty(path, error) && !error) return Status::Ok();
  return AlreadyExists(path +
                       " exists and is not an empty folder; nothing was written, give "
                       "another path or remove it");
}

Status CopyExtras(const ExportOptions& options, const std::string& folder) {
  std::set<std::string> taken = {"config.json", "model.safetensors", "MODEL_CARD.md"};
  for (const std::string& source : options.extra_files) {
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

}  // namespace

Status WritePart(const std::string& path, const TensorMap& tensors) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, view] : tensors) {
    list.push_back({name, view.dtype, view.shape, view.data});
  }
  return WriteSafetensors(path, list, PtMetadata());
}

Status ExportModelDirectory(const ModelLayout& layout, const ExportOptions& options) {
  std::string target = options.path;
  while (target.size() > 1 && target.ends_with('/')) target.pop_back();
  SHOAL_RETURN_IF_ERROR(CheckTarget(target));
  SHOAL_ASSIGN_OR_RETURN(const Collected collected, Collect(layout, options));
  const std::string parent = fs::path(target).parent_path().string();
  if (!parent.empty()) SHOAL_RETURN_IF_ERROR(MakeDirectories(parent));
  std::string made = target + ".tmp-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) return FromErrno(errno, "create folder " + made);
  ScratchFolder scratch(std::move(made));
  if (::chmod(scratch.path().c_str(), 0755) != 0) return FromErrno(errno, "chmod " + target);
  const std::string& folder = scratch.path();
  SHOAL_RETURN_IF_ERROR(
      WriteSafetensors(folder + "/model.safetensors", collected.tensors, PtMetadata()));
  SHOAL_RETURN_IF_ERROR(CopyExtras(options, folder));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder + "/MODEL_CARD.md", options.model_card));
  SHOAL_RETURN_IF_ERROR(
      WriteFileAtomic(folder + "/config.json",
                      ExportedConfig(options.config_json, layout.architecture, collected.dtypes)));
  // rename replaces an empty folder and fails on any other.
  if (::rename(folder.c_str(), target.c_str()) != 0) {
    return FromErrno(errno, "move the exported model to " + target);
  }
  scratch.Release();
  return SyncFolder(parent);
}

}  // namespace shoal::storage
