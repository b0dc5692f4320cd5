#include "storage/models/model_directory.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/file.h"
#include "common/memory/buffer.h"
#include "common/nesting.h"
#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"

namespace shoal::storage {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20;
constexpr std::uint64_t kIndexBytesMax = 64 << 20;
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr char kFetchBoth[] =
    "; config.json and the weights do not belong together, or a file is of another model: fetch "
    "the folder again";
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "tokenizer.model",
                                           "spm.model",
                                           "encoder.json",
                                           "vocab.bpe"};
// What goes with a tokenizer, and is of no use without.
constexpr const char* kBesideTokenizer[] = {"chat_template.jinja", "chat_template.json",
                                            "generation_config.json"};

using Files = std::vector<std::shared_ptr<const SafetensorsFile>>;

class HuggingFaceDirectory final : public ModelDirectory {
 public:
  HuggingFaceDirectory(std::string path, ModelLayout layout)
      : path_(std::move(path)), layout_(std::move(layout)) {}

  Status Load();

  const ModelLayout& layout() const override { return layout_; }
  Result<TensorMap> Part(const std::string& part) const override;
  std::vector<std::string> FreshTensors() const override { return fresh_names_; }
  std::vector<std::string> TokenizerFiles() const override;

 private:
  std::string InFolder(const std::string& file) const { return path_ + "/" + file; }
  Status LoadSharded();
  Status AddTensor(const std::string& stored_name, const TensorView& view);
  std::string CanonicalName(const std::string& stored_name) const;
  bool Lacks(const std::string& name) const { return !tensors_.contains(name); }
  Status CheckTensor(const std::string& name, const std::vector<std::int64_t>& shape) const;
  Status CheckAll() const;
  Status CheckTiedHead() const;
  void DrawFresh();

  const std::string path_;
  const ModelLayout layout_;
  Files files_;  // keep the mappings that tensors_ points into
  TensorMap tensors_;
  std::vector<std::string> fresh_names_;
  std::vector<Buffer> fresh_;  // of drawn values
};

Status HuggingFaceDirectory::Load() {
  std::error_code error;
  if (std::filesystem::exists(InFolder(kSingleFile), error)) {
    SHOAL_ASSIGN_OR_RETURN(auto file, OpenSafetensors(InFolder(kSingleFile)));
    for (const auto& [name, view] : file->tensors()) SHOAL_RETURN_IF_ERROR(AddTensor(name, view));
    files_.push_back(std::move(file));
  } else if (std::filesystem::exists(InFolder(kIndexFile), error)) {
    SHOAL_RETURN_IF_ERROR(LoadSharded());
  } else {
    const bool pickle = std::filesystem::exists(InFolder("pytorch_model.bin"), error);
    return NotFound(path_ + " holds neither " + kSingleFile + " nor " + kIndexFile +
                    (pickle ? "; pytorch_model.bin is a pickle and is never read, save the model "
                              "again with safe_serialization=True"
                            : "; give the folder of a Hugging Face model with safetensors files"));
  }
  for (const std::vector<std::string>& group : layout_.fresh_groups) {
    const auto lacks = [&](const std::string& name) { return Lacks(name); };
    if (!std::ranges::all_of(group, lacks)) continue;
    fresh_names_.insert(fresh_names_.end(), group.begin(), group.end());
  }
  SHOAL_RETURN_IF_ERROR(CheckAll());
  DrawFresh();
  return Status::Ok();
}

Status HuggingFaceDirectory::LoadSharded() {
  const std::string index = InFolder(kIndexFile);
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(index, kIndexBytesMax));
  SHOAL_RETURN_IF_ERROR(CheckJsonDepth(text, 16, index));
  SHOAL_RETURN_IF_ERROR(CheckRepeatedKeys(text, index));
  const auto root = ParseJson<nlohmann::json>(text);
  if (root.is_discarded() || !root.is_object() || !root.contains("weight_map") ||
      !root["weight_map"].is_object()) {
    return InvalidArgument(index + " has no weight_map object; it is damaged, fetch it again");
  }
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> shards;
  for (const auto& [tensor, value] : root["weight_map"].items()) {
    if (!value.is_string() || !IsPlainFileName(value.get_ref<const std::string&>())) {
      return InvalidArgument(index + ": tensor " + Quoted(tensor) +
                             " lies in no plain file name; the index is damaged, fetch it again");
    }
    const auto& file_name = value.get_ref<const std::string&>();
    auto& shard = shards[file_name];
    if (shard == nullptr) {
      std::error_code error;
      if (!std::filesystem::exists(InFolder(file_name), error)) {
        return NotFound(index + " names " + Quoted(file_name) +
                        ", which is not there; fetch that file, too");
      }
      SHOAL_ASSIGN_OR_RETURN(shard, OpenSafetensors(InFolder(file_name)));
      files_.push_back(shard);
    }
    const auto found = shard->tensors().find(tensor);
    if (found == shard->tensors().end()) {
      return InvalidArgument(index + " says that " + Quoted(file_name) + " holds tensor " +
                             Quoted(tensor) + ", but it does not; fetch both files again");
    }
    SHOAL_RETURN_IF_ERROR(AddTensor(tensor, found->second));
  }
  return Status::Ok();
}

std::string HuggingFaceDirectory::CanonicalName(const std::string& stored_name) const {
  std::string name = stored_name;
  if (name.starts_with(layout_.prefix)) name.erase(0, layout_.prefix.size());
  for (const auto& [old, today] : layout_.old_ends) {
    if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), today);
  }
  return name;
}

Status HuggingFaceDirectory::AddTensor(const std::string& stored_name, const TensorView& view) {
  const std::string name = CanonicalName(stored_name);
  const auto ends = [&](const std::string& end) { return name.ends_with(end); };
  const auto begins = [&](const std::string& begin) { return name.starts_with(begin); };
  if (std::ranges::any_of(layout_.buffer_ends, ends)) return Status::Ok();
  if (std::ranges::any_of(layout_.unused_begins, begins)) return Status::Ok();
  if (!tensors_.emplace(name, view).second) {
    return InvalidArgument(path_ + ": tensor " + Quoted(name) +
                           " is stored both with and without the prefix " + Quoted(layout_.prefix) +
                           ", or under an old name, too");
  }
  return Status::Ok();
}

Status HuggingFaceDirectory::CheckTensor(const std::string& name,
                                         const std::vector<std::int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    if (std::ranges::find(fresh_names_, name) != fresh_names_.end()) return Status::Ok();
    return InvalidArgument(path_ + ": tensor " + Quoted(name) + " is missing" + kFetchBoth);
  }
  if (found->second.shape != shape) {
    return InvalidArgument(path_ + ": tensor " + Quoted(name) + " has shape " +
                           ShapeText(found->second.shape) + ", but config.json asks for " +
                           ShapeText(shape) + kFetchBoth);
  }
  if (!IsFloat(found->second.dtype)) {
    return InvalidArgument(path_ + ": tensor " + Quoted(name) + " has dtype " +
                           std::string(DTypeName(found->second.dtype)) +
                           "; supported are F32, F16 and BF16");
  }
  return Status::Ok();
}

Status HuggingFaceDirectory::CheckAll() const {
  std::set<std::string> wanted;
  for (const ModelLayout::Part& part : layout_.parts) {
    for (const auto& [name, shape] : part.tensors) {
      wanted.insert(name);
      SHOAL_RETURN_IF_ERROR(CheckTensor(name, shape));
    }
  }
  for (const auto& [name, view] : tensors_) {
    if (!layout_.copy.empty() && name == layout_.copy) continue;
    // Dropping a weight in silence would train another model than the one given.
    if (wanted.count(name) == 0) {
      return InvalidArgument(path_ + ": tensor " + Quoted(name) +
                             " belongs to no part of the model that config.json describes" +
                             kFetchBoth);
    }
  }
  return CheckTiedHead();
}

// After the checks: the sizes of what is there bound those of what is not.
void HuggingFaceDirectory::DrawFresh() {
  for (const std::string& name : fresh_names_) {
    for (const ModelLayout::Part& part : layout_.parts) {
      const auto shape = part.tensors.find(name);
      if (shape == part.tensors.end()) continue;
      std::size_t values = 1;
      for (const std::int64_t size : shape->second) values *= static_cast<std::size_t>(size);
      Buffer& buffer = fresh_.emplace_back(values * sizeof(float));
      layout_.draw(name, buffer.floats());
      tensors_[name] = {DType::kF32, shape->second, std::as_const(buffer).bytes()};
    }
  }
}

// A tied head that is stored all the same must be a copy: of two different matrices, shoal would
// train one and drop the other. The mapped bytes are compared, so nothing is loaded for it.
Status HuggingFaceDirectory::CheckTiedHead() const {
  const auto head = tensors_.find(layout_.copy);
  if (layout_.copy.empty() || head == tensors_.end()) return Status::Ok();
  const TensorView& embedding = tensors_.at(layout_.shared);
  const TensorView& stored = head->second;
  std::string difference;
  if (stored.shape != embedding.shape) {
    difference = "shape " + ShapeText(stored.shape) + " instead of " + ShapeText(embedding.shape);
  } else if (stored.dtype != embedding.dtype) {
    difference = "dtype " + std::string(DTypeName(stored.dtype)) + " instead of " +
                 std::string(DTypeName(embedding.dtype));
  } else {
    const auto [first, other] = std::mismatch(stored.data.begin(), stored.data.end(),
                                              embedding.data.begin(), embedding.data.end());
    if (first == stored.data.end()) return Status::Ok();
    const auto byte = static_cast<std::size_t>(first - stored.data.begin());
    difference =
        "other values from element " + std::to_string(byte / DTypeBytes(stored.dtype)) + " on";
  }
  return InvalidArgument(path_ + ": config.json ties the head to " + layout_.shared +
                         ", but the stored " + layout_.copy + " is no copy of it (" + difference +
                         "); write \"tie_word_embeddings\": false into config.json to use the "
                         "stored head, or remove that tensor to use " +
                         layout_.shared);
}

Result<TensorMap> HuggingFaceDirectory::Part(const std::string& part) const {
  const ModelLayout::Part* const found = layout_.Find(part);
  if (found == nullptr) {
    return NotFound(path_ + " has no part " + Quoted(part) +
                    "; parts are embedding, layer.0 to layer." +
                    std::to_string(layout_.parts.size() - 3) + " and head");
  }
  TensorMap tensors;
  for (const auto& [name, shape] : found->tensors) tensors.emplace(name, tensors_.at(name));
  return tensors;
}

std::vector<std::string> HuggingFaceDirectory::TokenizerFiles() const {
  std::vector<std::string> files;
  std::error_code error;
  const auto add = [&](const char* name) {
    if (std::filesystem::is_regular_file(InFolder(name), error)) files.push_back(InFolder(name));
  };
  std::for_each(std::begin(kTokenizerFiles), std::end(kTokenizerFiles), add);
  if (!files.empty()) std::for_each(std::begin(kBesideTokenizer), std::end(kBesideTokenizer), add);
  return files;
}

}  // namespace

const ModelLayout::Part* ModelLayout::Find(const std::string& part) const {
  const auto found = std::ranges::find(parts, part, &Part::name);
  return found == parts.end() ? nullptr : &*found;
}

Result<std::string> ReadModelConfig(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return NotFound(path + " is no folder; give the folder of a Hugging Face model");
  }
  if (!std::filesystem::exists(path + "/config.json", error)) {
    return NotFound(path + " has no config.json; give the folder of a Hugging Face model");
  }
  return ReadFile(path + "/config.json", kConfigBytesMax);
}

Status CheckFinite(const std::string& name, const TensorView& view) {
  const std::optional<std::size_t> place = FirstNotFinite(view.dtype, view.data);
  if (!place) return Status::Ok();
  return InvalidArgument("tensor " + Quoted(name) + " has a value that is not finite, at place " +
                         std::to_string(*place) +
                         "; the file is damaged, or its training has failed: fetch it again, or "
                         "take an earlier checkpoint");
}

Status CheckFinite(const TensorMap& tensors) {
  for (const auto& [name, view] : tensors) SHOAL_RETURN_IF_ERROR(CheckFinite(name, view));
  return Status::Ok();
}

Result<std::shared_ptr<const ModelDirectory>> OpenModelDirectory(const std::string& path,
                                                                 ModelLayout layout) {
  auto directory = std::make_shared<HuggingFaceDirectory>(path, std::move(layout));
  SHOAL_RETURN_IF_ERROR(directory->Load());
  return std::shared_ptr<const ModelDirectory>(std::move(directory));
}

}  // namespace shoal::storage
