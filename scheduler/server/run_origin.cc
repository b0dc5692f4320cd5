#include "scheduler/server/run_origin.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/nesting.h"
#include "scheduler/history/json_number.h"
#include "scheduler/server/artefact_ref.h"
#include "storage/files/content_hash.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFormat = 1;
constexpr std::uint64_t kRecordBytesMax = 16 << 20;
constexpr std::uint64_t kModelFileBytesMax = 256 << 20;  // of a tokenizer's

std::string FolderOf(const std::string& directory) { return directory + "/origin"; }
std::string RecordOf(const std::string& directory) { return FolderOf(directory) + "/origin.json"; }

std::string HashText(std::string_view bytes) {
  return storage::HashOf(std::as_bytes(std::span(bytes))).ToHex();
}

Json ToJson(const std::string& name, const storage::ContentHash& hash, std::uint64_t size) {
  return {{"name", name}, {"size", size}, {"blake2b", hash.ToHex()}};
}

Json ToJson(const dataset::DataInfo& data) {
  return {{"row_tokens", data.row_tokens},
          {"train_rows", data.train_rows},
          {"validation_rows", data.validation_rows},
          {"vocabulary", data.vocabulary},
          {"tokenizer", data.tokenizer_fingerprint},
          {"text", data.text_sha256},
          {"tokens", data.tokens},
          {"kind", static_cast<std::uint32_t>(data.kind)},
          {"segmented", data.segmented},
          {"classes", data.classes},
          {"typed", data.typed}};
}

dataset::DataInfo DataFrom(const Json& json) {
  dataset::DataInfo data;
  data.row_tokens = WholeNumber<std::uint32_t>(json.at("row_tokens"));
  data.train_rows = WholeNumber<std::uint64_t>(json.at("train_rows"));
  data.validation_rows = WholeNumber<std::uint64_t>(json.at("validation_rows"));
  data.vocabulary = WholeNumber<std::uint32_t>(json.at("vocabulary"));
  data.tokenizer_fingerprint = json.at("tokenizer").get<std::string>();
  data.text_sha256 = json.at("text").get<std::string>();
  data.tokens = WholeNumber<std::uint64_t>(json.at("tokens"));
  // Records of runs that began before rows had kinds are of text.
  const auto kind = json.contains("kind") ? WholeNumber<std::uint32_t>(json["kind"]) : 0;
  if (kind <= static_cast<std::uint32_t>(dataset::DataKind::kClasses)) {
    data.kind = static_cast<dataset::DataKind>(kind);
  }
  data.segmented = json.value("segmented", false);
  if (json.contains("classes")) data.classes = WholeNumber<std::uint32_t>(json["classes"]);
  data.typed = json.value("typed", false);
  return data;
}

// Where the record is whole, throws for nothing but a record of another program.
Result<RunOrigin> OriginFrom(const Json& record, const std::string& directory) {
  RunOrigin origin;
  origin.model_folder = FolderOf(directory) + "/model";
  for (const Json& entry : record.at("artefacts")) {
    SHOAL_ASSIGN_OR_RETURN(const storage::ContentHash hash,
                           storage::ContentHash::FromHex(entry.at("blake2b").get<std::string>()));
    const std::string name = entry.at("name").get<std::string>();
    control::v1::ArtefactRef& artefact = origin.artefacts[name];
    artefact.set_name(name);
    artefact.set_hash(hash.digest.data(), hash.digest.size());
    artefact.set_size(WholeNumber<std::uint64_t>(entry.at("size")));
  }
  for (const Json& entry : record.at("files")) {
    const std::string path = origin.model_folder + "/" + entry.at("name").get<std::string>();
    SHOAL_ASSIGN_OR_RETURN(const storage::FileHash found, storage::HashFile(path));
    if (found.hash.ToHex() != entry.at("blake2b").get<std::string>()) {
      return DataLoss(path + " is damaged");
    }
    origin.model_files.push_back(path);
  }
  origin.data = DataFrom(record.at("data"));
  return origin;
}

}  // namespace

Status KeepOrigin(const std::string& directory, const RunOrigin& origin) {
  Json record = {{"format", kFormat}, {"artefacts", Json::array()}, {"files", Json::array()}};
  for (const auto& [name, artefact] : origin.artefacts) {
    record["artefacts"].push_back(ToJson(name, FromProto(artefact).hash, artefact.size()));
  }
  const std::string folder = FolderOf(directory) + "/model";
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder, 0700));
  for (const std::string& source : origin.model_files) {
    const std::string name = std::filesystem::path(source).filename().string();
    SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source, kModelFileBytesMax));
    const Result<std::string> there = ReadFile(folder + "/" + name, kModelFileBytesMax);
    if (!there.ok() || *there != bytes) {
      SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder + "/" + name, bytes));
    }
    record["files"].push_back(
        ToJson(name, storage::HashOf(std::as_bytes(std::span(bytes))), bytes.size()));
  }
  record["data"] = ToJson(origin.data);
  const std::string text = record.dump();
  return WriteFileAtomic(RecordOf(directory), HashText(text) + "\n" + text + "\n");
}

Result<RunOrigin> ReadOrigin(const std::string& directory) {
  const std::string path = RecordOf(directory);
  SHOAL_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kRecordBytesMax));
  const std::size_t line = text.find('\n');
  if (line == std::string::npos || !text.ends_with("\n")) return DataLoss(path + " is damaged");
  const std::string hash = text.substr(0, line);
  text = text.substr(line + 1);
  if (!text.empty()) text.pop_back();
  const Json record = ParseJson<Json>(text);
  if (HashText(text) != hash || !record.is_object()) return DataLoss(path + " is damaged");
  try {
    if (WholeNumber<std::uint64_t>(record.at("format")) != kFormat) {
      return Unimplemented(path + " was written by another version of shoal");
    }
    return OriginFrom(record, directory);
  } catch (const Json::exception&) {
    return DataLoss(path + " is damaged");
  }
}

}  // namespace shoal::scheduler
