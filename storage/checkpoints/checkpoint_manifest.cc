#include "storage/checkpoints/checkpoint_manifest.h"

#include <nlohmann/json.hpp>
#include <set>

#include "common/nesting.h"
#include "storage/files/foreign_text.h"

namespace shoal::storage {
namespace {

using nlohmann::json;

constexpr std::uint64_t kFormat = 1;

bool HasText(const json& object, const char* key) {
  return object.contains(key) && object[key].is_string();
}

bool HasNumber(const json& object, const char* key) {
  return object.contains(key) && object[key].is_number_unsigned();
}

}  // namespace

std::string FormatCheckpointManifest(const Checkpoint& checkpoint) {
  nlohmann::ordered_json root;
  root["format"] = kFormat;
  root["run"] = checkpoint.run.ToHex();
  root["step"] = checkpoint.step;
  root["files"] = nlohmann::ordered_json::array();
  for (const ArtefactRef& file : checkpoint.files) {
    root["files"].push_back(
        {{"name", file.name}, {"size", file.size}, {"blake2b", file.hash.ToHex()}});
  }
  return root.dump(1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + "\n";
}

Result<Checkpoint> ParseCheckpointManifest(const std::string& text, const std::string& name) {
  const Status damaged = InvalidArgument(name + " is no checkpoint manifest, or damaged");
  SHOAL_RETURN_IF_ERROR(CheckJsonDepth(text, 8, name));
  const json root = ParseJson<json>(text);
  if (root.is_discarded() || !root.is_object() || !HasNumber(root, "format")) return damaged;
  const auto format = root["format"].get<std::uint64_t>();
  if (format > kFormat) {
    return Unimplemented(name + " has format " + std::to_string(format) +
                         "; this program knows up to " + std::to_string(kFormat) +
                         ", use the newer one");
  }
  if (format != kFormat || !HasText(root, "run") || !HasNumber(root, "step") ||
      !root.contains("files") || !root["files"].is_array()) {
    return damaged;
  }
  Checkpoint checkpoint;
  const auto run = RunId::FromHex(root["run"].get_ref<const std::string&>());
  if (!run.ok()) return damaged;
  checkpoint.run = *run;
  checkpoint.step = root["step"].get<std::uint64_t>();
  std::set<std::string> names;
  for (const json& item : root["files"]) {
    if (!item.is_object() || !HasText(item, "name") || !HasNumber(item, "size") ||
        !HasText(item, "blake2b")) {
      return damaged;
    }
    ArtefactRef file;
    file.name = item["name"].get<std::string>();
    file.size = item["size"].get<std::uint64_t>();
    const auto hash = ContentHash::FromHex(item["blake2b"].get_ref<const std::string&>());
    if (!hash.ok() || !IsPlainFileName(file.name) || file.name == kManifestName ||
        !names.insert(file.name).second) {
      return damaged;
    }
    file.hash = *hash;
    checkpoint.files.push_back(std::move(file));
  }
  return checkpoint;
}

}  // namespace shoal::storage
