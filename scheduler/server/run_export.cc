#include "scheduler/server/run_export.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "common/file.h"
#include "model/exports/base_part.h"
#include "model/families/merge_adapter.h"
#include "model/families/open_model.h"
#include "model/families/trained_part.h"
#include "scheduler/server/artefact_ref.h"
#include "scheduler/server/run_origin.h"
#include "storage/models/float_bytes.h"
#include "storage/models/model_export.h"
#include "storage/models/model_tensors.h"

namespace shoal::scheduler {
namespace {

using File = std::shared_ptr<const storage::SafetensorsFile>;

Result<std::string> PathOf(const std::map<std::string, control::v1::ArtefactRef>& artefacts,
                           const std::string& name, const BlobPaths& blobs) {
  const auto found = artefacts.find(name);
  if (found == artefacts.end()) return DataLoss("the checkpoint has no part " + name);
  return blobs.at(FromProto(found->second).hash);
}

// The format of each tensor in the model that the run began with: of its part, else, where that is
// not here, what config.json says of all. `with_base`: the run keeps what it does not train so,
// too.
std::map<std::string, storage::DType> SourceFormats(const RunArtefacts& artefacts,
                                                    const BlobPaths& blobs, bool with_base) {
  std::map<std::string, storage::DType> formats;
  const auto said = storage::ConfigFormat(artefacts.model.json);
  for (const std::string& part : artefacts.model.PartNames()) {
    if (said) {
      for (const auto& [name, tensor] : artefacts.model.PartTensors(part)) formats[name] = *said;
    }
    std::vector<std::string> names = {part};
    if (with_base) names.push_back(part + std::string(model::kBaseSuffix));
    for (const std::string& name : names) {
      const auto path = PathOf(artefacts.initial, name, blobs);
      if (!path.ok()) continue;
      const auto file = storage::OpenSafetensors(*path);
      if (!file.ok()) continue;
      for (const auto& [tensor, view] : (*file)->tensors()) {
        if (storage::IsFloat(view.dtype)) formats[tensor] = view.dtype;
      }
    }
  }
  return formats;
}

// A folder that goes with the object.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) { Clear(); }
  ~ScratchFolder() { Clear(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  void Clear() const {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string path_;
};

// The model's folder or a file in it; what the run's own folder keeps of it, where it is gone.
std::string HereOrKept(const std::string& path, const RunConfig& config) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  const Result<RunOrigin> origin = ReadOrigin(config.directory);
  if (!origin.ok()) return path;
  const std::string name = std::filesystem::path(path).filename().string();
  const std::string kept = origin->model_folder + "/" + name;
  return std::filesystem::is_regular_file(kept, error) ? kept : origin->model_folder;
}

// Trained tensors of the whole model; `files` keeps what they show.
Result<storage::TensorMap> TrainedTensors(const model::ModelSpec& spec,
                                          const std::vector<std::string>& paths,
                                          std::vector<File>* files) {
  storage::TensorMap tensors;
  for (const std::string& path : paths) {
    SHOAL_ASSIGN_OR_RETURN(files->emplace_back(), storage::OpenSafetensors(path));
    tensors.insert(files->back()->tensors().begin(), files->back()->tensors().end());
  }
  for (const std::string& part : spec.PartNames()) {
    for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
      const auto found = tensors.find(name);
      if (found == tensors.end() || found->second.shape != tensor.shape) {
        return DataLoss("the checkpoint's part " + part + " lacks tensor " + name);
      }
    }
  }
  return tensors;
}

// The model that adapters were trained beside, part by part: where the run keeps it in fewer bits
// and the model's own files are still there, from them.
class BaseModel {
 public:
  BaseModel(const RunConfig& config, const RunArtefacts& artefacts, const BlobPaths& blobs)
      : artefacts_(artefacts), blobs_(blobs) {
    if (config.base == "source") return;
    const auto opened = model::OpenModel(config.model);
    if (opened.ok() && opened->spec.json == artefacts.model.json) directory_ = opened->directory;
    if (!directory_) rounded_ = config.base;
  }

  // Puts in the formats of the model's own files, where they are.
  void AddFormats(std::map<std::string, storage::DType>* formats) const {
    if (!directory_) return;
    for (const std::string& part : artefacts_.model.PartNames()) {
      const auto tensors = directory_->Part(part);
      if (!tensors.ok()) continue;
      for (const auto& [name, view] : *tensors) (*formats)[name] = view.dtype;
    }
  }

  // Format that the merged model has gone through; empty: none.
  const std::string& rounded() const { return rounded_; }

  // Calls take(tensors), which live as long as the call.
  template <typename Take>
  Status Part(const std::string& part, const Take& take) const {
    if (directory_) {
      SHOAL_ASSIGN_OR_RETURN(const storage::TensorMap tensors, directory_->Part(part));
      return take(tensors);
    }
    SHOAL_ASSIGN_OR_RETURN(
        const std::string path,
        PathOf(artefacts_.initial, part + std::string(model::kBaseSuffix), blobs_));
    SHOAL_ASSIGN_OR_RETURN(const File file, storage::OpenSafetensors(path));
    SHOAL_ASSIGN_OR_RETURN(const model::DecodedPart decoded,
                           model::DecodeBase(artefacts_.model, part, file->tensors()));
    return take(decoded.tensors);
  }

 private:
  const RunArtefacts& artefacts_;
  const BlobPaths& blobs_;
  std::shared_ptr<const storage::ModelDirectory> directory_;
  std::string rounded_;
};

// Part files of the model with the adapters' sums in it, made one part at a time in `scratch`.
Result<std::vector<std::string>> MergedParts(const model::ModelSpec& spec, const BaseModel& base,
                                             const storage::TensorMap& trained,
                                             const std::string& scratch) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(scratch, 0700));
  std::vector<std::string> paths;
  for (const std::string& part : spec.PartNames()) {
    paths.push_back(scratch + "/" + part + ".safetensors");
    SHOAL_RETURN_IF_ERROR(base.Part(part, [&](const storage::TensorMap& tensors) -> Status {
      SHOAL_ASSIGN_OR_RETURN(const model::MergedPart merged,
                             model::MergePart(spec, part, tensors, trained));
      return storage::WritePart(paths.back(), merged.tensors);
    }));
  }
  return paths;
}

}  // namespace

BlobPaths FindBlobs(const RunArtefacts& artefacts, const ExportRequest& request,
                    const storage::ContentStore& content) {
  BlobPaths blobs;
  for (const auto* const files : {&request.weights, &artefacts.initial}) {
    for (const auto& [name, file] : *files) {
      const storage::ContentHash hash = FromProto(file).hash;
      if (!blobs.contains(hash)) blobs.emplace(hash, content.PathOf(hash));
    }
  }
  return blobs;
}

Result<std::vector<std::string>> ExportRun(const RunConfig& config, const RunArtefacts& artefacts,
                                           const BlobPaths& blobs, const ExportRequest& request) {
  if (artefacts.without_weights) {
    return FailedPrecondition("this run has no weights to export");
  }
  const model::ModelSpec& spec = artefacts.model;
  model::ExportSource source;
  source.spec = spec;
  source.folder = HereOrKept(artefacts.model_folder, config);
  for (const std::string& file : artefacts.tokenizer_files) {
    source.files.push_back(HereOrKept(file, config));
  }
  source.model_card = request.model_card;
  std::vector<std::string> part_files;
  for (const std::string& part : spec.PartNames()) {
    SHOAL_ASSIGN_OR_RETURN(part_files.emplace_back(), PathOf(request.weights, part, blobs));
  }
  std::vector<File> files;
  const BaseModel base(config, artefacts, blobs);
  const ScratchFolder scratch(config.directory + "/tmp/export");
  if (spec.adapted) {
    SHOAL_ASSIGN_OR_RETURN(const model::AdapterConfig adapter,
                           model::ParseAdapterConfig(config.adapter_config_json, "the run"));
    source.adapter = {adapter, config.model, {}};
    SHOAL_ASSIGN_OR_RETURN(source.adapter->tensors, TrainedTensors(spec, part_files, &files));
    if (request.format.as != "adapter") {
      SHOAL_ASSIGN_OR_RETURN(part_files,
                             MergedParts(spec, base, source.adapter->tensors, scratch.path()));
    }
  }
  if (request.format.as != "adapter") {
    SHOAL_ASSIGN_OR_RETURN(source.tensors, storage::OpenParts(model::LayoutOf(spec), part_files));
    source.dtypes = SourceFormats(artefacts, blobs, config.base == "source");
    base.AddFormats(&source.dtypes);
  }
  SHOAL_ASSIGN_OR_RETURN(std::vector<std::string> notes,
                         model::ExportModel(source, request.format, request.path));
  if (!base.rounded().empty() && request.format.as != "adapter") {
    notes.push_back("the model's own files are gone from " + config.model +
                    ": the adapters' sums are in the model as the run keeps it, in " +
                    base.rounded());
  }
  return notes;
}

}  // namespace shoal::scheduler
